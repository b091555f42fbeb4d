package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// TestAdaptersThatFail: whatever an adapter does wrong, its operation is
// unknown, the generation is detached, and the session goes on.
func TestAdaptersThatFail(t *testing.T) {
	cases := []struct {
		name   string
		answer func(context.Context, loop.Request, loop.Stream) loop.Outcome
	}{
		{"panics", func(context.Context, loop.Request, loop.Stream) loop.Outcome { panic("adapter") }},
		{"gives no outcome", func(context.Context, loop.Request, loop.Stream) loop.Outcome { return nil }},
		{"gives no reason", func(context.Context, loop.Request, loop.Stream) loop.Outcome { return loop.Uncertain{} }},
		{"gives no digest", func(context.Context, loop.Request, loop.Stream) loop.Outcome {
			return &loop.Uncertain{Reason: event.UnknownTransport}
		}},
		{"panics after a frame", func(_ context.Context, _ loop.Request, out loop.Stream) loop.Outcome {
			if err := out.Raw([]byte("half")); err != nil {
				return nil
			}
			out.Message("half")
			panic("adapter")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, p := newWorld(t, nil), newProvider()
			p.answer = c.answer
			p.inspect = func(context.Context, loop.Request) loop.Inspection {
				return loop.Inspection{Observed: event.ObservedUnsupported}
			}
			w.run(p, nil)
			w.say("s", "i1", "hello")
			all := w.awaitIdle("s", 1)
			if u := last[event.OperationUnknown](t, all); u.Reason != event.UnknownTransport {
				t.Errorf("unknown: %+v", u)
			}
			if d := last[event.GenerationDetached](t, all); d.Reason != event.DetachedOperationUncertain {
				t.Errorf("detached: %+v", d)
			}
			frames := w.frames("s", last[event.OperationUnknown](t, all).OperationID)
			if f := frames[len(frames)-1]; f.Type != event.FrameOperation || f.State != "unknown" {
				t.Errorf("the last frame is %+v", f)
			}
			p.answer = nil
			w.say("s", "i2", "again")
			w.awaitN("s", event.TypeGenerationFinished, 1)
			w.awaitIdle("s", 2)
			w.audit()
		})
	}
}

// TestLookUpsThatFail: a look-up that panics, hangs, or claims a result that
// it does not have, is no result and no permission.
func TestLookUpsThatFail(t *testing.T) {
	looking := make(chan struct{}, 1)
	cases := []struct {
		name    string
		inspect func(context.Context, loop.Request) loop.Inspection
		hangs   bool
	}{
		{name: "panics", inspect: func(context.Context, loop.Request) loop.Inspection { panic("look-up") }},
		{name: "complete without a result", inspect: func(context.Context, loop.Request) loop.Inspection {
			return loop.Inspection{Observed: event.ObservedComplete}
		}},
		{name: "says nothing", inspect: func(context.Context, loop.Request) loop.Inspection { return loop.Inspection{} }},
		{name: "hangs", hangs: true, inspect: func(ctx context.Context, _ loop.Request) loop.Inspection {
			looking <- struct{}{}
			<-ctx.Done()
			return loop.Inspection{Observed: event.ObservedError}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, p, clock := newWorld(t, nil), newProvider(), newClock()
			p.answer = func(context.Context, loop.Request, loop.Stream) loop.Outcome { return nil }
			p.inspect = c.inspect
			w.run(p, func(cfg *runner.Config) { cfg.Clock = clock })
			w.say("s", "i1", "hello")
			if c.hangs {
				receive(t, "the look-up", looking)
				clock.advance(30 * time.Second)
			}
			all := w.awaitIdle("s", 1)
			if o := last[event.OperationInspected](t, all); o.Observed != event.ObservedError {
				t.Errorf("inspected: %+v", o)
			}
			w.audit()
		})
	}
}

