package eventlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
)

// TestLostInTransit: an acknowledgement or a request that is lost for real
// neither doubles nor loses an event, and the caller does not notice.
func TestLostInTransit(t *testing.T) {
	for name, f := range map[string]fault{"ack lost": ackLost, "connection cut": ackCut, "request lost": requestLost} {
		t.Run(name, func(t *testing.T) {
			l, wire, _ := tappedLog(t, nil)
			c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
			for i := range 5 {
				wire.arm(f, nil)
				if seq := logtest.Append(t, w, c.Next(t, "x")); seq != uint64(i+1) {
					t.Fatalf("event %d has stream sequence %d", i+1, seq)
				}
				if !wire.happened() {
					t.Fatal("nothing was lost: the test proves nothing")
				}
			}
			if n := len(logtest.Verify(t, l, "s1")); n != 5 {
				t.Errorf("%d events, want 5", n)
			}
		})
	}
}

// interrupted appends an event whose context ends while its outcome is
// unknown.
func interrupted(t *testing.T, wire *tap, w *eventlog.Writer, e event.Event, f fault) {
	t.Helper()
	ctx, cancel := context.WithCancel(logtest.Context(t))
	defer cancel()
	wire.arm(f, cancel)
	_, err := w.Append(ctx, e)
	if !errors.Is(err, eventlog.ErrUnknownOutcome) || errors.Is(err, eventlog.ErrFenced) {
		t.Fatalf("%v, want ErrUnknownOutcome", err)
	}
	if !wire.happened() {
		t.Fatal("nothing was lost: the test proves nothing")
	}
}

func TestUnknownOutcomeSameEvent(t *testing.T) {
	for name, f := range map[string]fault{"it was stored": ackLost, "it was not": requestLost} {
		t.Run(name, func(t *testing.T) {
			l, wire, _ := tappedLog(t, nil)
			c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
			logtest.Append(t, w, c.Next(t, "opened"))
			e := c.Next(t, "in doubt")
			interrupted(t, wire, w, e, f)
			if seq := logtest.Append(t, w, e); seq != 2 {
				t.Errorf("sequence %d, want 2", seq)
			}
			logtest.Append(t, w, c.Next(t, "goes on"))
			if n := len(logtest.Verify(t, l, "s1")); n != 3 {
				t.Errorf("%d events, want 3", n)
			}
		})
	}
}

func TestUnknownOutcomeOtherEvent(t *testing.T) {
	t.Run("the first was stored", func(t *testing.T) {
		l, wire, _ := tappedLog(t, nil)
		c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
		logtest.Append(t, w, c.Next(t, "opened"))
		other := c.Fork(t, "decided without it")
		e := c.Next(t, "in doubt")
		interrupted(t, wire, w, e, ackLost)
		for range 2 {
			var stored *eventlog.StoredError
			if _, err := w.Append(logtest.Context(t), other); !errors.As(err, &stored) || stored.EventID != e.ID || stored.StreamSeq != 2 {
				t.Fatalf("%v, want a StoredError of %s at 2", err, e.ID)
			}
		}
		logtest.Append(t, w, c.Next(t, "decided with it"))
		if n := len(logtest.Verify(t, l, "s1")); n != 3 {
			t.Errorf("%d events, want 3", n)
		}
	})
	t.Run("the first was not", func(t *testing.T) {
		l, wire, _ := tappedLog(t, nil)
		c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
		logtest.Append(t, w, c.Next(t, "opened"))
		lost := c.Fork(t, "in doubt")
		interrupted(t, wire, w, lost, requestLost)
		logtest.Append(t, w, c.Next(t, "decided without it"))
		var stored *eventlog.StoredError
		if _, err := w.Append(logtest.Context(t), lost); !errors.As(err, &stored) {
			t.Errorf("the first after all: %v, want a StoredError", err)
		}
		if n := len(logtest.Verify(t, l, "s1")); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
}

func TestUnknownOutcomeAnotherOwner(t *testing.T) {
	for name, f := range map[string]fault{"it was stored": ackLost, "it was not": requestLost} {
		t.Run(name, func(t *testing.T) {
			l, wire, h := tappedLog(t, nil)
			c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
			last := logtest.Append(t, w, c.Next(t, "opened"))
			e := c.Fork(t, "in doubt")
			interrupted(t, wire, w, e, f)
			if f == ackLost {
				c.Next(t, "in doubt")
				last = 2
			}
			newer := h.log(t, nil).Writer("s1", last)
			logtest.Append(t, newer, c.Fork(t, "the newer owner"))
			for range 2 {
				if _, err := w.Append(logtest.Context(t), e); !errors.Is(err, eventlog.ErrFenced) {
					t.Fatalf("%v, want ErrFenced", err)
				}
			}
		})
	}
}

func TestSubmitLostInTransit(t *testing.T) {
	for name, f := range map[string]fault{"ack lost": ackLost, "connection cut": ackCut, "request lost": requestLost} {
		t.Run(name, func(t *testing.T) {
			l, wire, _ := tappedLog(t, nil)
			ctx := logtest.Context(t)
			wire.arm(f, nil)
			if err := l.Submit(ctx, "s1", "i1", []byte(`{"text":"x"}`)); err != nil {
				t.Fatal(err)
			}
			if !wire.happened() {
				t.Fatal("nothing was lost: the test proves nothing")
			}
			d, ok, err := l.NextInput(ctx, "s1", 0)
			if err != nil || !ok || d.InboxSeq != 1 {
				t.Fatal(d, ok, err)
			}
			if _, ok, err := l.NextInput(ctx, "s1", 1); ok || err != nil {
				t.Errorf("a second copy: %v %v", ok, err)
			}
		})
	}
}

// TestNoExpectation: what carries no expectation is never sent twice.
func TestNoExpectation(t *testing.T) {
	l, wire, _ := tappedLog(t, nil)
	ctx := logtest.Context(t)
	wire.arm(ackLost, nil)
	if seq, err := l.AppendFrame(ctx, "s1", "op1", 0, []byte("x")); seq != 1 || err != nil {
		t.Errorf("a frame whose ack was lost: %d %v", seq, err)
	}
	wire.arm(ackLost, nil)
	if _, err := l.SubmitPlain(ctx, "s1", "i1", []byte("x")); !errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("input: %v", err)
	}
	if n := len(logtest.Collect(t, l.Frames(ctx, "s1", "op1"))); n != 1 {
		t.Errorf("%d frames, want 1", n)
	}
	if _, ok, _ := l.NextInput(ctx, "s1", 1); ok {
		t.Error("the input is stored twice")
	}
}

func TestBarrier(t *testing.T) {
	var fail error
	calls := 0
	l, _, _ := tappedLog(t, func(c *eventlog.Config) {
		c.Barrier = func(context.Context) error { calls++; return fail }
	})
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "opened"))
	if calls != 1 {
		t.Fatalf("the barrier was awaited %d times", calls)
	}
	fail = errors.New("disk on fire")
	other := c.Fork(t, "decided without it")
	e := c.Next(t, "in doubt")
	if _, err := w.Append(logtest.Context(t), e); !errors.Is(err, eventlog.ErrUnknownOutcome) || !errors.Is(err, fail) {
		t.Fatalf("%v", err)
	}
	var stored *eventlog.StoredError
	if _, err := w.Append(logtest.Context(t), other); !errors.As(err, &stored) {
		t.Errorf("%v, want a StoredError", err)
	}
	fail = nil
	if seq := logtest.Append(t, w, e); seq != 2 || calls != 3 {
		t.Errorf("sequence %d, the barrier was awaited %d times", seq, calls)
	}
	if n := len(logtest.Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
