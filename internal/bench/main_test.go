package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/replay"
)

// TestScriptIsALog: what is measured is a session that keeps every rule, with
// the kinds of events that sessions have.
func TestScriptIsALog(t *testing.T) {
	steps, err := script("s", 3)
	if err != nil {
		t.Fatal(err)
	}
	types := map[event.Type]int{}
	feed := func(yield func(event.Record, error) bool) {
		for i, st := range steps {
			types[st.stored.Type]++
			if !yield(event.Record{StreamSeq: uint64(i + 1), Subject: "loop.ev.s." + string(st.stored.Type), Data: st.stored.Stored()}, nil) {
				return
			}
		}
	}
	for found, err := range replay.Audit(feed, replay.Config{}) {
		t.Errorf("%+v, %v", found, err)
	}
	for _, want := range []event.Type{
		event.TypeInputAccepted, event.TypeInputQueued, event.TypeInputDelivered, event.TypeOperationCompleted,
		event.TypeInvocationCompleted, event.TypeCheckpointSaved, event.TypeAssistantMessage, event.TypeGenerationFinished,
	} {
		if types[want] < 3 {
			t.Errorf("%d events %s in 3 turns", types[want], want)
		}
	}
}

// TestStepsAreRepeatable: made again, a step is the same bytes, so both sides
// send the same.
func TestStepsAreRepeatable(t *testing.T) {
	steps, err := script("s", 2)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession("s")
	for i, st := range steps {
		e, err := s.make(st)
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Stored()) != string(st.stored.Stored()) {
			t.Fatalf("step %d:\n got %s\nwant %s", i, e.Stored(), st.stored.Stored())
		}
		if err := s.fold(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench", "out.json")
	var out strings.Builder
	if err := run(t.Context(), []string{"-rounds", "2", "-turns", "1", "-sessions", "3", "-out", path}, &out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 {
		t.Fatalf("%d rows, want 2", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Ours <= 0 || row.Plain <= 0 || len(row.Ratios) != 2 || row.Events < 20 || row.Bytes < 200 {
			t.Errorf("row %+v", row)
		}
		if !strings.Contains(out.String(), row.Name) {
			t.Errorf("the table has no row %q:\n%s", row.Name, out.String())
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("a run left %v behind, %v", left, err)
	}
	if err := run(t.Context(), []string{"-rounds", "0"}, &out); err == nil {
		t.Error("a run without rounds began")
	}
}

func TestMedianAndGoals(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median is %v", m)
	}
	for _, c := range []struct {
		ours, goal   float64
		atMost, held bool
	}{{1.5, 1.6, true, true}, {1.7, 1.6, true, false}, {0.9, 0.85, false, true}, {0.8, 0.85, false, false}} {
		r := row{Goal: c.goal, AtMost: c.atMost}
		var order []int
		err := r.rounds(2, func(first int) (pair, error) {
			order = append(order, first)
			return pair{ours: c.ours * 10, theirs: 10}, nil
		})
		if err != nil || r.Held != c.held {
			t.Errorf("ratio %v against %v: held %v, %v", r.Ratio, c.goal, r.Held, err)
		}
		if want := []int{ours, theirs, ours}; !slices.Equal(order, want) {
			t.Errorf("first were %v, want %v", order, want)
		}
	}
}
