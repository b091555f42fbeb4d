package runner_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// TestCloseLetsCallsEnd: a running call may end, but nothing new begins: no
// operation, no tool. After Close nothing is appended; the next owner goes on.
func TestCloseLetsCallsEnd(t *testing.T) {
	for _, what := range []string{"call look, write", "call job", "cut", "hello"} {
		t.Run(what, func(t *testing.T) {
			w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
			begun, release := make(chan struct{}), make(chan struct{})
			p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
				if p.requests() == 1 {
					close(begun)
					<-release
				}
				return p.converse(req, out)
			}
			g := w.run(p, func(c *runner.Config) { c.Tools = s })
			sent := w.say("s", "i1", what)
			receive(t, "the request", begun)
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				if err := g.r.Close(w.ctx); err != nil {
					t.Error(err)
				}
			}()
			w.poll("Close has begun", g.r.Draining)
			close(release)
			receive(t, "Close", closed)
			all := w.stored("s")
			if count(all, event.TypeOperationAdmitted) != 1 || count(all, event.TypeOperationCompleted) != 1 || p.requests() != 1 || len(s.ran) != 0 {
				t.Errorf("%d requests, tools %v:\n%s", p.requests(), s.ran, outline(all))
			}
			before := w.head()
			sent = max(sent, w.say("s", "i2", "meanwhile"))
			if w.head() != before {
				t.Errorf("appended after Close:\n%s", outline(w.stored("s")[len(all):]))
			}
			next := w.run(p, func(c *runner.Config) { c.Tools = s })
			w.reconcile("s", next, sent)
			if n := count(w.stored("s"), event.TypeInputDelivered); n < 2 {
				t.Errorf("the next owner does not go on:\n%s", outline(w.stored("s")))
			}
			w.audit()
		})
	}
}

// TestCloseDoesNotWaitForEver: what runs beyond the grace is cut off, and the
// next owner looks it up.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	begun := make(chan struct{})
	p.answer = func(ctx context.Context, _ loop.Request, _ loop.Stream) loop.Outcome {
		close(begun)
		<-ctx.Done()
		return loop.Uncertain{Reason: event.UnknownTransport}
	}
	g := w.run(p, nil)
	w.say("s", "i1", "hello")
	receive(t, "the request", begun)
	grace, cancel := context.WithCancel(w.ctx)
	cancel()
	if err := g.r.Close(grace); err != nil {
		t.Error(err)
	}
	<-g.gone
	if all := w.stored("s"); all[len(all)-1].Type != event.TypeOperationDispatched {
		t.Errorf("appended while it was cut off:\n%s", outline(all))
	}
	p.answer = nil
	w.run(p, nil)
	if d := last[event.GenerationDetached](t, w.awaitIdle("s", 1)); d.Reason != event.DetachedOwnerLost {
		t.Errorf("detached: %+v", d)
	}
	w.audit()
}

// TestNothingIsLeftRunning after Close and after Kill, calls, tools and timers
// included; what is asked of a runner then is answered at once.
func TestNothingIsLeftRunning(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"close": func(g *rig) {
			grace, cancel := context.WithCancel(g.w.ctx)
			cancel()
			if err := g.r.Close(grace); err != nil {
				t.Error(err)
			}
		},
		"kill": func(g *rig) { g.r.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
			begun := make(chan struct{}, 2)
			p.answer = func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
				if lastHeard(req).Text != "hang" {
					return p.converse(req, out)
				}
				begun <- struct{}{}
				<-ctx.Done()
				return nil
			}
			s.call = func(ctx context.Context, _ loop.ToolRequest) loop.ToolOutcome {
				begun <- struct{}{}
				<-ctx.Done()
				return loop.ToolOutcome{Lost: true}
			}
			g := w.run(p, func(c *runner.Config) { c.Tools = s })
			w.say("a", "i1", "hang")
			w.say("b", "i1", "call write")
			receive(t, "the request", begun)
			receive(t, "the tool", begun)
			end(g)
			<-g.gone
			w.poll("nothing of it is left running", func() bool { return left() == 0 })
			for _, err := range []error{g.r.Claim(w.ctx, "a"), g.r.Claim(w.ctx, "new"), g.r.Inspect(w.ctx, "a", "x")} {
				if err == nil {
					t.Error("a runner that has ended still takes orders")
				}
			}
			before := w.head()
			w.say("a", "i2", "late")
			w.run(newProvider(), func(c *runner.Config) { c.Log = onlySession{c.Log, "nobody"} }).settled(0)
			if w.head() != before {
				t.Errorf("%d events are appended after the end", w.head()-before)
			}
			w.audit()
		})
	}
}

// left counts the goroutines in which a runner still does something.
func left() (n int) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "loopd/internal/runner.(") {
			n++
		}
	}
	return n
}
