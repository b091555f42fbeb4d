package runner

import (
	"context"
	"fmt"
	"sync"

	"github.com/loopd/loopd/event"
)

// frames writes an operation's own subject: gapless, behind its own fence.
type frames struct {
	r                  *Runner
	session, operation string

	mu   sync.Mutex
	seq  uint64 // of the last frame
	last uint64 // its stream sequence
}

// add stores one frame.
func (f *frames) add(ctx context.Context, frame event.Frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.r.killed.Load() {
		return errKilled
	}
	frame.SessionID, frame.OperationID, frame.Seq = f.session, f.operation, f.seq+1
	b, err := event.EncodeFrame(frame)
	if err != nil {
		return err
	}
	stored, err := f.r.cfg.Log.AppendFrame(ctx, f.session, f.operation, f.last, b)
	if err != nil {
		return fmt.Errorf("runner: save frame %d of operation %s: %w", frame.Seq, f.operation, err)
	}
	f.seq, f.last = frame.Seq, stored
	return nil
}

// raw stores body bytes, cut to what a frame may have (base64 makes four bytes
// of three).
func (f *frames) raw(ctx context.Context, b []byte) error {
	most := max((f.r.cfg.Log.FrameBytes()-frameFields)/4*3, 1)
	for len(b) > 0 {
		n := min(len(b), most)
		if err := f.add(ctx, event.Frame{Type: event.FrameProvider, Data: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// frameFields is more than a frame's fields have beside its data: two ids of
// 512 bytes, escaped.
const frameFields = 8 << 10

// saved reads what was stored of an operation: the raw body so far, and where
// its frames end. What has expired is gone: the body is then empty.
func (r *Runner) saved(ctx context.Context, session, operation string) (body []byte, end *frames, err error) {
	end = &frames{r: r, session: session, operation: operation}
	whole := true
	for rec, err := range r.cfg.Log.Frames(ctx, session, operation) {
		if err != nil {
			return nil, nil, fmt.Errorf("runner: read frames of operation %s: %w", operation, err)
		}
		f, err := event.DecodeFrame(rec.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("runner: read frames of operation %s at stream sequence %d: %w", operation, rec.StreamSeq, err)
		}
		whole = whole && f.Seq == end.seq+1
		end.seq, end.last = f.Seq, rec.StreamSeq
		if f.Type == event.FrameProvider && len(body)+len(f.Data) <= r.cfg.SavedBytes {
			body = append(body, f.Data...)
		}
	}
	if !whole {
		body = nil
	}
	return body, end, nil
}

// endFrame is the frame that tells watchers how an operation ended. It only
// repeats the log, so a failure to write it costs nothing but that.
func (s *session) endFrame(f *frames, p event.Payload) {
	frame := event.Frame{Type: event.FrameOperation}
	switch p := p.(type) {
	case event.OperationCompleted:
		frame.State, frame.Finish = "completed", p.Finish
	case event.OperationFailed:
		frame.State = "failed"
	case event.OperationUnknown:
		frame.State = "unknown"
	default:
		return
	}
	if err := f.add(s.ctx, frame); err != nil && s.ctx.Err() == nil {
		s.log.Debug("the end of an operation is not among its frames", "operation", f.operation, "err", err)
	}
}
