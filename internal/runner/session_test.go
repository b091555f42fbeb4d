package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

func TestInputBecomesAnswer(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	g := w.run(p, nil)
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	want := []event.Type{
		event.TypeSessionOpened, event.TypeSessionClaimed, event.TypeInputAccepted, event.TypeGenerationStarted,
		event.TypeInputDelivered, event.TypeOperationAdmitted, event.TypeOperationDispatched, event.TypeAssistantMessage,
		event.TypeOperationCompleted, event.TypeCheckpointSaved, event.TypeGenerationFinished, event.TypeSessionIdle,
	}
	if got := types(all); !slices.Equal(got, want) {
		t.Errorf("events\n%s", outline(all))
	}
	if f := last[event.GenerationFinished](t, all); f.Text != "re: hello" || !slices.Equal(f.InputIDs, []string{"i1"}) {
		t.Errorf("finished: %+v", f)
	}
	w.say("s", "i2", "call look, write")
	all = w.awaitIdle("s", 2)
	if n := count(all, event.TypeInvocationFailed); n != 2 { // no tools are configured
		t.Errorf("%d invocations failed, want 2", n)
	}
	w.say("s", "i3", "cut")
	if f := last[event.GenerationFinished](t, w.awaitIdle("s", 3)); f.Text != "part 1;part 2;the end" {
		t.Errorf("finished: %+v", f)
	}
	g.close()
	w.audit()
}

// TestSteeringEntersAtTheBoundary: what is sent while an operation runs is
// queued, and is in the context of the next one of the same generation.
func TestSteeringEntersAtTheBoundary(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	begun, release := make(chan struct{}), make(chan struct{})
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		if lastHeard(req).Text == "first" {
			close(begun)
			<-release
		}
		return p.converse(req, out)
	}
	w.run(p, nil)
	w.say("s", "i1", "first")
	receive(t, "the first request", begun)
	w.send("s", event.Input{InputID: "i2", Kind: event.KindSteer, Text: "rather so"})
	w.awaitN("s", event.TypeInputQueued, 1)
	close(release)
	all := w.awaitIdle("s", 1)
	f := last[event.GenerationFinished](t, all)
	if f.Text != "re: rather so" || !slices.Equal(f.InputIDs, []string{"i1", "i2"}) || len(f.OperationIDs) != 2 {
		t.Errorf("finished: %+v", f)
	}
	if d := last[event.InputDelivered](t, all); d.Delivery != event.DeliveryRequestBoundary || d.InputID != "i2" {
		t.Errorf("delivered: %+v", d)
	}
	w.audit()
}

func TestFramesTellTheOperation(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	w.run(p, nil)
	long := strings.Repeat("0123456789", 150_000) // its body takes two frames
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		if err := out.Raw([]byte(long)); err != nil {
			t.Error(err)
		}
		return p.tell(req, out, loop.Completion{Finish: event.FinishStop, Text: "short"})
	}
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	c := last[event.OperationCompleted](t, all)
	frames := w.frames("s", c.OperationID)
	var raw, delta strings.Builder
	for i, f := range frames {
		switch f.Type {
		case event.FrameProvider:
			raw.Write(f.Data)
		case event.FrameDelta:
			delta.WriteString(f.Text)
		case event.FrameStarted:
			if i != 0 || f.GenerationID != last[event.GenerationFinished](t, all).GenerationID {
				t.Errorf("frame %d: %+v", i+1, f)
			}
		case event.FrameOperation:
			if i != len(frames)-1 || f.State != "completed" || f.Finish != event.FinishStop {
				t.Errorf("frame %d: %+v", i+1, f)
			}
		}
	}
	if frames[0].Type != event.FrameStarted || frames[len(frames)-1].Type != event.FrameOperation {
		t.Errorf("the frames begin with %s and end with %s", frames[0].Type, frames[len(frames)-1].Type)
	}
	sent := strings.TrimPrefix(raw.String(), long)
	if int64(len(sent)) != c.ResponseBytes || event.Digest([]byte(sent)) != c.ResponseDigest || delta.String() != "short" {
		t.Errorf("body of %d bytes, deltas %q; the operation says %d bytes", len(sent), delta.String(), c.ResponseBytes)
	}
	w.audit()
}

