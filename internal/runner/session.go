package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// session is the shell of one session. Only its goroutine touches the fields
// below mail.
type session struct {
	r       *Runner
	id      string
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{} // closed when run has returned
	hinted  atomic.Uint64 // an input with this inbox sequence is there
	cursor  atomic.Uint64 // the last inbox sequence that was answered
	busy    atomic.Int64  // mail that is not worked off yet, and the work itself
	outside atomic.Int64  // effects that run
	mail    chan func()   // outcomes and requests, in order
	poke    chan struct{} // something may have changed

	state    loop.State
	past     *loop.Past
	appender Appender
	owned    bool // this runner claimed the epoch that state is in
	second   bool // it follows one that failed, for the inputs behind the failure
	running  map[string]*task
	wake     func() // stops the timer for the next look
}

// Errors that end a session here.
var (
	errKilled = errors.New("killed")
	errBroken = errors.New("broken")
)

func newSession(r *Runner, id string) *session {
	ctx, cancel := context.WithCancel(r.ctx)
	s := &session{
		r: r, id: id, log: r.cfg.Logger.With("session", id), ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		mail: make(chan func(), r.cfg.Mailbox), poke: make(chan struct{}, 1), running: map[string]*task{}, wake: func() {},
	}
	s.busy.Add(1) // until it has settled for the first time
	return s
}

// hint says that an input is in the inbox.
func (s *session) hint(inboxSeq uint64) {
	for {
		old := s.hinted.Load()
		if inboxSeq <= old || s.hinted.CompareAndSwap(old, inboxSeq) {
			break
		}
	}
	s.nudge()
}

// nudge makes the session look again.
func (s *session) nudge() {
	s.busy.Add(1)
	select {
	case s.poke <- struct{}{}:
	default:
		s.busy.Add(-1)
	}
}

// post hands work to the session's goroutine; false if the session has ended.
func (s *session) post(work func()) bool {
	s.busy.Add(1)
	select {
	case s.mail <- work:
		return true
	case <-s.ctx.Done():
		s.busy.Add(-1)
		return false
	}
}

