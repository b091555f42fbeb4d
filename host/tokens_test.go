package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/provider/scripted"
)

// operation is the session's first that was dispatched.
func operation(ctx context.Context, t *testing.T, h *host.Host, session string) string {
	t.Helper()
	for e, err := range h.Events(ctx, session, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := e.Payload.(event.OperationDispatched); ok {
			return p.OperationID
		}
	}
	return ""
}

// A watcher sees the text while it comes; one that breaks off goes on behind
// the last frame it saw, and both see the end.
func TestTokensGoOnWhereTheyBrokeOff(t *testing.T) {
	ctx, house := serve(t, says(" world", scripted.Text{Text: "Hello"}, scripted.Wait{Gate: "rest"}))
	h := host.New(house.log)
	if _, err := h.Submit(ctx, "s", user("in-1", "Greet")); err != nil {
		t.Fatal(err)
	}
	op := operation(ctx, t, h, "s")
	enough := errors.New("enough")
	var frames []event.Frame
	note := func(f event.Frame) error {
		frames = append(frames, f)
		if f.Type == event.FrameDelta && f.Text == "Hello" {
			return enough
		}
		return nil
	}
	if err := h.Tokens(ctx, "s", op, 1, note); err != enough {
		t.Fatalf("%v, want the watcher's own error", err)
	}
	if ended, err := h.SavedTokens(ctx, "s", op, 1, func(event.Frame) error { return nil }); ended || err != nil {
		t.Fatalf("in the middle: ended %t, %v", ended, err)
	}
	house.gates.Open("rest")
	if err := h.Tokens(ctx, "s", op, frames[len(frames)-1].Seq+1, note); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i, f := range frames {
		if f.Seq != uint64(i+1) || f.SessionID != "s" || f.OperationID != op {
			t.Errorf("frame %d is %+v", i+1, f)
		}
		if f.Type == event.FrameDelta {
			text.WriteString(f.Text)
		}
	}
	last := frames[len(frames)-1]
	if text.String() != "Hello world" || frames[0].Type != event.FrameStarted || last.Type != event.FrameOperation || last.State != "completed" || last.Finish != event.FinishStop {
		t.Errorf("%q between %+v and %+v", text.String(), frames[0], last)
	}
	all := 0
	if ended, err := h.SavedTokens(ctx, "s", op, 2, func(event.Frame) error { all++; return nil }); err != nil || !ended || all != len(frames)-1 {
		t.Errorf("from 2: %d frames of %d, ended %t, %v", all, len(frames), ended, err)
	}
	// Behind the end there is nothing to wait for.
	if err := h.Tokens(ctx, "s", op, last.Seq+1, note); err != nil {
		t.Errorf("behind the end: %v", err)
	}
	var gap *host.GapError
	if err := h.Tokens(ctx, "s", op, last.Seq+3, note); !errors.As(err, &gap) || gap.From != last.Seq+1 || gap.To != last.Seq+2 {
		t.Errorf("frames that the operation never had: %v", err)
	}
}

// quill writes frames and events as an owner does.
type quill struct {
	t    *testing.T
	ctx  context.Context
	log  *eventlog.Log
	last event.Event
	at   uint64
	w    *eventlog.Writer
}

func (q *quill) frames(op string, seqs ...uint64) {
	q.t.Helper()
	last := uint64(0)
	for _, seq := range seqs {
		f := event.Frame{SessionID: "s", OperationID: op, Seq: seq, Type: event.FrameDelta, Kind: "text", Text: fmt.Sprint(seq)}
		b, err := event.EncodeFrame(f)
		if err == nil {
			last, err = q.log.AppendFrame(q.ctx, "s", op, last, b)
		}
		if err != nil {
			q.t.Fatal(err)
		}
	}
}

func (q *quill) event(p event.Payload) {
	q.t.Helper()
	e, err := event.Encode(event.Event{
		ID: ulid.Make().String(), SessionID: "s", Sequence: q.last.Sequence + 1, Epoch: 1, Time: time.Now(), Payload: p,
	})
	if err != nil {
		q.t.Fatal(err)
	}
	if q.w == nil {
		q.w = q.log.Writer("s", 0)
	}
	if q.at, err = q.w.Append(q.ctx, e); err != nil {
		q.t.Fatal(err)
	}
	q.last = e
}

// What cannot be shown whole is told, each with its own error.
func TestTokensLeaveNothingOutInSilence(t *testing.T) {
	ctx, house := serve(t)
	q := &quill{t: t, ctx: ctx, log: house.log}
	h := host.New(house.log)
	read := func(op string, from uint64) (seen []uint64, err error) {
		err = h.Tokens(ctx, "s", op, from, func(f event.Frame) error { seen = append(seen, f.Seq); return nil })
		return seen, err
	}
	q.frames("expired", 3, 4, 5)
	var expired *host.ExpiredError
	if seen, err := read("expired", 2); !errors.As(err, &expired) || expired.From != 2 || expired.First != 3 || seen != nil ||
		!strings.Contains(err.Error(), "response_expired") {
		t.Errorf("expired: %v, %v", seen, err)
	}
	var seen []uint64
	if ended, err := h.SavedTokens(ctx, "s", "expired", 3, func(f event.Frame) error { seen = append(seen, f.Seq); return nil }); ended || err != nil || fmt.Sprint(seen) != "[3 4 5]" {
		t.Errorf("from the first that is left: %v, ended %t, %v", seen, ended, err)
	}

	q.frames("torn", 1, 2, 5)
	var gap *host.GapError
	if seen, err := read("torn", 1); !errors.As(err, &gap) || gap.From != 3 || gap.To != 4 || fmt.Sprint(seen) != "[1 2]" {
		t.Errorf("torn: %v, %v", seen, err)
	}

	q.event(event.OperationCompleted{OperationID: "gone", Finish: event.FinishStop})
	if seen, err := read("gone", 1); !errors.As(err, &expired) || expired.First != 0 || seen != nil {
		t.Errorf("all expired: %v, %v", seen, err)
	}
	q.event(event.OperationCancelled{OperationID: "unsent", Dispatch: event.DispatchNotDispatched})
	if seen, err := read("unsent", 1); err != nil || seen != nil {
		t.Errorf("never sent: %v, %v", seen, err)
	}

	q.frames("cut", 1, 2)
	q.event(event.OperationUnknown{OperationID: "cut", Reason: event.UnknownOwnerLost, NextAction: event.ActionInspectOriginal})
	var cut *host.CutError
	if seen, err := read("cut", 1); !errors.As(err, &cut) || cut.Last != 2 || cut.Log != event.TypeOperationUnknown || fmt.Sprint(seen) != "[1 2]" {
		t.Errorf("cut: %v, %v", seen, err)
	}

	within, cancel := context.WithCancel(ctx)
	q.frames("running", 1)
	err := h.Tokens(within, "s", "running", 1, func(event.Frame) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}
