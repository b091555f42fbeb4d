package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopd/loopd/event"
)

// Tokens calls fn for each frame of an operation from a sequence on (1 or 0 =
// all), those to come included, and returns nil after the frame that tells how
// the operation ended. A host that lost its connection goes on behind the last
// frame it saw. Frames are provisional: what counts is in the log.
//
// Nothing is left out in silence. Frames that have expired are an
// *[ExpiredError], missing ones a *[GapError], an operation that ended without
// a last frame a *[CutError]; fn has then seen every frame before that. An
// error of fn ends it and is returned as it is.
func (h *Host) Tokens(ctx context.Context, session, operation string, from uint64, fn func(event.Frame) error) error {
	t := h.tokens(session, operation, from, fn)
	if err := t.stored(ctx); err != nil {
		return err
	}
	if t.ended {
		return nil
	}
	return t.follow(ctx)
}

// SavedTokens calls fn for the frames that Tokens would begin with: those that
// are stored now. It waits for none. ended tells that the operation's end is
// among the frames before them or among them.
func (h *Host) SavedTokens(ctx context.Context, session, operation string, from uint64, fn func(event.Frame) error) (ended bool, err error) {
	t := h.tokens(session, operation, from, fn)
	if err := t.stored(ctx); err != nil {
		return false, err
	}
	return t.ended, nil
}

// ExpiredError says that frames were asked for that are no longer stored
// (response_expired). The answer, if it is whole, is in the log.
type ExpiredError struct {
	OperationID string
	From        uint64 // the frame that was asked for
	First       uint64 // the first that is left, 0 = none
}

func (e *ExpiredError) Error() string {
	if e.First == 0 {
		return fmt.Sprintf("%s: the frames of operation %s are no longer stored; its answer is in the log", event.StopResponseExpired, e.OperationID)
	}
	return fmt.Sprintf("%s: the frames %d to %d of operation %s are no longer stored; begin at %d, or take its answer from the log",
		event.StopResponseExpired, e.From, e.First-1, e.OperationID, e.First)
}

// GapError says that frames From..To of an operation are not there, though
// others before and behind them are: the store is damaged, or lost its end.
type GapError struct {
	OperationID string
	From, To    uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("the frames %d to %d of operation %s are missing: data loss in the stream of frames", e.From, e.To, e.OperationID)
}

// CutError says that the frames of an operation break off: its owner was lost,
// or gave it up. Log is what the log says became of it.
type CutError struct {
	OperationID string
	Last        uint64 // the last frame, 0 = none
	Log         event.Type
}

func (e *CutError) Error() string {
	return fmt.Sprintf("the frames of operation %s break off after %d, without an end of their own; the log says %s", e.OperationID, e.Last, e.Log)
}

// tokens is one reading of an operation's frames.
type tokens struct {
	host               *Host
	session, operation string
	from               uint64
	fn                 func(event.Frame) error

	last  uint64 // seq of the last frame read, 0 = none yet
	ended bool   // the last frame read tells the operation's end
}

func (h *Host) tokens(session, operation string, from uint64, fn func(event.Frame) error) *tokens {
	return &tokens{host: h, session: session, operation: operation, from: max(from, 1), fn: fn}
}

// stored reads the frames that are there, and holds them against what was
// asked for.
func (t *tokens) stored(ctx context.Context) error {
	for rec, err := range t.host.log.Frames(ctx, t.session, t.operation) {
		if err != nil {
			return t.failed(err)
		}
		if err := t.take(rec); err != nil {
			return err
		}
	}
	switch {
	case t.ended && t.from > t.last+1:
		return t.failed(&GapError{t.operation, t.last + 1, t.from - 1})
	case t.last > 0:
		return nil
	}
	return t.absent(ctx)
}

// absent asks the log why there is not one frame: they expired, there never
// were any, or they are still to come.
func (t *tokens) absent(ctx context.Context) error {
	for rec, err := range t.host.log.Events(ctx, t.session) {
		if err != nil {
			return t.failed(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return t.failed(fmt.Errorf("stream sequence %d: %w", rec.StreamSeq, err))
		}
		switch {
		case !t.ending(e):
		case unsent(e):
			t.ended = true
		default:
			return t.failed(&ExpiredError{OperationID: t.operation, From: t.from})
		}
	}
	return nil
}

// unsent reports whether an operation ended before a byte left: it has no
// frames.
func unsent(e event.Event) bool {
	p, failed := e.Payload.(event.OperationFailed)
	return failed && p.Dispatch == event.DispatchNotDispatched || e.Type == event.TypeOperationCancelled
}

// take reads one frame. Frames that were read before come again when the
// reading goes over to following.
func (t *tokens) take(rec event.Record) error {
	f, err := event.DecodeFrame(rec.Data)
	switch {
	case err != nil:
		return t.failed(fmt.Errorf("stream sequence %d: %w", rec.StreamSeq, err))
	case f.Seq <= t.last:
		return nil
	case t.last == 0 && f.Seq > t.from:
		return t.failed(&ExpiredError{t.operation, t.from, f.Seq})
	case t.last > 0 && f.Seq > t.last+1:
		return t.failed(&GapError{t.operation, t.last + 1, f.Seq - 1})
	}
	t.last, t.ended = f.Seq, f.Type == event.FrameOperation
	if f.Seq < t.from {
		return nil
	}
	return t.fn(f)
}

// follow reads on until the operation ends. The log is watched beside the
// frames: an owner that was lost, or gave the operation up, writes no last one.
func (t *tokens) follow(ctx context.Context) error {
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go t.watch(following, cancel)
	var own error
	err := t.host.log.FollowFrames(following, t.session, t.operation, func(rec event.Record) error {
		if own = t.take(rec); own == nil && t.ended {
			return errEnough
		}
		return own
	})
	var cut *CutError
	switch {
	case own != nil:
		return own
	case errors.Is(err, errEnough), errors.Is(context.Cause(following), errEnough):
		return nil
	case errors.As(context.Cause(following), &cut):
		cut.Last = t.last
		return t.failed(cut)
	}
	return t.failed(err)
}

// echo is how long the last frame may come behind the event that it repeats.
const echo = 2 * time.Second

// watch ends the following some time after the log says that the operation has
// ended.
func (t *tokens) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for e, err := range t.host.Events(ctx, t.session, 1) {
		if err != nil {
			if ctx.Err() == nil {
				cancel(err)
			}
			return
		}
		if !t.ending(e) {
			continue
		}
		timer := time.NewTimer(echo)
		defer timer.Stop()
		select {
		case <-timer.C:
			if unsent(e) {
				cancel(errEnough)
			}
			cancel(&CutError{OperationID: t.operation, Log: e.Type})
		case <-ctx.Done():
		}
		return
	}
}

// ending reports whether an event is an end of the operation.
func (t *tokens) ending(e event.Event) bool {
	switch e.Type {
	case event.TypeOperationCompleted, event.TypeOperationFailed, event.TypeOperationUnknown, event.TypeOperationCancelled:
		return OperationOf(e.Payload) == t.operation
	}
	return false
}

func (t *tokens) failed(err error) error {
	return fmt.Errorf("host: tokens of session %q operation %q: %w", t.session, t.operation, err)
}