// ask runs work in the session's goroutine and waits for it.
func (s *session) ask(ctx context.Context, work func(*session) error) error {
	done := make(chan error, 1)
	if !s.post(func() { done <- work(s) }) {
		return fmt.Errorf("runner: session %s has ended here", s.id)
	}
	select {
	case err := <-done:
		return err
	case <-s.ended:
		return fmt.Errorf("runner: session %s has ended here", s.id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over reports whether the session has ended here: fenced, killed or failed.
func (s *session) over() bool { return s.ctx.Err() != nil }

// behind reports whether the inbox holds inputs that were not taken.
func (s *session) behind() bool {
	if s.ctx.Err() != nil {
		return false
	}
	_, more, err := s.r.cfg.Log.NextInput(s.ctx, s.id, s.cursor.Load())
	return err == nil && more
}

// run is the session's life: read it, then settle after each change.
func (s *session) run() {
	defer close(s.ended)
	defer s.drop()
	if err := s.load(); err != nil {
		s.fail(err)
		return
	}
	for {
		if err := s.settle(); err != nil {
			s.fail(err)
			return
		}
		s.busy.Add(-1)
		select {
		case work := <-s.mail:
			work()
		case <-s.poke:
		case <-s.ctx.Done():
		}
		if s.over() {
			return
		}
	}
}

// fail says why a session ends here: once, at the shell.
func (s *session) fail(err error) {
	switch {
	case errors.Is(err, errKilled), s.ctx.Err() != nil:
	case errors.Is(err, event.ErrFenced) && s.owned:
		s.log.Info("another owner has taken the session over; it ends here")
	case errors.Is(err, event.ErrFenced):
		s.log.Info("another owner was faster; the next input reads the session again")
		s.cancel()
		s.r.forget(s, false)
	default:
		s.log.Error("the session ends here; the next input, or the next start of the process, reads it again", "err", err)
		s.cancel()
		s.r.forget(s, true)
	}
}

func (s *session) drop() {
	s.wake()
	s.cancel()
	s.busy.Store(0)
}

// load folds the session's events; while the log does not answer, again.
func (s *session) load() error {
	began, wait := time.Now(), 100*time.Millisecond
	for {
		err := s.read()
		var unread *unreadError
		if !errors.As(err, &unread) || s.over() || time.Since(began) > s.r.cfg.Patience {
			return err
		}
		s.log.Warn("the session cannot be read; trying again", "err", err)
		if err := s.rest(wait); err != nil {
			return err
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// unreadError says that the log gave no answer; what it holds is not known.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

func (s *session) read() error {
	select {
	case s.r.opening <- struct{}{}:
		defer func() { <-s.r.opening }()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.state, s.past = loop.New(s.id, s.r.cfg.Loop), loop.NewPast(s.r.cfg.Loop)
	var last uint64
	for rec, err := range s.r.cfg.Log.Events(s.ctx, s.id) {
		if err != nil {
			return fmt.Errorf("runner: read session %s: %w", s.id, &unreadError{err})
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return fmt.Errorf("runner: read session %s at stream sequence %d: %w", s.id, rec.StreamSeq, err)
		}
		if err := s.fold(e); err != nil {
			return err
		}
		last = rec.StreamSeq
	}
	s.cursor.Store(s.state.InboxSeq)
	s.appender = s.r.cfg.Writer(s.id, last)
	return nil
}

func (s *session) fold(e event.Event) error {
	s.state = loop.Evolve(s.state, e)
	if s.state.Phase == loop.PhaseBroken {
		return fmt.Errorf("runner: session %s: %w: %s", s.id, errBroken, s.state.Broken)
	}
	s.past.Fold(e)
	return nil
}

func (s *session) tick() loop.Tick {
	now := s.r.cfg.Clock.Now()
	return loop.Tick{Now: now, IDs: [2]string{s.r.cfg.NewID(now), s.r.cfg.NewID(now)}}
}

// settle takes inputs and records facts until only the world can change
// anything, then sees to it that the wanted effects run.
func (s *session) settle() error {
	for {
		if _, err := s.take(false); err != nil {
			return err
		}
		t := s.tick()
		if !s.owned {
			if !s.r.mayClaim() || !loop.Wanted(s.state, t) {
				return nil
			}
			if err := s.claim(); err != nil {
				return err
			}
		}
		plan := loop.Next(s.state, t)
		if plan.Boundary {
			if took, err := s.take(true); err != nil {
				return err
			} else if took {
				continue
			}
		}
		moved, err := s.move(plan, t)
		if err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
}

func (r *Runner) mayClaim() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims
}

// take answers the inputs that the inbox holds, in its order. It asks the
// inbox only where something was hinted at, or where it must be sure.
func (s *session) take(sure bool) (took bool, err error) {
	for sure || s.hinted.Load() > s.cursor.Load() {
		d, ok, err := s.r.cfg.Log.NextInput(s.ctx, s.id, s.cursor.Load())
		if err != nil {
			return took, s.patience("read the inbox", err)
		}
		if !ok {
			if hinted := s.hinted.Load(); hinted > s.cursor.Load() && !sure {
				s.cursor.Store(hinted) // it has left the inbox: too old, or erased
			}
			return took, nil
		}
		if err := s.answer(d); err != nil {
			return took, err
		}
		if s.owned {
			s.cursor.Store(d.InboxSeq)
			took = true
		} else if s.cursor.Load() < d.InboxSeq {
			return took, nil // not ours to answer
		}
	}
	return took, nil
}

// answer admits or refuses one input. Where nothing needs to be said, nothing
// is claimed.
func (s *session) answer(d event.Delivery) error {
	cmd := loop.Take{Delivery: d, Prior: s.past.Input(d.InputID), Flaw: s.flaw(d)}
	if !s.owned {
		if s.state.Phase > loop.PhaseUnclaimed {
			if _, err := loop.Decide(s.state, cmd); errors.Is(err, loop.ErrAcknowledged) {
				s.cursor.Store(d.InboxSeq)
				return nil
			}
		}
		if !s.r.mayClaim() {
			return nil
		}
		if err := s.claim(); err != nil {
			return err
		}
	}
	err := s.record(cmd)
	var tooLarge interface{ TooLarge() bool }
	switch {
	case errors.Is(err, loop.ErrAcknowledged):
		return nil
	case errors.As(err, &tooLarge) && tooLarge.TooLarge():
		return s.refuse(d, "the input is larger than the log's messages may be; send less text or attachments by reference")
	case errors.Is(err, event.ErrUnencodable):
		return s.refuse(d, "no event can carry the input: "+err.Error())
	}
	return err
}

// refuse rejects an input that the log cannot hold. Where even the refusal
// cannot be said, the input is passed over: no message in the inbox may end a
// session.
func (s *session) refuse(d event.Delivery, hint string) error {
	err := s.record(loop.RefuseInput{Delivery: d, Hint: strings.ToValidUTF8(hint, "�")})
	if errors.Is(err, event.ErrUnencodable) {
		s.log.Error("an input can be neither taken nor refused; it is passed over", "inbox_seq", d.InboxSeq, "err", err)
		return nil
	}
	return err
}

// flaw is what the schema of an input's kind says against it. What does not
// parse, or is of no known kind, is refused without it.
func (s *session) flaw(d event.Delivery) string {
	in, err := event.ParseInput(d.Data)
	if err != nil || s.r.cfg.Validate == nil || !in.Kind.Content() && !in.Kind.Command() {
		return ""
	}
	if err := s.r.cfg.Validate(string(in.Kind), d.Data); err != nil {
		return err.Error()
	}
	return ""
}

// claim begins a new epoch, after opening the session where it is new.
func (s *session) claim() error {
	if s.state.Phase == loop.PhaseNew {
		if err := s.record(loop.Open{}); err != nil {
			return err
		}
	}
	if err := s.record(loop.ClaimSession{Owner: s.r.cfg.Owner}); err != nil {
		return err
	}
	s.owned = true
	return nil
}

// record is the one place where a fact is appended: decide, encode, append
// behind the fence, fold the very event that was stored.
func (s *session) record(cmd loop.Command) error {
	_, err := s.recorded(cmd)
	return err
}

// recorded is record that tells which fact it was.
func (s *session) recorded(cmd loop.Command) (event.Payload, error) {
	fact, err := loop.Decide(s.state, cmd)
	if err != nil {
		return nil, err
	}
	now := s.r.cfg.Clock.Now()
	epoch := s.state.Epoch
	switch fact.Payload.(type) {
	case event.SessionOpened, event.SessionClaimed:
		epoch = s.state.NextEpoch()
	}
	e, err := event.Encode(event.Event{
		ID: s.r.cfg.NewID(now), SessionID: s.id, Sequence: s.state.Seq + 1, Epoch: epoch,
		Time: now, Prev: s.state.Prev, Cause: fact.Cause, Payload: fact.Payload,
	})
	if err != nil {
		return nil, fmt.Errorf("runner: session %s: %w", s.id, err)
	}
	if err := s.append(e); err != nil {
		return nil, err
	}
	return e.Payload, s.fold(e)
}

// append tries the same event again while the log does not answer: its id
// makes a second try of a stored one harmless.
func (s *session) append(e event.Event) error {
	began, wait := time.Now(), 20*time.Millisecond
	for {
		if s.r.killed.Load() {
			return errKilled
		}
		_, err := s.appender.Append(s.ctx, e)
		if err == nil {
			return nil
		}
		var tooLarge interface{ TooLarge() bool }
		if s.r.killed.Load() || s.ctx.Err() != nil || errors.Is(err, event.ErrFenced) ||
			errors.As(err, &tooLarge) && tooLarge.TooLarge() || time.Since(began) > s.r.cfg.Patience {
			return fmt.Errorf("runner: append %s: %w", e.Type, err)
		}
		s.log.Warn("the log does not take an event; trying again", "type", e.Type, "err", err)
		if err := s.rest(wait); err != nil {
			return err
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// patience waits a little after the log failed to answer a read, then lets
// the session look again.
func (s *session) patience(what string, err error) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	s.log.Warn("the log does not answer; trying again", "what", what, "err", err)
	if err := s.rest(200 * time.Millisecond); err != nil {
		return err
	}
	s.nudge()
	return nil
}

func (s *session) rest(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
