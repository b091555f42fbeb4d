package replay

import (
	"errors"
	"testing"

	"github.com/loopd/loopd/event"
)

func TestE1(t *testing.T) {
	keeps(t, "a turn", simple())
	gap := simple().records()
	gap = append(gap[:4:4], gap[5:]...)
	if got := rulesOf(auditRecords(t, gap)); len(got) != 1 || got[0] != "E1" {
		t.Errorf("a gap: %v", got)
	}
	twice := simple().records()
	twice = append(twice[:4:4], twice[3:]...)
	if got := rulesOf(auditRecords(t, twice)); len(got) != 1 || got[0] != "E1" {
		t.Errorf("a record stored twice: %v", got)
	}
	changed := simple().records()
	other := edit(simple(), 0, func(p *event.SessionClaimed) { p.Owner = "c" }).records()
	changed[1] = other[1]
	if got := rulesOf(auditRecords(t, changed)); len(got) != 1 || got[0] != "E1" {
		t.Errorf("a changed record: %v", got)
	}
}

func TestE2(t *testing.T) {
	s := simple()
	s.facts[3].raw = []byte(`{"version":1,"session_id":"s","sequence":4,`)
	got := rulesOf(audit(t, s))
	if len(got) != 1 || got[0] != "E2" {
		t.Errorf("a record that does not decode: %v", got)
	}
	s = simple()
	s.facts[6].raw = []byte(`{"version":1,"id":"x","session_id":"s","sequence":7}`)
	if got := rulesOf(audit(t, s)); len(got) != 1 || got[0] != "E2" {
		t.Errorf("an envelope without its fields: %v", got)
	}
	if got := auditRecords(t, []event.Record{{StreamSeq: 9, Subject: "loop.ev.~cw.a.b", Data: []byte("x")}, {StreamSeq: 10, Data: []byte("x")}}); len(got) != 2 ||
		got[0].Session != "s" || got[0].StreamSeq != 9 || got[1].Session != "" {
		t.Errorf("records that are no events: %+v", got)
	}
	reject := Config{Validate: func(typ string, data []byte) error {
		if typ == "session.claimed" && len(data) > 0 {
			return errors.New("owner: missing")
		}
		return nil
	}}
	a := New(reject)
	var found []Finding
	for _, r := range simple().records() {
		found = append(found, a.Observe(r)...)
	}
	if len(found) != 1 || found[0].Rule != "E2" || found[0].Sequence != 2 {
		t.Errorf("a schema's no: %+v", found)
	}
}

func TestUnknownTypesAreKeptAndNeverFatal(t *testing.T) {
	s := simple()
	known := s.clone()
	known.facts = append(known.facts, fact{label: "weather.changed", epoch: 1})
	records := s.records()
	last := records[len(records)-1]
	future := []byte(`{"version":1,"id":"` + eventID(90) + `","type":"weather.changed","session_id":"s","sequence":` + event.Seq(len(records)+1).String() +
		`,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"` + event.Digest(last.Data) + `","generation_id":7}`)
	records = append(records, event.Record{StreamSeq: 99, Data: future})
	a := New(Config{Validate: func(typ string, _ []byte) error {
		if typ == "weather.changed" {
			return errors.New("no schema")
		}
		return nil
	}})
	for _, r := range records {
		for _, f := range a.Observe(r) {
			t.Errorf("%+v", f)
		}
	}
}

func TestE3(t *testing.T) {
	taken := func() *script {
		return newScript().turn("g1", "in-1").claim().ask("o1", "g1").answer("o1", "stop", "x").finish("g1", "o1", "x", "in-1")
	}
	keeps(t, "a second owner", taken())
	unclaimed := newScript()
	unclaimed.facts = unclaimed.facts[:1]
	keeps(t, "opened, claimed later in the same epoch", unclaimed.clone().add(event.SessionClaimed{Owner: "b"}))
	s := taken()
	s.facts[len(s.facts)-3].epoch = 1
	breaks(t, "E3", "an older owner appends", s)
	s = taken()
	for i := range s.facts {
		if s.facts[i].epoch == 2 {
			s.facts[i].epoch = 3
		}
	}
	breaks(t, "E3", "an epoch is left out", s)
	breaks(t, "E3", "a new epoch without a claim", taken().drop(event.TypeSessionClaimed, 1))
	breaks(t, "E3", "never claimed", taken().drop(event.TypeSessionClaimed, 0))
	breaks(t, "E3", "claimed twice", taken().repeat(event.TypeSessionClaimed, 0))
	s = unclaimed.clone()
	s.epoch = 2
	breaks(t, "E3", "opened, claimed in epoch 2", s.add(event.SessionClaimed{Owner: "b"}))
}

func TestE4(t *testing.T) {
	closed := func() *script { return simple().stopIdle() }
	keeps(t, "closed", closed())
	keeps(t, "evidence after the end", closed().claim().reject("in-9", "session_closed").add(event.OperationInspected{OperationID: "o1", Observed: "missing"}))
	breaks(t, "E4", "not opened", closed().drop(event.TypeSessionOpened, 0))
	breaks(t, "E4", "opened twice", closed().insert(event.TypeInputAccepted, 0, event.SessionOpened{}))
	breaks(t, "E4", "idle after the end", closed().add(event.SessionIdle{}))
	breaks(t, "E4", "a turn after the end", closed().add(event.SessionClosed{Status: "completed"}))
	breaks(t, "E4", "accepted after the end", closed().accept("in-9", "user"), "P2", "W1")
}
