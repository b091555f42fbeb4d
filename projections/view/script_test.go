package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/loopd/loopd/event"
)

// TestScripts plays testdata/*.txt: `fold` takes one event a line, as
// `type {fields}` with cause=… or epoch=… between them where they matter, and
// prints the rows that it wrote. Run with -rewrite, then read the diff.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		s := script{model: NewModel()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "fold" {
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				rec, err := s.record(strings.TrimSpace(line))
				if err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
				s.fold(t, rec, &out, d.HasArg("session"))
			}
			return out.String()
		})
	})
}

type script struct {
	seq   uint64
	model *Model
}

// record builds the stored bytes of one line.
func (s *script) record(line string) (event.Record, error) {
	head, fields, ok := strings.Cut(line, "{")
	words := strings.Fields(head)
	if !ok || len(words) == 0 {
		return event.Record{}, fmt.Errorf("line %q: want type {fields}", line)
	}
	s.seq++
	cause, epoch := "", "1"
	for _, w := range words[1:] {
		if v, ok := strings.CutPrefix(w, "cause="); ok {
			cause = fmt.Sprintf(`"cause":%q,`, v)
		}
		if v, ok := strings.CutPrefix(w, "epoch="); ok {
			epoch = v
		}
	}
	envelope := fmt.Sprintf(`{"version":1,"id":"%026d","type":%q,"session_id":"s","sequence":%d,"epoch":%s,"time":%q,"prev":"",%s`,
		s.seq, words[0], s.seq, epoch, time.Unix(int64(s.seq), 0).UTC().Format(time.RFC3339), cause)
	if strings.TrimSpace(fields) == "}" {
		envelope = strings.TrimSuffix(envelope, ",")
	}
	return event.Record{StreamSeq: s.seq, Data: []byte(envelope + fields)}, nil
}

// fold prints each row that the record changed; the session's row, which every
// event changes, where it is asked for.
func (s *script) fold(t *testing.T, rec event.Record, out *strings.Builder, session bool) {
	before := map[string]string{}
	for k, row := range s.model.Rows() {
		before[k] = string(row)
	}
	if err := s.model.Apply(rec); err != nil {
		t.Fatal(err)
	}
	if reason, ok := s.model.Parked()[rec.StreamSeq]; ok {
		fmt.Fprintf(out, "%d parked: %s\n", rec.StreamSeq, reason)
	}
	for k, row := range s.model.Rows() {
		key, err := ParseKey([]byte(k))
		if err != nil {
			t.Fatal(err)
		}
		if before[k] == string(row) || (key.View == ViewSession && !session) {
			continue
		}
		fmt.Fprintf(out, "%d %s %s\n", rec.StreamSeq, key.View, brief(string(row)))
		delete(before, k)
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		key, err := ParseKey([]byte(k))
		if err != nil {
			t.Fatal(err)
		}
		_, stays, err := s.model.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		if !stays {
			fmt.Fprintf(out, "%d %s %s is gone\n", rec.StreamSeq, key.View, key.ID)
		}
	}
}

// brief leaves out what each row says again: whose it is and when.
func brief(row string) string {
	rest := row[strings.Index(row, `"updated_at"`):]
	_, rest, _ = strings.Cut(rest, ",")
	return "{" + rest
}

func TestEveryTypeIsFolded(t *testing.T) {
	for _, typ := range event.Types() {
		rec := event.Record{StreamSeq: 1, Data: fmt.Appendf(nil,
			`{"version":1,"id":"%026d","type":%q,"session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","cause":"i",`+
				`"input_id":"i","by":"i","decided_by":"i","generation_id":"g","target_generation_id":"g","operation_id":"o","invocation_id":"v","job_id":"j","checkpoint_id":"c","input":{}}`, 1, typ)}
		_, keys, err := Read(rec)
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		for i, k := range keys {
			if slices.Contains(keys[:i], k) {
				t.Errorf("%s goes to %s twice", typ, k)
			}
		}
		family := map[string]Name{"input": ViewInput, "command": ViewInput, "observation": ViewInput, "steering": ViewInput,
			"generation": ViewGeneration, "assistant": ViewGeneration, "operation": ViewOperation, "continuation": ViewCheckpoint,
			"checkpoint": ViewCheckpoint, "invocation": ViewInvocation, "job": ViewJob, "session": ViewSession, "context": ViewSession}
		want := family[typ.Family()]
		if typ == event.TypeInvocationWithheld {
			want = ViewOperation // such a call has no id of its own
		}
		if !slices.ContainsFunc(keys, func(k Key) bool { return k.View == want }) {
			t.Errorf("%s goes to %v, not to view %s", typ, keys, want)
		}
	}
}

func TestReadParks(t *testing.T) {
	good := `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"job.queued","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","job_id":"j","generation_id":"g"}`
	if _, _, err := Read(event.Record{Data: []byte(good)}); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"not json":        `{`,
		"newer version":   strings.Replace(good, `"version":1`, `"version":2`, 1),
		"without an id":   strings.Replace(good, `"job_id":"j"`, `"job_id":""`, 1),
		"wrong shape":     strings.Replace(good, `"job_id":"j"`, `"job_id":1`, 1),
		"no generation":   strings.Replace(good, `,"generation_id":"g"`, ``, 1),
		"no session":      strings.Replace(good, `"session_id":"s"`, `"session_id":""`, 1),
		"a repeated name": strings.Replace(good, `"prev":""`, `"prev":"","prev":""`, 1),
	} {
		if _, _, err := Read(event.Record{Data: []byte(bad)}); err == nil {
			t.Errorf("%s is not parked", name)
		}
	}
	if _, _, err := Read(event.Record{Data: []byte(strings.Replace(good, "job.queued", "weather.changed", 1))}); err != nil {
		t.Errorf("an unknown type is parked: %v", err)
	}
}

// Two events folded onto one row: neither sees the other, and the row stays.
func TestFoldLeavesTheRowItIsGiven(t *testing.T) {
	deliver := func(id string) event.Event {
		return event.Event{SessionID: "s", Payload: event.InputDelivered{InputID: id, GenerationID: "g"}}
	}
	k := Key{ViewGeneration, "s", "g"}
	row, _ := Fold(k, nil, event.Event{SessionID: "s", Payload: event.GenerationStarted{GenerationID: "g"}})
	for i := range 20 {
		before, err := Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := Fold(k, row, deliver(fmt.Sprintf("one-%d", i)))
		Fold(k, row, deliver(fmt.Sprintf("two-%d", i)))
		if after, err := Encode(row); err != nil || string(after) != string(before) {
			t.Fatalf("the row became %s, was %s", after, before)
		}
		if got := one.(*Generation).InputIDs[i]; got != fmt.Sprintf("one-%d", i) {
			t.Fatalf("another fold changed a row: %s", got)
		}
		row = one
	}
}
