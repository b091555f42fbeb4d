package scenario

import (
	"context"
	"sync"
)

// A stage knows whether anything but the host still moves: it counts the calls
// that are under way and holds the gates at which they wait. It is what makes a
// play deterministic without a single sleep.
//
// A call that waits at a gate rests. It stops resting the moment that the gate
// opens or its context ends, not when its goroutine gets to run: so between an
// act of the host and its consequence the stage is never still.
type stage struct {
	mu    sync.Mutex
	busy  int    // calls under way that do not rest
	moves uint64 // grows with every change
	gates map[string]*gate
}

type gate struct {
	open    bool
	waiters map[*waiter]bool
}

type waiter struct {
	ctx   context.Context
	ready chan struct{}
}

// callName is what a call is known by while it rests.
type callName struct{}

func named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callName{}, name)
}

func newStage() *stage { return &stage{gates: map[string]*gate{}} }

// enter and exit bracket a call.
func (s *stage) enter() {
	s.mu.Lock()
	s.busy++
	s.moves++
	s.mu.Unlock()
}

func (s *stage) exit() {
	s.mu.Lock()
	s.busy--
	s.moves++
	if s.busy < 0 {
		panic("scenario: more calls ended than began")
	}
	s.mu.Unlock()
}

// Wait rests a call until the gate is open (nil) or ctx has ended (its error).
func (s *stage) Wait(ctx context.Context, name string) error {
	s.mu.Lock()
	g := s.gate(name)
	if g.open {
		s.mu.Unlock()
		return nil
	}
	w := &waiter{ctx: ctx, ready: make(chan struct{})}
	g.waiters[w] = true
	s.busy--
	s.moves++
	s.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !g.waiters[w] {
		return nil // it was opened in the meantime
	}
	delete(g.waiters, w)
	s.busy++
	s.moves++
	return ctx.Err()
}

// Open opens a gate for good.
func (s *stage) Open(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(name)
	g.open = true
	for w := range g.waiters {
		delete(g.waiters, w)
		s.busy++
		close(w.ready)
	}
	s.moves++
}

func (s *stage) gate(name string) *gate {
	g := s.gates[name]
	if g == nil {
		g = &gate{waiters: map[*waiter]bool{}}
		s.gates[name] = g
	}
	return g
}

// still reports whether every call rests, and how many changes led there: the
// same number later means that nothing has happened in between.
func (s *stage) still() (moves uint64, still bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != 0 {
		return s.moves, false
	}
	for _, g := range s.gates {
		for w := range g.waiters {
			if w.ctx.Err() != nil {
				return s.moves, false
			}
		}
	}
	return s.moves, true
}

// rests reports whether a call of that name waits at a gate.
func (s *stage) rests(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		for w := range g.waiters {
			if w.ctx.Value(callName{}) == name {
				return true
			}
		}
	}
	return false
}
