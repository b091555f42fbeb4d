package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/projections"
)

// fold folds the log into a store, to the stream sequence to, over holes that
// can be proven. An unproven one ends it: folding on would lose events for
// good and say nothing.
func (s *source) fold(ctx context.Context, store *projections.Store, to uint64) error {
	for store.Offset() < to {
		err := store.Fold(ctx, s.log.ReadAll(ctx, store.Offset()+1, to))
		var gap *eventlog.GapError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &gap):
			return err
		}
		if err := s.skip(ctx, store, gap); err != nil {
			return err
		}
	}
	return nil
}

// skip moves a store over a gap of the log, if the log can prove it.
func (s *source) skip(ctx context.Context, store *projections.Store, gap *eventlog.GapError) error {
	hole, err := s.prove(ctx, gap)
	if err != nil {
		return err
	}
	return store.Skip(hole)
}

// state is what the server tells of the stream; lost are messages of which it
// knows that it cannot read them.
type state struct {
	Created time.Time `json:"created"`
	State   struct {
		First   uint64   `json:"first_seq"`
		Last    uint64   `json:"last_seq"`
		Deleted []uint64 `json:"deleted"`
		Lost    *struct {
			Messages []uint64 `json:"msgs"`
		} `json:"lost"`
	} `json:"state"`
	Error *struct {
		Code        int    `json:"code"`
		Description string `json:"description"`
	} `json:"error"`
}

// look asks the server for the stream's state. The client library leaves out
// what is lost.
func (s *source) look(ctx context.Context, deleted bool) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out state
	reply, err := s.log.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+s.stream.Name, fmt.Appendf(nil, `{"deleted_details":%t}`, deleted))
	if err == nil {
		err = json.Unmarshal(reply.Data, &out)
	}
	if err == nil && out.Error != nil {
		err = errors.New(out.Error.Description)
		if out.Error.Code == 404 {
			err = fmt.Errorf("%w: %w", eventlog.ErrNoStream, err)
		}
	}
	if err != nil {
		return state{}, fmt.Errorf("state of stream %s: %w", s.stream.Name, err)
	}
	return out, nil
}

// prove holds a gap against the server's own account: sequences before the
// first were purged, others must be listed as deleted, and none as lost.
func (s *source) prove(ctx context.Context, gap *eventlog.GapError) (projections.Hole, error) {
	now, err := s.look(ctx, true)
	if err != nil {
		return projections.Hole{}, err
	}
	hole := projections.Hole{From: gap.From, To: gap.To}
	if !now.Created.Equal(s.stream.Created) {
		return hole, &recreatedError{stream: s.stream.Name, was: s.stream.Created, is: now.Created}
	}
	if gap.From > now.State.Last {
		return hole, &aheadError{offset: gap.To, head: now.State.Last}
	}
	lost := func(seq uint64) bool { return now.State.Lost != nil && slices.Contains(now.State.Lost.Messages, seq) }
	slices.Sort(now.State.Deleted)
	for seq := gap.From; seq <= gap.To; seq++ {
		_, deleted := slices.BinarySearch(now.State.Deleted, seq)
		if seq >= now.State.First && !deleted || lost(seq) {
			return hole, fmt.Errorf("the hole at sequence %d is not proven: the server does not say that it was deleted: %w", seq, gap)
		}
	}
	hole.Proof = "deleted, as the server says"
	if gap.To < now.State.First {
		hole.Proof = fmt.Sprintf("purged, the log begins at %d", now.State.First)
	}
	return hole, nil
}

// recreatedError says that the stream is another one by now.
type recreatedError struct {
	stream  string
	was, is time.Time
}

func (e *recreatedError) Error() string {
	return fmt.Sprintf("stream %s was created again at %s (the views fold the one of %s)", e.stream, e.is.Format(time.RFC3339Nano), e.was.Format(time.RFC3339Nano))
}

// aheadError says that a store has folded more than the log has: the log lost
// its end.
type aheadError struct{ offset, head uint64 }

func (e *aheadError) Error() string {
	return fmt.Sprintf("the views are at %d, the log ends at %d: it lost its end", e.offset, e.head)
}

// checkAhead holds a store against the log's head, which it returns.
func (s *source) checkAhead(ctx context.Context, store *projections.Store) (head uint64, err error) {
	if head, err = s.log.Head(ctx); err != nil {
		return 0, err
	}
	if store.Offset() > head {
		return head, &aheadError{store.Offset(), head}
	}
	return head, nil
}
