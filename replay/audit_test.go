package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

func TestRulesAreNamedOnceAndAllJudged(t *testing.T) {
	want := strings.Fields("E1 E2 E3 E4 I1 I2 I3 I4 I5 I6 G1 G2 G3 G4 G5 G6 G7 S1 S2 S3 S4 O1 O2 O3 O4 C1 C2 C3 C4 V1 V2 V3 V4 J1 W1 P1 P2 P3 P4 P5 P6 P7 P8 P9 P11 P12 P13")
	var got []string
	for _, r := range Rules() {
		got = append(got, r.ID)
		if r.Sentence == "" || r.judge == nil && r.ID != "W1" {
			t.Errorf("%s has no sentence or no judge", r.ID)
		}
		for _, typ := range r.types {
			if !event.Known(typ) {
				t.Errorf("%s judges %s, which is no type", r.ID, typ)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rules %v, want %v", got, want)
	}
}

// TestSessionsAreJudgedApart interleaves right and broken sessions: each is
// judged as if it stood alone.
func TestSessionsAreJudgedApart(t *testing.T) {
	scripts := []*script{nativeSession(), toolSession(), recoverySession(), twoTurns().drop(event.TypeGenerationFinished, 0)}
	var runs [][]event.Record
	for i, s := range scripts {
		s.session = fmt.Sprintf("s%d", i)
		runs = append(runs, s.records())
	}
	a := New(Config{})
	var found []Finding
	var n uint64
	for more := true; more; {
		more = false
		for i := range runs {
			if len(runs[i]) == 0 {
				continue
			}
			n++
			rec := runs[i][0]
			rec.StreamSeq = n
			found = append(found, a.Observe(rec)...)
			runs[i], more = runs[i][1:], true
		}
	}
	found = append(found, a.Close()...)
	if len(found) != 1 || found[0].Session != "s3" || found[0].Rule != "G1" || found[0].StreamSeq == 0 || found[0].Sequence == 0 {
		t.Errorf("%+v", found)
	}
	sum := a.Summary()
	if sum.Records != n || sum.Sessions != 4 || sum.Closed != 3 || sum.Findings != 1 || sum.ByRule["G1"] != 1 {
		t.Errorf("%+v", sum)
	}
	if again := a.Close(); again != nil {
		t.Errorf("closed twice: %v", again)
	}
}

func TestFindingsOfASessionAreBounded(t *testing.T) {
	s := simple()
	for range 20 {
		s.add(event.JobReturned{JobID: "never"})
		s.add(event.JobQueued{JobID: "never"}) // again and again
	}
	a := New(Config{MaxFindings: 3})
	told := 0
	for _, r := range s.records() {
		told += len(a.Observe(r))
	}
	if sum := a.Summary(); told != 3 || sum.Findings <= 3 || sum.Untold != sum.Findings-3 || sum.ByRule["J1"] != sum.Findings {
		t.Errorf("told %d, %+v", told, sum)
	}
}

func TestAuditEndsAtAFeedsErrorAndAtItsReaderswish(t *testing.T) {
	broken := errors.New("broken")
	var errs, found int
	for _, err := range Audit(func(yield func(event.Record, error) bool) {
		for _, r := range simple().records() {
			if !yield(r, nil) {
				return
			}
		}
		yield(event.Record{}, broken)
	}, Config{}) {
		if errors.Is(err, broken) {
			errs++
		} else {
			found++
		}
	}
	if errs != 1 || found != 0 {
		t.Errorf("%d errors, %d findings", errs, found)
	}
	for range Audit(feed(twoTurns().drop(event.TypeCheckpointSaved, 0).drop(event.TypeCheckpointSaved, 0).records()), Config{}) {
		break
	}
}

// TestAnyOrderOfAnyFactsIsSurvived feeds the auditor nonsense: it must judge
// it, and never panic.
func TestAnyOrderOfAnyFactsIsSurvived(t *testing.T) {
	all := slices.Concat(nativeSession().facts, toolSession().facts, recoverySession().facts)
	for step := 1; step < len(all); step += 7 {
		s := newScript()
		s.facts = nil
		for i := range all {
			s.facts = append(s.facts, all[(i*step+step)%len(all)])
		}
		if len(audit(t, s)) == 0 {
			t.Errorf("step %d: nonsense passes", step)
		}
	}
}

// FuzzObserve: any bytes, in any session, are judged.
func FuzzObserve(f *testing.F) {
	for _, r := range toolSession().records() {
		f.Add(r.Subject, r.Data)
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		a := New(Config{})
		records := simple().records()
		for i, r := range records {
			if i == len(records)-2 {
				a.Observe(event.Record{Subject: subject, Data: data})
			}
			a.Observe(r)
		}
		a.Close()
	})
}
