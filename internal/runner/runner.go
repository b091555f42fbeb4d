package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Config is what a Runner needs; Owner, Log, Writer and Provider are required.
type Config struct {
	Owner      string // shown in session.claimed; name the process, not the machine alone
	Loop       loop.Config
	Log        Log
	Writer     func(session string, last uint64) Appender
	Provider   Provider
	Tools      Tools                                 // nil = every call fails
	Validate   func(kind string, input []byte) error // the schema of an input kind; nil = none is asked
	Clock      Clock                                 // nil = the system's
	NewID      func(time.Time) string                // ULIDs; nil = random ones
	Logger     *slog.Logger                          // nil = slog.Default
	Patience   time.Duration                         // how long an append is tried again while the log does not answer, default 5 min
	Openers    int                                   // sessions read from the log at a time, default 4
	Mailbox    int                                   // outcomes that wait for a session, default 64
	SavedBytes int                                   // of a saved body, for a look-up that needs it; default 64 MiB
}

func (c Config) withDefaults() Config {
	if c.Tools == nil {
		c.Tools = noTools{}
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.NewID == nil {
		c.NewID = func(now time.Time) string { return ulid.MustNew(ulid.Timestamp(now), rand.Reader).String() }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Patience = cmp.Or(c.Patience, 5*time.Minute)
	c.Openers = cmp.Or(c.Openers, 4)
	c.Mailbox = cmp.Or(c.Mailbox, 64)
	c.SavedBytes = cmp.Or(c.SavedBytes, 64<<20)
	c.Loop.Service = c.Provider.Service()
	return c
}

func (c Config) validate() error {
	switch {
	case c.Owner == "":
		return errors.New("runner: config: Owner is required")
	case c.Log == nil || c.Writer == nil || c.Provider == nil:
		return errors.New("runner: config: Log, Writer and Provider are required")
	}
	if _, steers := c.Provider.(Steerer); c.Loop.Steering == event.SteeringModeNative && !(steers && c.Provider.Service().Native) {
		return fmt.Errorf("runner: config: provider %s cannot steer natively; set steering to %s",
			c.Provider.Service().ID, event.SteeringModeRequest)
	}
	return nil
}

// Runner runs many sessions in one process, each in its own goroutine.
type Runner struct {
	cfg      Config
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	opening  chan struct{} // a token for each session being read
	killed   atomic.Bool
	draining atomic.Bool
	noticed  atomic.Uint64
	resumed  atomic.Bool // Run has begun a session for each that the log names

	mu       sync.Mutex
	sessions map[string]*session
	claims   bool // sessions are claimed as they need it
}

// New makes a runner; nothing runs before Run or Claim.
func New(cfg Config) (*Runner, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	return &Runner{
		cfg: cfg, ctx: ctx, cancel: cancel, opening: make(chan struct{}, cfg.Openers), sessions: map[string]*session{},
	}, nil
}

// Run takes inputs up until ctx ends, or Close or Kill is called; then it
// returns nil. With claim, sessions are claimed as soon as there is anything
// to do for them, those that the log left unfinished first; without, only
// those that Claim names.
func (r *Runner) Run(ctx context.Context, claim bool) error {
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	r.mu.Lock()
	r.claims = claim
	r.mu.Unlock()
	if claim {
		ids, err := r.cfg.Log.Sessions(r.ctx)
		if err != nil && r.ctx.Err() == nil {
			return fmt.Errorf("runner: resume: %w", err)
		}
		for _, id := range ids {
			r.session(id)
		}
	}
	r.resumed.Store(true)
	err := r.cfg.Log.WatchInputs(r.ctx, r.notice)
	if r.ctx.Err() != nil {
		r.wg.Wait()
		return nil
	}
	return fmt.Errorf("runner: watch the inbox: %w", err)
}

// notice hears that an input is in a session's inbox.
func (r *Runner) notice(id string, inboxSeq uint64) {
	r.mu.Lock()
	known := r.sessions[id]
	if known == nil && r.claims {
		known = r.begin(id)
	}
	if known != nil {
		known.hint(inboxSeq) // with the lock: forget sees it, or the next session does
	}
	r.mu.Unlock()
	for {
		old := r.noticed.Load()
		if inboxSeq <= old || r.noticed.CompareAndSwap(old, inboxSeq) {
			return
		}
	}
}

// Noticed is the highest inbox sequence that the watch has told of.
func (r *Runner) Noticed() uint64 { return r.noticed.Load() }

// session finds the running session, or starts one.
func (r *Runner) session(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil {
		return s
	}
	return r.begin(id)
}

// begin starts a session; r.mu is held.
func (r *Runner) begin(id string) *session {
	s := newSession(r, id)
	if r.ctx.Err() != nil { // nothing begins any more
		s.drop()
		close(s.ended)
		return s
	}
	r.sessions[id] = s
	r.wg.Go(s.run)
	return s
}

// forget lets a session that ended here be read again: at the next input, or,
// if its own inputs are untaken and nobody else takes them, at once, but once
// only.
func (r *Runner) forget(s *session, untaken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.id] != s {
		return
	}
	delete(r.sessions, s.id)
	if hinted := s.hinted.Load(); untaken && hinted > s.cursor.Load() && r.claims && !s.second {
		next := r.begin(s.id)
		next.second = true
		next.hint(hinted)
	}
}

// Claim begins a new epoch of the session at once, whoever owned it.
func (r *Runner) Claim(ctx context.Context, id string) error {
	r.mu.Lock()
	if s := r.sessions[id]; s != nil && s.over() {
		delete(r.sessions, id)
	}
	r.mu.Unlock()
	return r.session(id).ask(ctx, func(s *session) error {
		err := s.claim()
		s.finish(err) // a lost race ends it here: the next claim reads what the other one appended
		return err
	})
}

// Inspect looks an operation's original up now, read-only.
func (r *Runner) Inspect(ctx context.Context, id, operation string) error {
	return r.session(id).ask(ctx, func(s *session) error {
		s.inspect(operation)
		return nil
	})
}

// Kill ends the runner as kill -9 would: it appends nothing more, connections
// end, and it returns at once.
func (r *Runner) Kill() {
	r.killed.Store(true)
	r.cancel()
}

// Close ends the runner in order: no operation and no tool begins, those that
// run may end until ctx does. It is not the end of any session: what is pending
// stays pending for the next owner (contract 5.5).
func (r *Runner) Close(ctx context.Context) error {
	r.draining.Store(true)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.calling() && ctx.Err() == nil && r.ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	r.cancel() // no session begins behind it
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

func (r *Runner) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		all = append(all, s)
	}
	return all
}

func (r *Runner) calling() bool {
	for _, s := range r.all() {
		if s.outside.Load() > 0 || !s.over() && s.busy.Load() > 0 {
			return true
		}
	}
	return false
}

// Settled reports whether Run has resumed what the log names, no session has
// work in its mailbox or an append under way, and every input that their
// inboxes hold is taken.
func (r *Runner) Settled() bool {
	if !r.resumed.Load() {
		return false
	}
	for _, s := range r.all() {
		if !s.over() && (s.busy.Load() > 0 || s.behind()) {
			return false
		}
	}
	return true
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// noTools is what a runner without tools answers.
type noTools struct{}

func (noTools) Call(context.Context, loop.ToolRequest) loop.ToolOutcome {
	return loop.ToolOutcome{Result: "no tools are configured", Failed: true}
}

func (noTools) Inspect(context.Context, loop.ToolRequest) loop.ToolInspection {
	return loop.ToolInspection{Observed: event.ObservedUnsupported}
}