// TestPendingOriginalIsAwaited: with back-off, on the session's clock.
func TestPendingOriginalIsAwaited(t *testing.T) {
	w, p, clock := newWorld(t, nil), newProvider(), newClock()
	p.answer = func(context.Context, loop.Request, loop.Stream) loop.Outcome {
		return loop.Uncertain{Reason: event.UnknownNoTerminal}
	}
	looks := 0
	p.inspect = func(_ context.Context, req loop.Request) loop.Inspection {
		if looks++; looks < 4 {
			return loop.Inspection{Observed: event.ObservedPending}
		}
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &loop.Completion{
			FinishReason: "stop", Finish: event.FinishStop, Text: "at last", ResponseDigest: event.Digest(nil),
		}}
	}
	g := w.run(p, func(c *runner.Config) { c.Clock = clock })
	seq := w.say("s", "i1", "hello")
	for n, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		w.awaitN("s", event.TypeOperationInspected, n+1)
		g.settled(seq)
		clock.advance(wait - time.Millisecond)
		g.settled(seq)
		if got := count(w.events("s"), event.TypeOperationInspected); got != n+1 {
			t.Fatalf("%d look-ups before the %d. wait is over", got, n+1)
		}
		clock.advance(time.Millisecond)
	}
	all := w.awaitIdle("s", 1)
	if c := last[event.OperationCompleted](t, all); !c.Recovered || last[event.GenerationFinished](t, all).Text != "at last" {
		t.Errorf("completed: %+v", c)
	}
	w.audit()
}

// TestOperationTimesOut: without a frame, after Timeouts.Operation; a frame
// begins the wait anew.
func TestOperationTimesOut(t *testing.T) {
	w, p, clock := newWorld(t, nil), newProvider(), newClock()
	begun, goOn, framed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.answer = func(ctx context.Context, _ loop.Request, out loop.Stream) loop.Outcome {
		close(begun)
		<-goOn
		if err := out.Raw([]byte("a frame")); err != nil {
			t.Error(err)
		}
		close(framed)
		<-ctx.Done()
		if err := out.Raw([]byte("late")); err == nil {
			t.Error("a frame after the time-out is saved")
		}
		return loop.Uncertain{Reason: event.UnknownTransport}
	}
	w.run(p, func(c *runner.Config) { c.Clock = clock })
	w.say("s", "i1", "hello")
	receive(t, "the request", begun)
	clock.advance(100 * time.Second)
	close(goOn)
	receive(t, "the frame", framed)
	clock.advance(100 * time.Second)
	if clock.armed() != 1 {
		t.Error("timed out although a frame came")
	}
	clock.advance(20 * time.Second)
	all := w.awaitIdle("s", 1)
	if u := last[event.OperationUnknown](t, all); u.Reason != event.UnknownTimeout {
		t.Errorf("unknown: %+v", u)
	}
	w.audit()
}

// TestWholeAnswerOutlivesItsTimeOut: an answer that is there counts, however
// late.
func TestWholeAnswerOutlivesItsTimeOut(t *testing.T) {
	w, p, clock := newWorld(t, nil), newProvider(), newClock()
	p.answer = func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		answer := p.converse(req, out)
		clock.advance(120 * time.Second)
		<-ctx.Done()
		return answer
	}
	w.run(p, func(c *runner.Config) { c.Clock = clock })
	w.say("s", "i1", "hello")
	if all := w.awaitIdle("s", 1); count(all, event.TypeGenerationFinished) != 1 {
		t.Errorf("a whole answer is lost:\n%s", outline(all))
	}
	w.audit()
}

// TestStreamAfterItsEnd: an adapter that goes on after it has answered changes
// nothing.
func TestStreamAfterItsEnd(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	var old loop.Stream
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		old = out
		return p.converse(req, out)
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	operation := last[event.OperationCompleted](t, all).OperationID
	before, frames := w.head(), len(w.frames("s", operation))
	if err := old.Raw([]byte("late")); err == nil {
		t.Error("Raw after the end succeeds")
	}
	old.Delta("text", "late")
	old.Message("late")
	old.Applied([]string{"i1", "nobody"})
	if w.head() != before || len(w.frames("s", operation)) != frames {
		t.Errorf("something is stored after the end:\n%s", outline(w.events("s")))
	}
	w.say("s", "i2", "again")
	w.awaitIdle("s", 2)
	w.audit()
}

