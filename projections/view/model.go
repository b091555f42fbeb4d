package view

import (
	"iter"
	"maps"
	"slices"

	"github.com/loopd/loopd/event"
)

// Model folds a feed in the plainest way: a map from a key's bytes to a row's
// bytes, each row decoded and encoded again for each event. It is what stores
// are compared with. The zero value is not ready; use [NewModel].
type Model struct {
	offset uint64
	rows   map[string][]byte
	parked map[uint64]string
}

// NewModel is a model of nothing yet.
func NewModel() *Model {
	return &Model{rows: map[string][]byte{}, parked: map[uint64]string{}}
}

// Apply folds one record; a record at or before the offset was folded already
// and is skipped. An error means that the model itself is broken.
func (m *Model) Apply(rec event.Record) error {
	if rec.StreamSeq <= m.offset {
		return nil
	}
	m.offset = rec.StreamSeq
	e, keys, err := Read(rec)
	if err != nil {
		m.parked[rec.StreamSeq] = err.Error()
		return nil
	}
	for _, k := range keys {
		if err := m.fold(k, e); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) fold(k Key, e event.Event) error {
	row, _, err := m.Get(k)
	if err != nil {
		return err
	}
	next, changed := Fold(k, row, e)
	if !changed {
		return nil
	}
	if next == nil {
		delete(m.rows, string(k.Append(nil)))
		return nil
	}
	b, err := Encode(next)
	if err != nil {
		return err
	}
	m.rows[string(k.Append(nil))] = b
	return nil
}

// Get returns the row of k, if there is one.
func (m *Model) Get(k Key) (Row, bool, error) {
	b, ok := m.rows[string(k.Append(nil))]
	if !ok {
		return nil, false, nil
	}
	row, err := Decode(k.View, b)
	return row, err == nil, err
}

// Offset is the last folded stream sequence.
func (m *Model) Offset() uint64 { return m.offset }

// Parked are the records that could not be folded: stream sequence to reason.
func (m *Model) Parked() map[uint64]string { return maps.Clone(m.parked) }

// Rows yields each key's bytes and its row's bytes, in order.
func (m *Model) Rows() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(m.rows)) {
			if !yield(k, m.rows[k]) {
				return
			}
		}
	}
}
