package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/event"
)

// Writer appends one session's events behind the fence. An append is
//
//  1. encoded, unless it already is, and measured;
//  2. published on its subject, with the stream sequence of the session's last
//     event as the expectation for everything of the session;
//  3. acknowledged: that sequence is now the last; the barrier is awaited;
//  4. or answered otherwise: what stands at the session's end is read. Our own
//     bytes mean that only the acknowledgement was lost. The old end means that
//     nothing is stored: the same is sent again. Anything else is another's
//     event: [ErrFenced], for good.
type Writer struct {
	log     *Log
	session string
	filter  string // subjects.ofSession: the fence
	invalid error  // the session id does not fit into a subject

	slot chan struct{} // holds one token: one append in flight

	// Guarded by slot.
	last   uint64        // stream sequence of the session's last event that we know
	newest event.Event   // our last stored event, if any
	doubts []event.Event // sent behind last, outcome unknown; at most one of them is or will be stored
	dead   error         // ErrFenced, once met
}

// maxDoubts bounds the events of unknown outcome that a writer remembers.
const maxDoubts = 16

// Writer appends to a session whose last event has the stream sequence last, 0
// for a new session. Any number of writers may exist: the fence lets the
// appends of one go through.
func (l *Log) Writer(session string, last uint64) *Writer {
	filter, err := l.subjects.ofSession(familyEvents, session)
	return &Writer{log: l, session: session, filter: filter, invalid: err, last: last, slot: make(chan struct{}, 1)}
}

// Append stores one event and gives its stream sequence. After an error that
// is [ErrUnknownOutcome], append the same event again to learn what became of
// it; a different one is answered with *[StoredError] if the first is stored.
// An event that is already the last one stored is acknowledged again. An error
// that is [ErrFenced] is final. After any other error nothing is stored.
func (w *Writer) Append(ctx context.Context, e event.Event) (streamSeq uint64, err error) {
	object := fmt.Sprintf("session %q", w.session)
	if e, err = w.prepare(e); err != nil {
		return 0, failed("append", object, err)
	}
	select {
	case w.slot <- struct{}{}:
		defer func() { <-w.slot }()
	case <-ctx.Done():
		return 0, failed("append", object, context.Cause(ctx))
	}
	seq, err := w.append(ctx, e)
	if err != nil {
		return 0, failed("append", object, err)
	}
	return seq, nil
}

func (w *Writer) prepare(e event.Event) (event.Event, error) {
	if w.invalid != nil {
		return e, w.invalid
	}
	if e.SessionID != w.session {
		return e, fmt.Errorf("the event is of session %q", e.SessionID)
	}
	e, err := event.Encode(e)
	if err != nil {
		return e, err
	}
	if most := w.log.cfg.MaxEventBytes; most > 0 && len(e.Stored()) > most {
		return e, &TooLargeError{Bytes: len(e.Stored()), Limit: most}
	}
	return e, nil
}

func (w *Writer) append(ctx context.Context, e event.Event) (uint64, error) {
	if w.dead != nil {
		return 0, w.dead
	}
	if len(w.doubts) > 0 {
		seq, found, err := w.look(ctx, e, 0)
		if found || decided(err) {
			return w.finish(ctx, e, seq, err)
		}
		if err != nil {
			return 0, fmt.Errorf("an earlier event is not resolved yet: %w", unknown(err))
		}
		if len(w.doubts) >= maxDoubts && !slices.ContainsFunc(w.doubts, sameAs(e)) {
			return 0, fmt.Errorf("%d earlier events are not resolved yet, append one of them again: %w", len(w.doubts), ErrUnknownOutcome)
		}
	}
	if w.newest.Stored() != nil {
		if bytes.Equal(w.newest.Stored(), e.Stored()) {
			return w.last, w.log.settled(ctx)
		}
		if e.Sequence <= w.newest.Sequence {
			return 0, &StoredError{EventID: w.newest.ID, StreamSeq: w.last}
		}
	}
	subject, err := w.log.subjects.event(w.session, e.Type)
	if err != nil {
		return 0, err
	}
	m := message(subject, w.filter, int64(w.last), e.Stored())
	events := w.log.streams.events
	if err := w.log.checkSize(m, events); err != nil {
		return 0, err
	}
	seq, err := w.log.deliver(ctx, m, events, func(ctx context.Context, hint uint64) (uint64, bool, error) {
		return w.look(ctx, e, hint)
	})
	return w.finish(ctx, e, seq, err)
}

// finish takes the outcome of an append into the writer's state.
func (w *Writer) finish(ctx context.Context, e event.Event, seq uint64, err error) (uint64, error) {
	var stored *StoredError
	switch {
	case err == nil:
		w.last, w.newest, w.doubts = seq, e, nil
		return seq, w.log.settled(ctx)
	case errors.As(err, &stored):
		w.newest = w.doubts[slices.IndexFunc(w.doubts, func(d event.Event) bool { return d.ID == stored.EventID })]
		w.last, w.doubts = stored.StreamSeq, nil
	case errors.Is(err, ErrFenced):
		w.dead, w.doubts = err, nil
	case errors.Is(err, ErrUnknownOutcome):
		if !slices.ContainsFunc(w.doubts, sameAs(e)) {
			w.doubts = append(w.doubts, e)
		}
	}
	return 0, err
}

func sameAs(e event.Event) func(event.Event) bool {
	return func(d event.Event) bool { return bytes.Equal(d.Stored(), e.Stored()) }
}

// look reads the session's end: the message at hint, or its last one.
func (w *Writer) look(ctx context.Context, e event.Event, hint uint64) (seq uint64, found bool, err error) {
	end, err := w.end(ctx, hint)
	if err != nil {
		return 0, false, err
	}
	switch {
	case end.Sequence == w.last:
		return 0, false, nil
	case end.Sequence < w.last:
		gap := &GapError{Stream: w.log.subjects.stream(familyEvents), From: end.Sequence + 1, To: w.last}
		return 0, false, fmt.Errorf("%w: %w", ErrFenced, gap)
	case bytes.Equal(end.Data, e.Stored()):
		return end.Sequence, true, nil
	}
	for _, d := range w.doubts {
		if bytes.Equal(end.Data, d.Stored()) {
			return 0, false, &StoredError{EventID: d.ID, StreamSeq: end.Sequence}
		}
	}
	return 0, false, fmt.Errorf("%w (stream sequence %d)", ErrFenced, end.Sequence)
}

func (w *Writer) end(ctx context.Context, hint uint64) (*jetstream.RawStreamMsg, error) {
	if hint > 0 {
		return w.log.get(ctx, w.log.streams.events, hint)
	}
	return w.log.getLast(ctx, w.log.streams.events, w.filter)
}

// get reads one message by its sequence; none is an empty message.
func (l *Log) get(ctx context.Context, stream jetstream.Stream, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	ctx, cancel, err := l.request(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	m, err := stream.GetMsg(ctx, seq, opts...)
	return orNone(m, err)
}

// getLast reads the last message of a filter; none is an empty message.
func (l *Log) getLast(ctx context.Context, stream jetstream.Stream, filter string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel, err := l.request(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	m, err := stream.GetLastMsgForSubject(ctx, filter)
	return orNone(m, err)
}

func orNone(m *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &jetstream.RawStreamMsg{}, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	return m, nil
}