// TestToolsThatFail: what a tool does wrong with a write is uncertain, is
// looked up once, and then waits for a person.
func TestToolsThatFail(t *testing.T) {
	called, looking := make(chan struct{}, 1), make(chan struct{}, 1)
	cases := []struct {
		name  string
		call  func(context.Context, loop.ToolRequest) loop.ToolOutcome
		hangs bool
	}{
		{name: "panics", call: func(context.Context, loop.ToolRequest) loop.ToolOutcome { panic("tool") }},
		{name: "loses it", call: func(context.Context, loop.ToolRequest) loop.ToolOutcome { return loop.ToolOutcome{Lost: true} }},
		{name: "hangs", hangs: true, call: func(ctx context.Context, _ loop.ToolRequest) loop.ToolOutcome {
			called <- struct{}{}
			<-ctx.Done()
			return loop.ToolOutcome{Lost: true}
		}},
	}
	looks := map[string]func(context.Context, loop.ToolRequest) loop.ToolInspection{
		"unsupported": nil,
		"panics":      func(context.Context, loop.ToolRequest) loop.ToolInspection { panic("look-up") },
		"is lost": func(context.Context, loop.ToolRequest) loop.ToolInspection {
			return loop.ToolInspection{Observed: event.ObservedComplete, Outcome: loop.ToolOutcome{Lost: true}}
		},
		"says nothing": func(context.Context, loop.ToolRequest) loop.ToolInspection { return loop.ToolInspection{} },
		"hangs": func(ctx context.Context, _ loop.ToolRequest) loop.ToolInspection {
			looking <- struct{}{}
			<-ctx.Done()
			return loop.ToolInspection{Observed: event.ObservedPending}
		},
	}
	for _, c := range cases {
		for look, inspect := range looks {
			t.Run(fmt.Sprintf("%s, look-up %s", c.name, look), func(t *testing.T) {
				w, p, s, clock := newWorld(t, nil), newProvider(), newWorkshop(), newClock()
				s.call, s.inspect = c.call, inspect
				g := w.run(p, func(cfg *runner.Config) { cfg.Tools, cfg.Clock = s, clock })
				seq := w.say("s", "i1", "call write")
				if c.hangs {
					receive(t, "the call", called)
					clock.advance(10 * time.Minute)
				}
				if look == "hangs" {
					receive(t, "the look-up", looking)
					clock.advance(30 * time.Second)
					s.look(nil)
					w.awaitN("s", event.TypeInvocationInspected, 1)
					g.settled(seq)
					clock.advance(time.Second)
				}
				u := last[event.InvocationUncertain](t, w.awaitN("s", event.TypeInvocationUncertain, 1))
				w.send("s", event.Input{InputID: "d1", Kind: event.KindDecision, Target: u.InvocationID, Verdict: event.VerdictReconciled, Text: "it was done"})
				f := last[event.GenerationFinished](t, w.awaitIdle("s", 1))
				if !strings.Contains(f.Text, "it was done") || len(s.repeated()) != 0 {
					t.Errorf("finished: %+v; repeated: %v", f, s.repeated())
				}
				w.audit()
			})
		}
	}
}

// TestLateReceiptIsEvidence: a write whose generation was interrupted comes
// back after all.
func TestLateReceiptIsEvidence(t *testing.T) {
	w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
	called, release := make(chan struct{}), make(chan struct{})
	s.call = func(context.Context, loop.ToolRequest) loop.ToolOutcome {
		close(called)
		<-release
		return loop.ToolOutcome{Result: "written"}
	}
	w.run(p, func(c *runner.Config) { c.Tools = s })
	w.say("s", "i1", "call write")
	receive(t, "the call", called)
	w.send("s", event.Input{InputID: "x", Kind: event.KindInterrupt})
	w.awaitIdle("s", 1)
	close(release)
	all := w.awaitN("s", event.TypeInvocationCompleted, 1)
	if c := last[event.InvocationCompleted](t, all); !c.Late || c.Result != "written" {
		t.Errorf("completed: %+v", c)
	}
	w.say("s", "i2", "go on")
	w.awaitN("s", event.TypeGenerationFinished, 1)
	w.awaitIdle("s", 2)
	w.audit()
}

