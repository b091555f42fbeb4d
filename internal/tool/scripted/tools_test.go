package scripted

import (
	"context"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// gates has one gate, which is a channel.
type gates struct {
	arrived chan string
	open    chan struct{}
}

func (g gates) Wait(ctx context.Context, name string) error {
	g.arrived <- name
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ask(invocation string) loop.ToolRequest {
	return loop.ToolRequest{Tool: "t", InvocationID: invocation}
}

func TestEntriesAnswerInOrder(t *testing.T) {
	tools := New(Config{Entries: map[string][]Entry{"t": {
		{Result: "one"}, {Result: "no", Failed: true}, {Result: "kept", Lost: true, Lookup: []event.Observed{event.ObservedPending, event.ObservedComplete}},
	}}})
	for i, want := range []loop.ToolOutcome{{Result: "one"}, {Result: "no", Failed: true}, {Lost: true}} {
		if got := tools.Call(t.Context(), ask("v")); got != want {
			t.Errorf("call %d: %+v", i, got)
		}
	}
	if tools.Effects()["t"] != 3 {
		t.Errorf("effects %v", tools.Effects())
	}
	if got := tools.Inspect(t.Context(), ask("v")); got.Observed != event.ObservedPending {
		t.Errorf("first look-up %+v", got)
	}
	for range 2 {
		if got := tools.Inspect(t.Context(), ask("v")); got.Observed != event.ObservedComplete || got.Outcome.Result != "kept" || got.Outcome.Lost {
			t.Errorf("later look-up %+v", got)
		}
	}
	if got := tools.Inspect(t.Context(), ask("other")); got.Observed != event.ObservedMissing {
		t.Errorf("a call that never arrived is %s", got.Observed)
	}
}

func TestBeyondTheLastEntry(t *testing.T) {
	var beyond []string
	cfg := Config{OnExcess: func(r loop.ToolRequest) { beyond = append(beyond, r.InvocationID) }}
	if got := New(cfg).Call(t.Context(), ask("v1")); !got.Failed {
		t.Errorf("%+v", got)
	}
	cfg.Excess = &Entry{Result: "ok"}
	if got := New(cfg).Call(t.Context(), ask("v2")); got.Failed || got.Result != "ok" {
		t.Errorf("%+v", got)
	}
	if len(beyond) != 2 {
		t.Errorf("beyond the script: %v", beyond)
	}
}

func TestACallWaitsAtItsGate(t *testing.T) {
	g := gates{arrived: make(chan string, 1), open: make(chan struct{})}
	tools := New(Config{Gates: g, Entries: map[string][]Entry{"t": {{Gate: "a", Result: "1"}, {Gate: "b", Result: "2"}}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan loop.ToolOutcome)
	go func() { done <- tools.Call(ctx, ask("v1")) }()
	if name := <-g.arrived; name != "a" || tools.Effects()["t"] != 1 {
		t.Errorf("it waits at %q, effects %v", name, tools.Effects())
	}
	cancel()
	if got := <-done; !got.Lost {
		t.Errorf("a lost connection gave %+v", got)
	}
	if got := tools.Call(ctx, ask("v1")); !got.Lost || tools.Effects()["t"] != 1 {
		t.Errorf("a call without a connection arrived: %+v", got)
	}
	close(g.open)
	if got := tools.Call(t.Context(), ask("v2")); got.Result != "2" {
		t.Errorf("%+v", got)
	}
	if got := tools.Inspect(t.Context(), ask("v2")); got.Observed != event.ObservedUnsupported {
		t.Errorf("the default look-up says %s", got.Observed)
	}
}
