package eventlog

import (
	"context"
	"fmt"

	"github.com/loopd/loopd/event"
)

// AppendFrame saves raw provider bytes of an operation behind those saved
// before; they are stored when it returns. Data larger than one message is cut
// into several. After an error an unknown beginning of data may be stored, and
// nothing may be appended to the operation any more.
func (l *Log) AppendFrame(ctx context.Context, session, operation string, data []byte) error {
	object := fmt.Sprintf("session %q operation %q", session, operation)
	subject, err := l.subjects.item(familyFrames, session, operation)
	if err != nil {
		return failed("append frame", object, err)
	}
	most := l.frameBytes(subject)
	for len(data) > 0 {
		n := min(len(data), most)
		if _, err := l.once(ctx, subject, data[:n], l.streams.frames); err != nil {
			return failed("append frame", object, err)
		}
		data = data[n:]
	}
	return nil
}

// frameBytes is the most that one message on a subject takes. checkSize counts
// the subject, the server does not: the smaller counts.
func (l *Log) frameBytes(subject string) int {
	limit := int(l.nc.MaxPayload())
	if most := int(l.streams.frames.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	return max(limit-len(subject)-64, 1)
}

// Frames are the saved bytes of an operation, from the first to the last known
// when the feed is begun; none if it has none, or they have expired
// (FramesMaxAge). Joined, they are the body; operation.completed has its
// digest.
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
