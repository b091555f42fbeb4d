package eventlog

import (
	"sync"
	"time"

	"github.com/loopd/loopd/event"
)

// queue hands records from a consumer's handler to a reader, a batch at a time:
// one wake-up for many records. put waits while the queue is full.
type queue struct {
	limit int // bytes

	mu     sync.Mutex
	room   sync.Cond
	recs   []event.Record // waiting
	bytes  int            // of recs
	spare  []event.Record // the batch handed out before, to be used again
	closed bool
	ready  chan struct{} // holds a token when recs may be non-empty, or closed
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit, ready: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

func (q *queue) put(r event.Record) {
	q.mu.Lock()
	for q.bytes > 0 && q.bytes+len(r.Data) > q.limit && !q.closed {
		q.room.Wait()
	}
	if !q.closed {
		q.recs = append(q.recs, r)
		q.bytes += len(r.Data) + len(r.Subject) + 64
	}
	wake := len(q.recs) == 1 || q.closed
	q.mu.Unlock()
	if wake {
		q.signal()
	}
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns what is there, waiting for at most d; nothing after d, after an
// alarm, or once closed. The batch is the caller's until the next take.
func (q *queue) take(alarm <-chan struct{}, d time.Duration) []event.Record {
	if batch := q.swap(); len(batch) > 0 {
		return batch
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-q.ready:
			if batch, closed := q.swap(), q.isClosed(); len(batch) > 0 || closed {
				return batch
			}
		case <-alarm:
			return nil
		case <-timer.C:
			return nil
		}
	}
}

func (q *queue) swap() []event.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.spare)
	batch := q.recs
	q.recs, q.spare, q.bytes = q.spare[:0], batch, 0
	q.room.Broadcast()
	return batch
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close lets every put return and every take give up.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.room.Broadcast()
	q.mu.Unlock()
	q.signal()
}
