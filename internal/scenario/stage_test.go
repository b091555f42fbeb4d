package scenario

import (
	"context"
	"errors"
	"testing"
	"time"
)

// rest begins a call that waits at a gate, and returns when it does.
func rest(ctx context.Context, t *testing.T, s *stage, gate string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	s.enter()
	go func() {
		err := s.Wait(ctx, gate)
		s.exit()
		done <- err
	}()
	eventually(t, func() bool { _, still := s.still(); return still })
	return done
}

// eventually polls for at most ten seconds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(time.Millisecond), time.NewTimer(10*time.Second)
	defer tick.Stop()
	defer deadline.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("it never happens")
		}
	}
}

func TestAStageKnowsWhoRests(t *testing.T) {
	s := newStage()
	moves, _ := s.still()
	done := rest(named(t.Context(), "call 1"), t, s, "a")
	if !s.rests("call 1") || s.rests("call 2") {
		t.Error("it does not know who rests")
	}
	if again, _ := s.still(); again == moves {
		t.Error("a call came to rest and left no trace")
	}
	s.Open("a")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Wait(t.Context(), "a"); err != nil {
		t.Errorf("an open gate: %v", err)
	}
	if s.rests("call 1") {
		t.Error("it has gone on and rests")
	}
}

func TestOpeningWakesBeforeAnybodyRuns(t *testing.T) {
	s := newStage()
	s.enter()
	w := &waiter{ctx: t.Context(), ready: make(chan struct{})}
	s.gate("a").waiters[w] = true // a call that rests, and whose goroutine gets no time
	s.busy--
	if _, still := s.still(); !still {
		t.Fatal("a call that rests moves")
	}
	s.Open("a")
	if _, still := s.still(); still {
		t.Error("the gate is open and the stage is still")
	}
}

func TestACallWhoseContextEndedDoesNotRest(t *testing.T) {
	s := newStage()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{ctx: ctx, ready: make(chan struct{})}
	s.gate("a").waiters[w] = true
	cancel()
	if _, still := s.still(); still {
		t.Error("its context has ended, and it is to be still")
	}
	s = newStage()
	ctx, cancel = context.WithCancel(t.Context())
	done := rest(ctx, t, s, "a")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, still := s.still(); !still {
		t.Error("the call has ended and the stage is not still")
	}
}

func TestTheClockMovesFromTimerToTimer(t *testing.T) {
	s := newStage()
	c := newClock(s)
	var fired []string
	note := func(name string) func() {
		return func() { fired = append(fired, name+" "+c.Now().Sub(epochStart).String()) }
	}
	settle := func() error {
		eventually(t, func() bool { _, still := s.still(); return still })
		return nil
	}
	c.AfterFunc(3*time.Second, note("c"))
	c.AfterFunc(time.Second, func() {
		note("a")()
		c.AfterFunc(time.Second, note("b"))
	})
	c.AfterFunc(time.Second, note("a2"))
	stop := c.AfterFunc(2*time.Second, note("stopped"))
	stop()
	c.AfterFunc(11*time.Second, note("late"))
	if err := c.advance(10*time.Second, settle); err != nil {
		t.Fatal(err)
	}
	want := []string{"a 1s", "a2 1s", "b 2s", "c 3s"}
	if len(fired) != len(want) {
		t.Fatalf("fired %q", fired)
	}
	for i := range want {
		if fired[i] != want[i] {
			t.Errorf("fired %q, want %q", fired, want)
		}
	}
	if got := c.Now().Sub(epochStart); got != 10*time.Second {
		t.Errorf("it is %v", got)
	}
	c.AfterFunc(0, note("now"))
	if err := settle(); err != nil || fired[len(fired)-1] != "now 10s" {
		t.Errorf("fired %q, %v", fired, err)
	}
	if err := c.advance(time.Second, func() error { return errDead }); !errors.Is(err, errDead) {
		t.Errorf("a play that does not settle: %v", err)
	}
}
