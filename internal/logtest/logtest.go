// Package logtest is the suite that any log must pass: what the rest of the
// program relies on, said once, and run over each server that may carry it.
package logtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/runner"
)

// A log is what runners work on.
var (
	_ runner.Log      = (*eventlog.Log)(nil)
	_ runner.Appender = (*eventlog.Writer)(nil)
)

// Server is a server with empty streams.
type Server struct {
	// Open opens the log once more: another process, as it were. change may be
	// nil. The log is closed when the test ends.
	Open func(t testing.TB, change func(*eventlog.Config)) *eventlog.Log
	// Restart ends the server in order and starts it again on the same store;
	// it returns when the server takes connections. nil = it cannot.
	Restart func(t testing.TB)
}

// Run runs the suite; start is called for each test.
func Run(t *testing.T, start func(t *testing.T) Server) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Server)
	}{
		{"append and read", appendAndRead},
		{"append again", appendAgain},
		{"append wrongly", appendWrongly},
		{"a stale writer is fenced for good", staleWriter},
		{"of 64 racers one wins", racers},
		{"two owners fight", fight},
		{"sessions side by side", sideBySide},
		{"odd ids", oddIDs},
		{"ids that fit no subject", badIDs},
		{"ranges", ranges},
		{"follow", follow},
		{"sessions", sessions},
		{"inbox", inbox},
		{"inbox race", inboxRace},
		{"watch inputs", watchInputs},
		{"frames", frames},
		{"follow frames", followFrames},
		{"too large", tooLarge},
		{"cancelled", cancelled},
		{"restart", restart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, start(t)) })
	}
}

// Chain makes the events of one session, each behind the last. It is not safe
// for concurrent use.
type Chain struct {
	Session string
	Epoch   event.Epoch
	last    event.Event
	made    int
}

// NewChain begins a session's events.
func NewChain(session string) *Chain { return &Chain{Session: session, Epoch: 1} }

// Next is the next event, encoded: session.opened first, then session.idle
// with the text.
func (c *Chain) Next(t testing.TB, text string) event.Event {
	t.Helper()
	c.last = c.make(t, text)
	return c.last
}

// Fork is another event in the place of the next one.
func (c *Chain) Fork(t testing.TB, text string) event.Event {
	t.Helper()
	return c.make(t, text)
}

// Made is how many events Next has made.
func (c *Chain) Made() int { return int(c.last.Sequence) }

func (c *Chain) make(t testing.TB, text string) event.Event {
	t.Helper()
	c.made++
	var payload event.Payload = event.SessionIdle{Text: text}
	prev := ""
	if c.last.Sequence == 0 {
		payload = event.SessionOpened{Mode: event.SessionModeLoop, Steering: event.SteeringModeRequest, Provider: text, Tools: []string{}}
	} else {
		prev = event.Digest(c.last.Stored())
	}
	e, err := event.Encode(event.Event{
		ID:        ulid(c.Session+text, c.made),
		SessionID: c.Session,
		Sequence:  c.last.Sequence + 1,
		Epoch:     c.Epoch,
		Time:      time.Date(2026, 1, 2, 3, 4, 5, c.made*1000, time.UTC),
		Prev:      prev,
		Payload:   payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ulid is a valid ULID, the same for the same arguments.
func ulid(salt string, n int) string {
	sum := 0
	for i := range len(salt) {
		sum = (sum*31 + int(salt[i])) % 1_000_000_007
	}
	return fmt.Sprintf("01J%012d%011d", sum, n)
}

// Context ends after two minutes: whatever hangs fails.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Collect reads a feed to its end.
func Collect(t testing.TB, feed event.Feed) []event.Record {
	t.Helper()
	var all []event.Record
	for r, err := range feed {
		if err != nil {
			t.Fatalf("after %d records: %v", len(all), err)
		}
		all = append(all, r)
	}
	return all
}

// FeedError reads a feed and gives the error that ended it.
func FeedError(feed event.Feed) (n int, err error) {
	for _, err := range feed {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Append appends and gives the stream sequence.
func Append(t testing.TB, w *eventlog.Writer, e event.Event) uint64 {
	t.Helper()
	seq, err := w.Append(Context(t), e)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// Verify reads a session and holds it against the rule E1: the sequence counts
// 1, 2, 3 … and each prev matches. It gives the events.
func Verify(t testing.TB, l *eventlog.Log, session string) []event.Event {
	t.Helper()
	var events []event.Event
	prev := ""
	for _, r := range Collect(t, l.Events(Context(t), session)) {
		e, err := event.Decode(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		if int(e.Sequence) != len(events)+1 || e.Prev != prev || e.SessionID != session {
			t.Fatalf("session %q event %d: sequence %d, prev %q, session %q; want sequence %d, prev %q", session, r.StreamSeq, e.Sequence, e.Prev, e.SessionID, len(events)+1, prev)
		}
		prev = event.Digest(r.Data)
		events = append(events, e)
	}
	return events
}
