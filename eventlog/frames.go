package eventlog

import (
	"bytes"
	"context"
	"fmt"

	"github.com/loopd/loopd/event"
)

// AppendFrame saves one frame of an operation behind the one whose stream
// sequence is last (0 = it is the first), and gives its own. The fence is the
// operation's subject: two owners cannot both write to it, the later one is
// answered [ErrFenced]. An error that is [ErrUnknownOutcome] is the only one
// after which it may be stored.
func (l *Log) AppendFrame(ctx context.Context, session, operation string, last uint64, data []byte) (uint64, error) {
	object := fmt.Sprintf("session %q operation %q", session, operation)
	subject, err := l.subjects.item(familyFrames, session, operation)
	if err != nil {
		return 0, failed("append frame", object, err)
	}
	stream := l.streams.frames
	m := message(subject, "", int64(last), data)
	if err := l.checkSize(m, stream); err != nil {
		return 0, failed("append frame", object, err)
	}
	seq, err := l.deliver(ctx, m, stream, func(ctx context.Context, hint uint64) (uint64, bool, error) {
		return l.lookFrame(ctx, subject, last, hint, data)
	})
	if err != nil {
		return 0, failed("append frame", object, err)
	}
	return seq, nil
}

// lookFrame finds out what stands at the end of an operation's frames.
func (l *Log) lookFrame(ctx context.Context, subject string, last, hint uint64, data []byte) (seq uint64, found bool, err error) {
	end, err := l.getLast(ctx, l.streams.frames, subject)
	switch {
	case err != nil:
		return 0, false, err
	case end.Sequence == last:
		return 0, false, nil
	case end.Sequence > last && bytes.Equal(end.Data, data):
		return end.Sequence, true, nil
	}
	return 0, false, fmt.Errorf("%w (frame at stream sequence %d)", ErrFenced, max(end.Sequence, hint))
}

// FrameBytes is the most that one frame may have.
func (l *Log) FrameBytes() int {
	limit := int(l.nc.MaxPayload())
	if most := int(l.streams.frames.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	return max(limit-frameOverhead, 1)
}

// frameOverhead is what a message has beside a frame: subject and fence.
const frameOverhead = 2048

// Frames are the saved frames of an operation, from the first to the last known
// when the feed is begun; none if it has none, or they have expired
// (FramesMaxAge).
func (l *Log) Frames(ctx context.Context, session, operation string) event.Feed {
	s, err := l.frames(session, operation)
	if err != nil {
		return func(yield func(event.Record, error) bool) { yield(event.Record{}, err) }
	}
	return l.feed(ctx, s)
}

// FollowFrames calls fn for each saved frame of an operation, those to come
// included, until ctx ends or fn returns an error. The error is never nil.
func (l *Log) FollowFrames(ctx context.Context, session, operation string, fn func(event.Record) error) error {
	s, err := l.frames(session, operation)
	if err != nil {
		return err
	}
	s.follow = true
	return l.run(ctx, s, "follow frames", fn)
}

func (l *Log) frames(session, operation string) (source, error) {
	subject, err := l.subjects.item(familyFrames, session, operation)
	if err != nil {
		return source{}, failed("read frames", fmt.Sprintf("session %q operation %q", session, operation), err)
	}
	s := l.source(l.streams.frames, 1, 0, nil)
	s.filter, s.allowGaps = subject, true
	return s, nil
}
