package scenario

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/loop"
)

// A tail follows the log and folds it: what a play waits for is in here, read
// back from the server and not taken from an owner.
type tail struct {
	session string // what the events are shown to be of: the file's session

	mu      sync.Mutex
	log     []seen
	state   loop.State
	said    map[identity]bool // inputs that were accepted or refused
	err     error
	changed chan struct{} // closed and renewed with each event
}

// identity is an input's id with the digest of its content.
type identity struct{ id, digest string }

func newTail(session, shown string, c loop.Config) *tail {
	return &tail{session: shown, state: loop.New(session, c), said: map[identity]bool{}, changed: make(chan struct{})}
}

// follow reads the session until ctx ends.
func (t *tail) follow(ctx context.Context, log *eventlog.Log, session string) {
	err := log.Follow(ctx, 1, t.take, eventlog.OnlySession(session))
	if ctx.Err() == nil {
		t.mu.Lock()
		t.err = fmt.Errorf("scenario: follow the log: %w", err)
		t.wake()
		t.mu.Unlock()
	}
}

func (t *tail) take(r event.Record) error {
	e, err := event.Decode(r.Data)
	if err != nil {
		return err
	}
	s := seen{Record: r, event: e}
	if err := json.Unmarshal(r.Data, &s.fields); err != nil {
		return err
	}
	s.fields["session_id"] = t.session
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, s)
	t.state = loop.Evolve(t.state, e)
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		t.said[identity{p.InputID, p.Digest}] = true
	case event.InputRejected:
		t.said[identity{p.InputID, p.Digest}] = true
	}
	t.wake()
	return nil
}

func (t *tail) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// events are the events so far; the channel closes when there are more.
func (t *tail) events() (log []seen, more <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log[:len(t.log):len(t.log)], t.changed, t.err
}

// length is how many events there are.
func (t *tail) length() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.log)
}

// folded is the session as the log tells it, and the stream sequence of the
// last event that it holds.
func (t *tail) folded() (state loop.State, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.log); n > 0 {
		last = t.log[n-1].StreamSeq
	}
	return t.state, last
}

// answered reports whether the log says something of this very content.
func (t *tail) answered(id, digest string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said[identity{id, digest}]
}
