package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// stream takes what a provider sends: raw bytes go to the frames before
// anything else, messages and confirmations to the session, in order.
type stream struct {
	ctx       context.Context
	s         *session
	operation string
	frames    *frames

	quiet   time.Duration // longest wait without a frame
	expired func()
	mu      sync.Mutex
	timer   func()
}

func newStream(ctx context.Context, s *session, operation string, quiet time.Duration, expired func()) *stream {
	st := &stream{
		ctx: ctx, s: s, operation: operation, quiet: quiet, expired: expired, timer: func() {},
		frames: &frames{r: s.r, session: s.id, operation: operation},
	}
	st.rewind()
	return st
}

// rewind begins the wait for the next frame.
func (st *stream) rewind() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.timer()
	st.timer = func() {}
	if st.ctx.Err() == nil {
		st.timer = st.s.r.cfg.Clock.AfterFunc(st.quiet, st.expired)
	}
}

func (st *stream) stop() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.timer()
	st.timer = func() {}
}

// Raw saves body bytes before anything is read from them.
func (st *stream) Raw(b []byte) error {
	if st.ctx.Err() != nil {
		return context.Cause(st.ctx)
	}
	st.rewind()
	return st.frames.raw(st.ctx, b)
}

// Delta shows provisional text to who watches the operation's frames.
func (st *stream) Delta(kind, text string) {
	if st.ctx.Err() != nil {
		return
	}
	if err := st.frames.add(st.ctx, event.Frame{Type: event.FrameDelta, Kind: kind, Text: readable(text)}); err != nil && st.ctx.Err() == nil {
		st.s.log.Debug("a delta is not among the frames", "operation", st.operation, "err", err)
	}
}

// Message appends a content block that ended. One that does not fit the log is
// left out: it is provisional, and its bytes are in the frames.
func (st *stream) Message(text string) {
	text = readable(text)
	switch {
	case text == "":
	case quoted(text) > st.s.r.room():
		st.s.log.Warn("a content block is larger than the log takes; it is left out", "operation", st.operation, "bytes", len(text))
	default:
		st.wait(loop.Say{OperationID: st.operation, Text: text})
	}
}

// Applied appends the successor boundary's confirmations. A confirmation also
// answers a steering call whose own answer is still on its way.
func (st *stream) Applied(inputIDs []string) {
	for _, id := range inputIDs {
		st.wait(loop.AnswerSteering{InputID: id, Answer: loop.SteerAccepted}, loop.ConfirmSteering{InputID: id})
	}
}

// wait records the commands in order and returns when they are stored.
func (st *stream) wait(cmds ...loop.Command) {
	done := make(chan struct{})
	posted := st.s.post(func() {
		defer close(done)
		for _, cmd := range cmds {
			err := st.s.record(cmd)
			var rejected *loop.RejectedError
			if err != nil && !errors.As(err, &rejected) {
				st.s.finish(err)
				return
			}
		}
	})
	if !posted {
		return
	}
	select {
	case <-done:
	case <-st.s.ended:
	}
}
