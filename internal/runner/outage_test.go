package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// hasty is a log that soon says that the server is gone.
func hasty(_ *natsembed.Config, l *eventlog.Config) {
	l.RequestTimeout, l.Attempts = 250*time.Millisecond, 2
}

// TestLogGoneForAWhile: the server goes at each kind of append in turn, and
// comes back; the session goes on, and nothing is doubled.
func TestLogGoneForAWhile(t *testing.T) {
	for _, at := range []event.Type{
		event.TypeSessionClaimed, event.TypeInputAccepted, event.TypeOperationAdmitted, event.TypeOperationDispatched,
		event.TypeOperationCompleted, event.TypeInvocationDispatched, event.TypeInvocationCompleted, event.TypeGenerationFinished,
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w, p, s := newWorld(t, hasty), newProvider(), newWorkshop()
			o := &outage{w: w, at: at, failed: make(chan struct{})}
			g := w.run(p, func(c *runner.Config) {
				c.Tools = s
				writer := c.Writer
				c.Writer = func(session string, last uint64) runner.Appender { return watched{writer(session, last), o} }
			})
			sent := w.say("s", "i1", "call look, write")
			receive(t, "an append fails", o.failed)
			w.start()
			w.reconcile("s", g, sent)
			all := w.stored("s")
			if n := count(all, event.TypeGenerationFinished); n != 1 || all[len(all)-1].Epoch != 1 {
				t.Errorf("the session does not go on:\n%s", outline(all))
			}
			if _, times := p.mostAsked(); times != 1 || len(s.repeated()) != 0 {
				t.Errorf("an operation was requested %d times; repeated: %v", times, s.repeated())
			}
			w.audit()
		})
	}
}

// outage stops the server right before an append, once.
type outage struct {
	w      *world
	at     event.Type
	failed chan struct{} // closed when an append has failed
	stop   sync.Once
	tell   sync.Once
}

type watched struct {
	runner.Appender
	outage *outage
}

func (a watched) Append(ctx context.Context, e event.Event) (uint64, error) {
	if e.Type == a.outage.at {
		a.outage.stop.Do(func() { a.outage.w.ns.Shutdown() })
	}
	seq, err := a.Appender.Append(ctx, e)
	if err != nil {
		a.outage.tell.Do(func() { close(a.outage.failed) })
	}
	return seq, err
}

// TestLogGoneWhileAnAnswerComes: what cannot be saved is not read; the answer
// is looked up when the log is back.
func TestLogGoneWhileAnAnswerComes(t *testing.T) {
	w, p := newWorld(t, hasty), newProvider()
	stopped := make(chan struct{})
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		w.ns.Shutdown()
		outcome := p.converse(req, out)
		close(stopped)
		return outcome
	}
	g := w.run(p, nil)
	sent := w.say("s", "i1", "hello")
	receive(t, "the answer breaks off", stopped)
	w.start()
	w.reconcile("s", g, sent)
	all := w.stored("s")
	if c := last[event.OperationCompleted](t, all); !c.Recovered || last[event.GenerationFinished](t, all).Text != "re: hello" {
		t.Errorf("completed: %+v", c)
	}
	w.audit()
}

// TestFramesAwaitTheLog: a dispatched request waits for its first frame, and
// then leaves, once.
func TestFramesAwaitTheLog(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	flaky := &flakyFrames{left: 3}
	w.run(p, func(c *runner.Config) {
		flaky.Log = c.Log
		c.Log = flaky
	})
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	if count(all, event.TypeGenerationFinished) != 1 || p.requests() != 1 {
		t.Errorf("%d requests:\n%s", p.requests(), outline(all))
	}
	w.audit()
}

// flakyFrames refuses some frames first.
type flakyFrames struct {
	runner.Log
	mu   sync.Mutex
	left int
}

func (l *flakyFrames) AppendFrame(ctx context.Context, session, operation string, last uint64, data []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left >= 0 {
		return 0, errors.New("not now")
	}
	return l.Log.AppendFrame(ctx, session, operation, last, data)
}

// TestPatienceEnds: a session whose log stays silent for too long ends here,
// and the next input reads it again.
func TestPatienceEnds(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	silent := &silence{until: make(chan struct{})}
	g := w.run(p, func(c *runner.Config) {
		c.Patience = time.Nanosecond
		writer := c.Writer
		c.Writer = func(session string, last uint64) runner.Appender { return quiet{writer(session, last), silent} }
	})
	w.say("s", "i1", "hello")
	w.poll("the session ends", func() bool { return w.notes.has("the session ends here") })
	close(silent.until)
	sent := w.say("s", "i2", "and now")
	w.reconcile("s", g, sent)
	all := w.stored("s")
	if f := last[event.GenerationFinished](t, all); f.Text != "re: and now" || count(all, event.TypeInputAccepted) != 2 {
		t.Errorf("finished: %+v\n%s", f, outline(all))
	}
	w.audit()
}

// TestInputBehindAFailureIsNotForgotten: an input that was heard of before its
// session failed is taken by the one that follows.
func TestInputBehindAFailureIsNotForgotten(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	silent := &silence{until: make(chan struct{}), asked: make(chan struct{}), hold: make(chan struct{})}
	g := w.run(p, func(c *runner.Config) {
		c.Patience = time.Nanosecond
		writer := c.Writer
		c.Writer = func(session string, last uint64) runner.Appender { return quiet{writer(session, last), silent} }
	})
	w.say("s", "i1", "hello")
	receive(t, "the append", silent.asked)
	sent := w.say("s", "i2", "and now")
	w.poll("the input is heard of", func() bool { return g.r.Noticed() >= sent })
	close(silent.until)
	close(silent.hold) // the append fails only now
	w.reconcile("s", g, sent)
	if n := count(w.stored("s"), event.TypeInputAccepted); n != 2 {
		t.Errorf("%d inputs are accepted, want 2:\n%s", n, outline(w.stored("s")))
	}
	w.audit()
}

// silence is a log that takes nothing until a signal.
type silence struct {
	until chan struct{}
	asked chan struct{} // closed at the first append, if there is one
	hold  chan struct{} // the first append fails when this is closed, if there is one
	once  sync.Once
}

type quiet struct {
	runner.Appender
	silence *silence
}

func (q quiet) Append(ctx context.Context, e event.Event) (uint64, error) {
	first := false
	q.silence.once.Do(func() { first = true })
	if first && q.silence.asked != nil {
		close(q.silence.asked)
		<-q.silence.hold
		return 0, eventlog.ErrUnavailable
	}
	select {
	case <-q.silence.until:
		return q.Appender.Append(ctx, e)
	default:
		return 0, eventlog.ErrUnavailable
	}
}

// TestSessionIsReadInTheEnd: a log that does not answer while a session is
// read is asked again.
func TestSessionIsReadInTheEnd(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	deaf := &deafLog{left: 2}
	g := w.run(p, func(c *runner.Config) {
		deaf.Log = c.Log
		c.Log = deaf
	})
	sent := w.say("s", "i1", "hello")
	w.reconcile("s", g, sent)
	w.awaitIdle("s", 1)
	w.audit()
}

// deafLog does not answer the first reads of a session.
type deafLog struct {
	runner.Log
	mu   sync.Mutex
	left int
}

func (l *deafLog) Events(ctx context.Context, session string) event.Feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left >= 0 {
		return func(yield func(event.Record, error) bool) { yield(event.Record{}, eventlog.ErrUnavailable) }
	}
	return l.Log.Events(ctx, session)
}
