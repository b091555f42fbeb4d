package natsembed

import (
	"context"
	"errors"
	"os"
	"sync"
)

// syncer shares rounds of a disk sync among all that wait for one (a group
// commit).
//
//  1. A caller joins the round that has not begun yet, or opens one.
//  2. One goroutine runs rounds while there are any; a round that begins takes
//     everybody who joined so far.
//  3. A caller is done when its round is: the round began after the caller
//     came, so it covers what was written before.
type syncer struct {
	dir  *os.File
	sync func(dir *os.File) error // syncDisk, but in tests

	mu      sync.Mutex
	next    *round // open to join; nil = none
	running bool
	closed  bool
	idle    sync.Cond // running became false
}

type round struct {
	done chan struct{}
	err  error // before done is closed
}

var errClosed = errors.New("natsembed: sync: the server is shut down")

func newSyncer(path string) (*syncer, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &syncer{dir: dir, sync: syncDisk}
	s.idle.L = &s.mu
	return s, nil
}

func (s *syncer) wait(ctx context.Context) error {
	r, err := s.join()
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *syncer) join() (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.next == nil {
		s.next = &round{done: make(chan struct{})}
	}
	r := s.next
	if !s.running {
		s.running = true
		go s.run()
	}
	return r, nil
}

func (s *syncer) run() {
	for {
		s.mu.Lock()
		r := s.next
		s.next = nil
		if r == nil {
			s.running = false
			s.idle.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		r.err = s.sync(s.dir)
		close(r.done)
	}
}

func (s *syncer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.running {
		s.idle.Wait()
	}
	return s.dir.Close()
}
