package projections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/projections/view"
)

// Apply folds one record: ApplyBatch of one.
func (s *Store) Apply(rec event.Record) error {
	return s.ApplyBatch([]event.Record{rec})
}

// ApplyBatch folds records in the order of the stream, in Pebble batches of at
// most BatchRecords and BatchBytes. Records at or before the offset are
// skipped; records that cannot be folded are parked. After an error the store
// stands at the last whole batch, and the same records may be given again.
func (s *Store) ApplyBatch(recs []event.Record) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	for len(recs) > 0 {
		n := s.cut(recs)
		if err := s.commit(recs[:n]); err != nil {
			return fmt.Errorf("projections: apply %d to %d: %w", recs[0].StreamSeq, recs[n-1].StreamSeq, err)
		}
		recs = recs[n:]
	}
	return nil
}

// Fold applies a feed to its end, in batches. What came before an error of the
// feed, or before ctx ended, is applied.
func (s *Store) Fold(ctx context.Context, feed event.Feed) error {
	var (
		batch []event.Record
		bytes int
		cause error
	)
	for rec, err := range feed {
		if cause = err; cause == nil {
			cause = ctx.Err()
		}
		if cause != nil {
			break
		}
		batch, bytes = append(batch, rec), bytes+len(rec.Data)
		if len(batch) < s.cfg.BatchRecords && bytes < s.cfg.BatchBytes {
			continue
		}
		if err := s.ApplyBatch(batch); err != nil {
			return err
		}
		clear(batch)
		batch, bytes = batch[:0], 0
	}
	if err := s.ApplyBatch(batch); err != nil || cause == nil {
		return err
	}
	return fmt.Errorf("projections: fold: the feed ended early: %w", cause)
}

// cut is how many of recs one batch takes, at least one.
func (s *Store) cut(recs []event.Record) int {
	bytes := 0
	for i, rec := range recs {
		bytes += len(rec.Data)
		if i > 0 && (i == s.cfg.BatchRecords || bytes > s.cfg.BatchBytes) {
			return i
		}
	}
	return len(recs)
}

// commit folds recs into one Pebble batch and commits it.
func (s *Store) commit(recs []event.Record) error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.cfg.ReadOnly:
		return errors.New("the store was opened to read only")
	}
	f := fold{store: s, next: s.progress, rows: map[string]view.Row{}, stored: map[string]bool{}, dirty: map[string]bool{}, parked: map[uint64]Parked{}}
	for i, read := range readAll(recs) {
		if err := f.apply(recs[i], read); err != nil {
			return err
		}
	}
	if f.next == s.progress {
		return nil // nothing but what was folded before
	}
	batch := s.db.NewBatch()
	err := f.write(batch)
	if err == nil {
		err = batch.Commit(pebble.NoSync)
	}
	if err = errors.Join(err, batch.Close()); err != nil {
		return corrupt(err)
	}
	s.progress = f.next
	s.offset.Store(f.next.Offset)
	for key, row := range f.rows {
		s.rows.put(key, row)
	}
	return nil
}

// fold is one batch in the making: the rows it touched stay decoded until it
// is written, once each.
type fold struct {
	store  *Store
	next   progress
	rows   map[string]view.Row // by stored key; nil = there is none
	stored map[string]bool     // of them, those that the store has
	dirty  map[string]bool
	parked map[uint64]Parked
}

func (f *fold) apply(rec event.Record, read reading) error {
	if rec.StreamSeq == 0 {
		return errors.New("a record without a stream sequence cannot be folded exactly once")
	}
	if rec.StreamSeq <= f.next.Offset {
		return nil
	}
	f.next.Offset = rec.StreamSeq
	if read.err != nil {
		f.park(rec, read.err)
		return nil
	}
	for _, k := range read.keys {
		if err := f.foldRow(k, read.event); err != nil {
			return fmt.Errorf("record %d: row %s: %w", rec.StreamSeq, k, err)
		}
	}
	return nil
}

func (f *fold) foldRow(k view.Key, e event.Event) error {
	key := string(rowKey(k))
	row, known := f.rows[key]
	if !known {
		var err error
		if row, err = f.store.row(key, k); err != nil {
			return err
		}
		f.rows[key] = row
		if row != nil {
			f.stored[key] = true
		}
	}
	if next, changed := view.Fold(k, row, e); changed {
		f.rows[key], f.dirty[key] = next, true
	}
	return nil
}

// row is a committed row, nil where there is none.
func (s *Store) row(key string, k view.Key) (view.Row, error) {
	if row, known := s.rows.get(key); known {
		return row, nil
	}
	if s.rows.whole[k.Session] {
		return nil, nil
	}
	row, _, err := getRow(s.db, k)
	if err == nil && row == nil && k.View == view.ViewSession {
		s.rows.whole[k.Session] = true
	}
	return row, err
}

func (f *fold) park(rec event.Record, cause error) {
	f.next.Parked++
	if f.next.Parked <= uint64(f.store.cfg.MaxParked) {
		f.parked[rec.StreamSeq] = Parked{rec.StreamSeq, clip(rec.Subject), clip(cause.Error())}
	}
}

// write puts rows, parked records and progress into one batch, in key order.
func (f *fold) write(batch *pebble.Batch) error {
	for _, key := range slices.Sorted(maps.Keys(f.dirty)) {
		if f.rows[key] == nil {
			if err := f.remove(batch, key); err != nil {
				return err
			}
			continue
		}
		b, err := view.Encode(f.rows[key])
		if err != nil {
			return err
		}
		if err := batch.Set([]byte(key), b, nil); err != nil {
			return err
		}
	}
	for seq, p := range f.parked {
		if err := setJSON(batch, parkedKey(seq), p); err != nil {
			return err
		}
	}
	return setJSON(batch, keyProgress, f.next)
}

// remove deletes a row that is gone; most that go came in the same batch.
func (f *fold) remove(batch *pebble.Batch, key string) error {
	if !f.stored[key] {
		return nil
	}
	return batch.Delete([]byte(key), nil)
}

func setJSON(batch *pebble.Batch, key []byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return batch.Set(key, b, nil)
}

// clip bounds what is kept of a parked record's words, in whole characters; a
// record may be parked because it has none.
func clip(s string) string {
	const limit = 512 // bytes
	s = strings.ToValidUTF8(s, "\uFFFD")
	for i := range s {
		if i > limit {
			return s[:i] + "…"
		}
	}
	return s
}
