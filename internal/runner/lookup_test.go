package runner_test

import (
	"context"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// rereader is a provider whose look-up needs what was saved.
type rereader struct {
	*provider
	saved chan string
}

func (r rereader) InspectSaved(_ context.Context, req loop.Request, saved []byte) loop.Inspection {
	r.saved <- string(saved)
	return r.Inspect(context.Background(), req)
}

// TestLookUpGetsWhatWasSaved: the next owner hands the provider the bytes that
// the dead one saved.
func TestLookUpGetsWhatWasSaved(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	half := make(chan struct{})
	p.answer = func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		for _, part := range []string{"id=7;", "half"} {
			if err := out.Raw([]byte(part)); err != nil {
				t.Error(err)
			}
		}
		close(half)
		<-ctx.Done()
		return loop.Uncertain{Reason: event.UnknownTransport}
	}
	g := w.run(p, nil)
	w.say("s", "i1", "hello")
	receive(t, "half of the answer", half)
	g.kill()
	operation := last[event.OperationDispatched](t, w.stored("s")).OperationID
	p.mu.Lock()
	p.said[operation] = loop.Completion{FinishReason: "stop", Finish: event.FinishStop, Text: "whole", ResponseDigest: event.Digest(nil)}
	p.mu.Unlock()
	r := rereader{p, make(chan string, 1)}
	w.run(p, func(c *runner.Config) { c.Provider = r })
	if saved := receive(t, "the look-up", r.saved); saved != "id=7;half" {
		t.Errorf("the look-up gets %q", saved)
	}
	all := w.awaitIdle("s", 1)
	if f := last[event.GenerationFinished](t, all); f.Text != "whole" {
		t.Errorf("finished: %+v", f)
	}
	frames := w.frames("s", operation)
	if end := frames[len(frames)-1]; end.Type != event.FrameOperation || end.State != "completed" {
		t.Errorf("the last frame is %+v", end)
	}
	w.audit()
}

// TestLookUpOnDemand: what an unknown original says after its generation ended
// is late evidence, and nothing follows from it.
func TestLookUpOnDemand(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	p.answer = func(context.Context, loop.Request, loop.Stream) loop.Outcome { return nil }
	g := w.run(p, nil)
	w.say("s", "i1", "hello")
	operation := last[event.OperationUnknown](t, w.awaitIdle("s", 1)).OperationID
	p.mu.Lock()
	p.said[operation] = loop.Completion{FinishReason: "stop", Finish: event.FinishStop, Text: "late", ResponseDigest: event.Digest(nil)}
	p.mu.Unlock()
	if err := g.r.Inspect(w.ctx, "s", operation); err != nil {
		t.Fatal(err)
	}
	all := w.awaitN("s", event.TypeOperationCompleted, 1)
	if c := last[event.OperationCompleted](t, all); !c.Late || !c.Recovered {
		t.Errorf("completed: %+v", c)
	}
	w.poll("rest", g.r.Settled)
	if all := w.stored("s"); all[len(all)-1].Type != event.TypeOperationCompleted {
		t.Errorf("something follows from late evidence:\n%s", outline(all))
	}
	w.audit()
}

// TestConfigIsChecked before anything runs.
func TestConfigIsChecked(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	whole := runner.Config{Owner: "o", Log: w.log, Provider: p, Writer: func(session string, last uint64) runner.Appender { return w.log.Writer(session, last) }}
	if _, err := runner.New(whole); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*runner.Config){
		"owner":    func(c *runner.Config) { c.Owner = "" },
		"log":      func(c *runner.Config) { c.Log = nil },
		"writer":   func(c *runner.Config) { c.Writer = nil },
		"provider": func(c *runner.Config) { c.Provider = nil },
		"steering": func(c *runner.Config) { c.Loop.Steering = event.SteeringModeNative },
	} {
		c := whole
		spoil(&c)
		if _, err := runner.New(c); err == nil {
			t.Errorf("a configuration without its %s is taken", name)
		}
	}
}
