package eventlog

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/loopd/loopd/event"
)

// The errors on which callers branch. Everything else is a type with fields.
var (
	// ErrFenced: another owner has appended to the session; final for a Writer.
	ErrFenced = event.ErrFenced
	// ErrUnknownOutcome: what was sent may or may not be stored. A Writer finds
	// out before it sends anything else.
	ErrUnknownOutcome = errors.New("outcome unknown: it may or may not be stored")
	// ErrUnavailable: the server gave no answer, or cannot serve now. Nothing
	// was stored.
	ErrUnavailable = errors.New("the server is not available")
	// ErrNoStream: the stream is not there (any more).
	ErrNoStream = errors.New("the stream is not there")
	// ErrFull: the server has no room left. Nothing was stored.
	ErrFull = errors.New("the server has no room left")
)

// Error is a failed call: what was tried, on what, why, and how to mend it.
type Error struct {
	Op     string // append, submit, read, …
	Object string // session, stream, server
	Err    error
	Hint   string // for an operator; "" where there is nothing to mend
}

func (e *Error) Error() string {
	s := "eventlog: " + e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// hints are the ways out of what an operator can meet.
var hints = []struct {
	err  error
	hint string
}{
	{ErrUnavailable, "is the server running, JetStream enabled and the URL right? With users: may this one publish here?"},
	{ErrNoStream, "somebody deleted it, or JetStream runs on another store directory; restore the backup, or open the log anew to begin an empty one"},
	{ErrFull, "free space, or raise the limit: max_store of the server, MaxStreamBytes of the log, quota of the account"},
}

// failed makes an *Error, with the hint that belongs to its cause.
func failed(op, object string, err error) error {
	e := &Error{Op: op, Object: object, Err: err}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			e.Hint = h.hint
			break
		}
	}
	return e
}

// TokenError says that an id cannot be part of a subject.
type TokenError struct {
	ID   string
	Type bool // it is an event type, not an id
}

func (e *TokenError) Error() string {
	switch {
	case e.Type:
		return fmt.Sprintf("event type %q: want family.transition, of A-Z a-z 0-9 _ -", e.ID)
	case e.ID == "":
		return "an empty id; give each session, input and operation one"
	case !utf8.ValidString(e.ID):
		return fmt.Sprintf("id %.32q is not UTF-8; no event could carry it", e.ID)
	}
	return fmt.Sprintf("id %.32q… has %d bytes; at most %d fit into a subject", e.ID, len(e.ID), MaxIDBytes)
}

// TooLargeError says that a message is larger than the server, the stream or
// Config.MaxEventBytes allows. Nothing was sent.
type TooLargeError struct {
	Bytes int
	Limit int // 0 = the server did not say
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message of %d bytes, limit %d; raise max_payload of the server (and max_msg_size of the stream), or send less", e.Bytes, e.Limit)
}

// TooLarge marks the error for callers that do not import this package.
func (e *TooLargeError) TooLarge() bool { return true }

// ConflictError says that another input already has this id (contract,
// section 3): the first one stands.
type ConflictError struct {
	Session  string
	InputID  string
	InboxSeq uint64 // of the one that stands
	Stored   string // its digest
	Sent     string // the digest of the one refused
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("eventlog: submit session %q input %q: identity conflict: other content has this id since inbox sequence %d; choose a new id", e.Session, e.InputID, e.InboxSeq)
}

// GapError says that stored messages From..To of a stream cannot be read any
// more, and nobody of ours removed them: the store is damaged, or lost its end
// at a power cut.
type GapError struct {
	Stream   string
	From, To uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("data loss in stream %s: messages %d to %d are missing; restore the stream from a backup or a mirror", e.Stream, e.From, e.To)
}

// StoredError says that an earlier event whose outcome was unknown is stored
// after all, and that the one now given was decided without it. Fold the
// session's events again and decide anew; the Writer goes on behind StreamSeq.
type StoredError struct {
	EventID   string
	StreamSeq uint64
}

func (e *StoredError) Error() string {
	return fmt.Sprintf("the earlier event %s is stored at stream sequence %d after all; fold it first", e.EventID, e.StreamSeq)
}

// ShapeError says that a stream of our name is not ours: its configuration
// would break the fence or let others forge events. Nothing was changed.
type ShapeError struct {
	Stream string
	Found  []string // what is wrong with it
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("stream %s has a foreign shape: %q; choose another Prefix, or remove that stream", e.Stream, e.Found)
}
