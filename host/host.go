package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
)

// Host submits inputs to sessions and reads what became of them. It is safe
// for use by many goroutines.
type Host struct {
	log   *eventlog.Log
	close func()
}

// New is a host on a log that the caller opened, and closes.
func New(log *eventlog.Log) *Host { return &Host{log: log, close: func() {}} }

// Dial connects to the server that holds the log; Close ends the connection.
// The streams must be there already: a host's user need not be allowed to make
// them.
func Dial(ctx context.Context, cfg eventlog.Config) (*Host, error) {
	cfg.Existing = true
	log, err := eventlog.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("host: dial: %w", err)
	}
	return &Host{log: log, close: log.Close}, nil
}

// Close ends the connection of a host that Dial made.
func (h *Host) Close() { h.close() }

// Receipt says that an input lies in the inbox, durable.
type Receipt struct {
	SessionID string `json:"session_id"`
	InputID   string `json:"input_id"`
	Digest    string `json:"digest"` // of its content (contract, section 3)
}

// Submit publishes an input. An empty InputID is replaced by a ULID, an empty
// SentAt by now. The same id with the same content is acknowledged again and
// changes nothing; with other content it is an *[eventlog.ConflictError]. An
// input that no owner could accept is an *[event.InvalidInputError], and is
// not published.
//
// The receipt names the input even where the error is
// [eventlog.ErrUnknownOutcome]: submit it again under that id.
func (h *Host) Submit(ctx context.Context, session string, in event.Input) (Receipt, error) {
	now := time.Now().UTC()
	if in.InputID == "" {
		in.InputID = newID(now)
	}
	if in.SentAt == "" {
		in.SentAt = now.Format("2006-01-02T15:04:05.000000Z")
	}
	receipt := Receipt{SessionID: session, InputID: in.InputID}
	if err := in.Check(event.Limits{Text: math.MaxInt, ID: math.MaxInt}); err != nil {
		return receipt, fmt.Errorf("host: submit session %q: %w", session, err)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return receipt, fmt.Errorf("host: submit session %q input %q: %w", session, in.InputID, err)
	}
	receipt.Digest = event.InputDigest(body)
	if err := h.log.Submit(ctx, session, in.InputID, body); err != nil {
		return receipt, fmt.Errorf("host: %w", err)
	}
	return receipt, nil
}

// Steer submits a correction. With a generation it is anchored: it takes part
// in that generation or in none (contract 5.3).
func (h *Host) Steer(ctx context.Context, session, generation, text string) (Receipt, error) {
	return h.Submit(ctx, session, event.Input{Kind: event.KindSteer, Text: text, TargetGenerationID: generation})
}

// Stop closes the session (contract 5.5).
func (h *Host) Stop(ctx context.Context, session string) (Receipt, error) {
	return h.Submit(ctx, session, event.Input{Kind: event.KindStop})
}

// Await waits until the log says what became of an input, and answers it. It
// reads the session from its beginning, so the answer may lie in the past; an
// input that nobody submitted is waited for. The error is ctx's, or says why
// the log cannot be read.
func (h *Host) Await(ctx context.Context, session, inputID string) (Result, error) {
	w := waiting{id: inputID}
	var found Result
	for e, err := range h.Events(ctx, session, 1) {
		if err != nil {
			return nil, fmt.Errorf("host: await input %q: %w", inputID, err)
		}
		if found = w.take(e); found != nil {
			break
		}
	}
	return found, nil
}

// Look is Await without the wait: what the log says by now. A nil result of an
// input that is known is still to come; one that is not known was never
// submitted, or has left the inbox untaken.
func (h *Host) Look(ctx context.Context, session, inputID string) (r Result, known bool, err error) {
	w := waiting{id: inputID}
	for rec, err := range h.log.Events(ctx, session) {
		if err != nil {
			return nil, false, fmt.Errorf("host: look at input %q: %w", inputID, err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return nil, false, fmt.Errorf("host: look at input %q: stream sequence %d: %w", inputID, rec.StreamSeq, err)
		}
		if r = w.take(e); r != nil {
			return r, true, nil
		}
	}
	if w.kind != "" {
		return nil, true, nil
	}
	for after := uint64(0); ; {
		d, more, err := h.log.NextInput(ctx, session, after)
		if err != nil {
			return nil, false, fmt.Errorf("host: look at input %q: %w", inputID, err)
		}
		if !more || d.InputID == inputID {
			return nil, more, nil
		}
		after = d.InboxSeq
	}
}

// errEnough ends the reading of a caller who wants no more.
var errEnough = errors.New("the caller has enough")

// Events are the session's events from one sequence on, those to come
// included. The feed ends after its first error, which is ctx's where ctx
// ended. A caller who breaks off ends it.
func (h *Host) Events(ctx context.Context, session string, from event.Seq) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		err := h.log.Follow(ctx, 1, func(r event.Record) error {
			e, err := event.Decode(r.Data)
			if err != nil {
				return fmt.Errorf("stream sequence %d: %w", r.StreamSeq, err)
			}
			if e.Sequence >= from && !yield(e, nil) {
				return errEnough
			}
			return nil
		}, eventlog.OnlySession(session))
		if !errors.Is(err, errEnough) {
			yield(event.Event{}, fmt.Errorf("host: events of session %q: %w", session, err))
		}
	}
}