// TestFramesAreFenced: where another owner has written, the request does not
// leave, and a running answer can no longer be saved.
func TestFramesAreFenced(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	raw := make(chan error, 1)
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		own := w.frames("s", req.OperationID)
		frame, err := event.EncodeFrame(event.Frame{SessionID: "s", OperationID: req.OperationID, Seq: 2, Type: event.FrameDelta})
		if err != nil {
			t.Error(err)
		}
		var end uint64
		for rec, err := range w.log.Frames(w.ctx, "s", req.OperationID) {
			if err != nil {
				t.Error(err)
			}
			end = rec.StreamSeq
		}
		if _, err := w.log.AppendFrame(w.ctx, "s", req.OperationID, end, frame); err != nil || len(own) != 1 {
			t.Error(len(own), err)
		}
		raw <- out.Raw([]byte("mine"))
		return loop.Uncertain{Reason: event.UnknownTransport}
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	if err := receive(t, "Raw", raw); !errors.Is(err, event.ErrFenced) {
		t.Errorf("Raw behind another owner's frame: %v, want ErrFenced", err)
	}
	all := w.awaitIdle("s", 1)
	if d := last[event.GenerationDetached](t, all); d.Reason != event.DetachedOperationUncertain {
		t.Errorf("detached: %+v", d)
	}
	w.audit()
}

// TestSteeringLive: an accepted input is the provider's until its successor
// boundary confirms it, and a confirmation answers for an answer on its way.
func TestSteeringLive(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	begun, steered := make(chan loop.Stream, 1), make(chan struct{})
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		begun <- out
		<-steered
		return p.tell(req, out, loop.Completion{Finish: event.FinishStop, Text: "steered"})
	}
	var out loop.Stream
	p.steer = func(_ context.Context, _ string, in event.Input) loop.SteerAnswer {
		out.Applied([]string{in.InputID})
		return loop.SteerAccepted
	}
	w.run(p, func(c *runner.Config) { c.Loop.Steering = event.SteeringModeNative })
	w.say("s", "i1", "hello")
	out = receive(t, "the request", begun)
	w.send("s", event.Input{InputID: "i2", Kind: event.KindSteer, Text: "so"})
	w.awaitN("s", event.TypeSteeringApplied, 1)
	close(steered)
	all := w.awaitIdle("s", 1)
	if f := last[event.GenerationFinished](t, all); !slices.Equal(f.InputIDs, []string{"i1", "i2"}) {
		t.Errorf("finished: %+v", f)
	}
	w.audit()
}

// TestJobsComeBack: a background tool's result is an input of a later
// generation.
func TestJobsComeBack(t *testing.T) {
	w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
	release := make(chan struct{})
	s.call = func(ctx context.Context, _ loop.ToolRequest) loop.ToolOutcome {
		<-release
		return loop.ToolOutcome{Result: "<the moon>"}
	}
	w.run(p, func(c *runner.Config) { c.Tools = s })
	w.say("s", "i1", "call job")
	all := w.awaitN("s", event.TypeGenerationFinished, 1)
	if f := last[event.GenerationFinished](t, all); len(f.ActiveJobIDs) != 1 {
		t.Errorf("finished: %+v", f)
	}
	close(release)
	all = w.awaitN("s", event.TypeGenerationFinished, 2)
	if f := last[event.GenerationFinished](t, all); !strings.Contains(f.Text, "<the moon>") {
		t.Errorf("finished: %+v", f)
	}
	w.awaitIdle("s", 2)
	w.audit()
}
