package main

import (
	"context"
	"errors"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/tool/delegate"
)

// children are the sessions that delegated work runs in, seen as their host.
type children struct{ host *host.Host }

var _ delegate.Sessions = children{}

// Submit tells what was certainly not published from what may have been.
func (c children) Submit(ctx context.Context, session string, in event.Input) error {
	_, err := c.host.Submit(ctx, session, in)
	var conflict *eventlog.ConflictError
	var large *eventlog.TooLargeError
	var invalid *event.InvalidInputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, eventlog.ErrUnknownOutcome):
		return err
	case errors.As(err, &conflict), errors.As(err, &large), errors.As(err, &invalid),
		errors.Is(err, eventlog.ErrUnavailable), errors.Is(err, eventlog.ErrFull), errors.Is(err, eventlog.ErrNoStream):
		return &delegate.RefusedError{Err: err}
	}
	return err
}

// Await waits for what the child's log says of an input.
func (c children) Await(ctx context.Context, session, inputID string) (delegate.Ending, error) {
	r, err := c.host.Await(ctx, session, inputID)
	if err != nil {
		return delegate.Ending{}, err
	}
	return ending(r), nil
}

// Look is what the child's log says of an input by now.
func (c children) Look(ctx context.Context, session, inputID string) (event.Observed, delegate.Ending, error) {
	r, known, err := c.host.Look(ctx, session, inputID)
	switch {
	case err != nil:
		return "", delegate.Ending{}, err
	case r != nil:
		return event.ObservedComplete, ending(r), nil
	case known:
		return event.ObservedPending, delegate.Ending{}, nil
	}
	return event.ObservedMissing, delegate.Ending{}, nil
}

// ending puts a result into the words of delegation.
func ending(r host.Result) delegate.Ending {
	f, ok := r.(host.Finished)
	if !ok {
		return delegate.Ending{Reason: host.Explain(r)}
	}
	end := delegate.Ending{Finished: true, Text: f.Fact.Text}
	if f.Fact.Continuation != nil {
		end.Reason = f.Fact.Continuation.Reason
	}
	return end
}