// TestInterruptEndsTheCall: what is no longer wanted is cancelled, and what it
// still answers is nobody's.
func TestInterruptEndsTheCall(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	begun, ended := make(chan struct{}), make(chan struct{})
	p.answer = func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		close(begun)
		<-ctx.Done()
		close(ended)
		return loop.Completion{FinishReason: "stop", Finish: event.FinishStop, Text: "late", ResponseDigest: event.Digest(nil)}
	}
	g := w.run(p, nil)
	w.say("s", "i1", "hello")
	receive(t, "the request", begun)
	w.send("s", event.Input{InputID: "x", Kind: event.KindInterrupt})
	all := w.awaitIdle("s", 1)
	if u := last[event.OperationUnknown](t, all); u.Reason != event.UnknownCancelled {
		t.Errorf("unknown: %+v", u)
	}
	receive(t, "the end of the call", ended)
	w.poll("rest", g.r.Settled)
	if n := count(w.stored("s"), event.TypeOperationCompleted); n != 0 {
		t.Error("the answer of an interrupted operation is taken")
	}
	w.audit()
}

// TestSteeringThatFails: whatever is not a definite answer is unknown, and the
// input is never queued.
func TestSteeringThatFails(t *testing.T) {
	asked := make(chan struct{}, 1)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	cases := []struct {
		name  string
		steer func(ctx context.Context, operation string, in event.Input) loop.SteerAnswer
		hangs bool
	}{
		{name: "panics", steer: func(context.Context, string, event.Input) loop.SteerAnswer { panic("steer") }},
		{name: "says nonsense", steer: func(context.Context, string, event.Input) loop.SteerAnswer { return 77 }},
		{name: "hangs", hangs: true, steer: func(ctx context.Context, _ string, _ event.Input) loop.SteerAnswer {
			asked <- struct{}{}
			<-ctx.Done()
			return loop.SteerAccepted // too late
		}},
		{name: "hangs for good", hangs: true, steer: func(context.Context, string, event.Input) loop.SteerAnswer {
			asked <- struct{}{}
			<-release
			return loop.SteerAccepted
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, p, clock := newWorld(t, nil), newProvider(), newClock()
			begun, answer := make(chan struct{}), make(chan struct{})
			p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
				close(begun)
				<-answer
				return p.converse(req, out)
			}
			p.steer = c.steer
			w.run(p, func(cfg *runner.Config) {
				cfg.Loop.Steering, cfg.Clock = event.SteeringModeNative, clock
			})
			w.say("s", "i1", "hello")
			receive(t, "the request", begun)
			w.send("s", event.Input{InputID: "i2", Kind: event.KindSteer, Text: "so"})
			if c.hangs {
				receive(t, "steer_live", asked)
				clock.advance(30 * time.Second)
			}
			u := last[event.InputUnknown](t, w.awaitN("s", event.TypeInputUnknown, 1))
			if u.InputID != "i2" || u.Route != event.DeliveryNative {
				t.Errorf("unknown: %+v", u)
			}
			close(answer)
			f := last[event.GenerationFinished](t, w.awaitIdle("s", 1))
			if !slices.Equal(f.InputIDs, []string{"i1"}) {
				t.Errorf("finished: %+v", f)
			}
			w.audit()
		})
	}
}

// TestRawFails: an adapter stops when its bytes cannot be saved.
func TestRawFails(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	w.run(p, func(c *runner.Config) { c.Log = brokenFrames{c.Log, 2} })
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	if u := last[event.OperationUnknown](t, all); u.Reason != event.UnknownTransport {
		t.Errorf("unknown: %+v", u)
	}
	// What was said is looked up: the answer is not lost.
	if c := last[event.OperationCompleted](t, all); !c.Recovered {
		t.Errorf("completed: %+v", c)
	}
	w.audit()
}

// TestNothingLeavesWithoutFrames: the request is not sent where its frames
// cannot be begun.
func TestNothingLeavesWithoutFrames(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	w.run(p, func(c *runner.Config) { c.Log, c.Patience = brokenFrames{c.Log, 1}, time.Nanosecond })
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	if f := last[event.OperationFailed](t, all); f.Dispatch != event.DispatchNotDispatched || f.NextAction == "" {
		t.Errorf("failed: %+v", f)
	}
	if p.requests() != 0 {
		t.Error("a request left")
	}
	w.audit()
}

// brokenFrames takes no frame from a number on.
type brokenFrames struct {
	runner.Log
	from uint64
}

func (l brokenFrames) AppendFrame(ctx context.Context, session, operation string, last uint64, data []byte) (uint64, error) {
	if f, err := event.DecodeFrame(data); err != nil || f.Seq >= l.from {
		return 0, errors.New("no room")
	}
	return l.Log.AppendFrame(ctx, session, operation, last, data)
}
