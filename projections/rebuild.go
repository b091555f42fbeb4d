package projections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/projections/view"
)

// Rebuild folds a feed, from the stream's beginning, into a new store in dir,
// where there must be none. After an error the store is closed and what it has
// folded stays: Open and Fold go on from its offset.
func Rebuild(ctx context.Context, feed event.Feed, dir string, cfg Config) (*Store, error) {
	s, err := open(dir, cfg, true)
	if err != nil {
		return nil, err
	}
	if err := s.Fold(ctx, feed); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Difference is a row that two stores do not have in common: nil where one of
// them has none.
type Difference struct {
	Key  view.Key
	A, B []byte
}

func (d Difference) String() string {
	say := func(row []byte) string {
		if row == nil {
			return "no row"
		}
		return string(row)
	}
	return fmt.Sprintf("%s: %s, and %s", d.Key, say(d.A), say(d.B))
}

// Compare walks the ordered rows of two stores and returns the first rows, at
// most limit (and at least one), that differ: none proves that the stores are
// equal. Stores at different offsets are refused with [*OffsetError].
func Compare(ctx context.Context, a, b *Store, limit int) ([]Difference, error) {
	nowA, err := a.Snapshot()
	if err != nil {
		return nil, err
	}
	nowB, err := b.Snapshot()
	if err != nil {
		return nil, errors.Join(err, nowA.Close())
	}
	differences, err := compare(ctx, nowA, nowB, limit)
	return differences, errors.Join(err, nowA.Close(), nowB.Close())
}

func compare(ctx context.Context, a, b *Snapshot, limit int) ([]Difference, error) {
	if a.Offset() != b.Offset() {
		return nil, &OffsetError{a.Offset(), b.Offset()}
	}
	nextA, stopA := iter.Pull2(a.Rows())
	defer stopA()
	nextB, stopB := iter.Pull2(b.Rows())
	defer stopB()
	rowA, errA, okA := nextA()
	rowB, errB, okB := nextB()
	var out []Difference
	for (okA || okB) && len(out) < max(limit, 1) {
		if err := errors.Join(errA, errB, ctx.Err()); err != nil {
			return out, fmt.Errorf("projections: compare: %w", err)
		}
		d, takeA, takeB := difference(rowA, okA, rowB, okB)
		if takeA != takeB || !bytes.Equal(d.A, d.B) {
			out = append(out, d)
		}
		if takeA {
			rowA, errA, okA = nextA()
		}
		if takeB {
			rowB, errB, okB = nextB()
		}
	}
	return out, nil
}

// difference holds the heads of two ordered runs side by side: the smaller key
// goes first, equal keys together.
func difference(a Entry, okA bool, b Entry, okB bool) (d Difference, takeA, takeB bool) {
	order := bytes.Compare(a.Key.Append(nil), b.Key.Append(nil))
	switch {
	case okA && (!okB || order < 0):
		return Difference{Key: a.Key, A: a.Row}, true, false
	case okB && (!okA || order > 0):
		return Difference{Key: b.Key, B: b.Row}, false, true
	}
	return Difference{Key: a.Key, A: a.Row, B: b.Row}, true, true
}
