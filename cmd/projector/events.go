package main

import (
	"context"
	"errors"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
)

// stretch is a part of a log's past.
type stretch struct {
	session  string // "" = all
	from, to uint64 // stream sequences, both included; to 0 = the head
}

// past is a stretch of the log as it was when the feed is begun. Holes that the
// server can prove are said and passed; an unproven one ends the feed: what
// follows it would be told as if nothing were missing.
func (s *source) past(ctx context.Context, e env, part stretch) event.Feed {
	return func(yield func(event.Record, error) bool) {
		head, err := s.log.Head(ctx)
		if err != nil {
			yield(event.Record{}, err)
			return
		}
		if part.to == 0 || part.to > head {
			part.to = head
		}
		var opts []eventlog.ReadOption
		if part.session != "" {
			opts = append(opts, eventlog.OnlySession(part.session))
		}
		for next := max(part.from, 1); next <= part.to; {
			var gap *eventlog.GapError
			for rec, err := range s.log.ReadAll(ctx, next, part.to, opts...) {
				if errors.As(err, &gap) {
					break
				}
				if !yield(rec, err) || err != nil {
					return
				}
			}
			if gap == nil {
				return
			}
			hole, err := s.prove(ctx, gap)
			if err != nil {
				yield(event.Record{}, err)
				return
			}
			e.say("projector: events %d to %d are missing: %s", hole.From, hole.To, hole.Proof)
			next = hole.To + 1
		}
	}
}
