package projections

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"
)

// Checkpoint writes a copy of the store to dir, which must not exist, as it is
// at one offset, which it returns: a whole store that [Open] opens. On one file
// system it shares the tables and costs next to nothing.
func (s *Store) Checkpoint(dir string) (offset uint64, err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	switch {
	case s.closed.Load():
		return 0, fmt.Errorf("projections: checkpoint: %w", ErrClosed)
	case s.cfg.NoWAL:
		err = s.flush()
	}
	if err == nil {
		err = s.db.Checkpoint(dir, pebble.WithFlushedWAL())
	}
	if err != nil {
		return 0, fmt.Errorf("projections: checkpoint to %s: %w", dir, corrupt(err))
	}
	return s.progress.Offset, nil
}

// Hole is a run of stream sequences of which it is proven that the log has
// nothing under them.
type Hole struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Proof string `json:"proof"`
}

// Skip moves the offset over a proven hole, which must begin right behind the
// offset or before it, and keeps the proof.
func (s *Store) Skip(h Hole) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	switch {
	case h.To <= s.progress.Offset:
		return nil
	case h.From > s.progress.Offset+1:
		return fmt.Errorf("projections: skip %d to %d: the store is at %d only", h.From, h.To, s.progress.Offset)
	}
	h.From = s.progress.Offset + 1
	next := s.progress
	next.Offset, next.Missing = h.To, next.Missing+h.To-s.progress.Offset
	batch := s.db.NewBatch()
	err := setJSON(batch, binary.BigEndian.AppendUint64([]byte{prefixHole}, h.From), h)
	if err == nil {
		err = setJSON(batch, keyProgress, next)
	}
	if err == nil {
		err = batch.Commit(pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("projections: skip %d to %d: %w", h.From, h.To, corrupt(err))
	}
	s.progress = next
	s.offset.Store(next.Offset)
	return nil
}

// Missing is how many stream sequences were skipped as proven holes.
func (s *Snapshot) Missing() uint64 { return s.progress.Missing }

// Holes are the proven holes, in stream order, at most limit.
func (s *Snapshot) Holes(limit int) ([]Hole, error) {
	var out []Hole
	err := eachUnder(s.reader, []byte{prefixHole}, func(_, value []byte) (bool, error) {
		var h Hole
		err := json.Unmarshal(slices.Clone(value), &h)
		out = append(out, h)
		return len(out) < limit, err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: holes: %w", err)
	}
	return out, nil
}
