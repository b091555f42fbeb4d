package projections

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/projections/view"
)

// Snapshot is the store as it was at one offset, whatever is applied after.
// Close it before the store.
type Snapshot struct {
	reader   pebble.Reader
	progress progress
}

// Entry is one row as it is stored.
type Entry struct {
	Key view.Key
	Row []byte // as view.Encode wrote it
}

// Parked is a record that could not be folded.
type Parked struct {
	StreamSeq uint64 `json:"stream_seq"`
	Subject   string `json:"subject"`
	Reason    string `json:"reason"`
}

// Snapshot returns the store as it is now: whole batches, and the offset of
// the last of them. It waits for nobody.
func (s *Store) Snapshot() (*Snapshot, error) {
	if s.closed.Load() {
		return nil, fmt.Errorf("projections: snapshot: %w", ErrClosed)
	}
	now := &Snapshot{reader: s.db.NewSnapshot()}
	if _, err := getJSON(now.reader, keyProgress, &now.progress); err != nil {
		return nil, fmt.Errorf("projections: snapshot: %w", errors.Join(err, now.Close()))
	}
	return now, nil
}

// Offset is the stream sequence of the last record that the snapshot knows.
func (s *Snapshot) Offset() uint64 { return s.progress.Offset }

// ParkedCount is how many records could not be folded, the ones included that
// are counted only.
func (s *Snapshot) ParkedCount() uint64 { return s.progress.Parked }

// Get returns a row; false where there is none. The row of a session has the
// session's id twice.
func (s *Snapshot) Get(name view.Name, session, id string) (view.Row, bool, error) {
	k := view.Key{View: name, Session: session, ID: id}
	row, found, err := getRow(s.reader, k)
	if err != nil {
		return nil, false, fmt.Errorf("projections: get %s: %w", k, err)
	}
	return row, found, nil
}

// Lookup returns the fields of a row as generic JSON (numbers are float64);
// false where there is none.
func (s *Snapshot) Lookup(name, session, id string) (map[string]any, bool, error) {
	row, found, err := s.Get(view.Name(name), session, id)
	if err != nil || !found {
		return nil, false, err
	}
	b, err := view.Encode(row)
	if err != nil {
		return nil, false, err
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, false, fmt.Errorf("projections: look up %s %q: %w", name, id, err)
	}
	return fields, true, nil
}

// Rows yields every row in the order of the keys; it ends after the first
// error. What it yields is the caller's.
func (s *Snapshot) Rows() iter.Seq2[Entry, error] {
	return s.scan([]byte{prefixRow}, func(key, value []byte) (Entry, error) {
		k, err := view.ParseKey(key[1:])
		return Entry{k, slices.Clone(value)}, err
	})
}

// View yields the rows of one view, in order; of one session, if one is named.
func (s *Snapshot) View(name view.Name, session ...string) iter.Seq2[Entry, error] {
	return s.scan(view.AppendPrefix([]byte{prefixRow}, name, session...), func(key, value []byte) (Entry, error) {
		k, err := view.ParseKey(key[1:])
		return Entry{k, slices.Clone(value)}, err
	})
}

// Parked are the records that could not be folded, in stream order, at most
// MaxParked.
func (s *Snapshot) Parked() ([]Parked, error) {
	var out []Parked
	err := eachUnder(s.reader, []byte{prefixParked}, func(_, value []byte) (bool, error) {
		var p Parked
		err := json.Unmarshal(value, &p)
		out = append(out, p)
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: parked: %w", err)
	}
	return out, nil
}

// Close ends the snapshot.
func (s *Snapshot) Close() error { return s.reader.Close() }

func (s *Snapshot) scan(prefix []byte, read func(key, value []byte) (Entry, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := eachUnder(s.reader, prefix, func(key, value []byte) (bool, error) {
			entry, err := read(key, value)
			return err == nil && yield(entry, nil), err
		})
		if err != nil {
			yield(Entry{}, fmt.Errorf("projections: rows: %w", err))
		}
	}
}

// Get is Snapshot.Get of this moment.
func (s *Store) Get(name view.Name, session, id string) (row view.Row, found bool, err error) {
	err = s.read(func(now *Snapshot) error {
		row, found, err = now.Get(name, session, id)
		return err
	})
	return row, found, err
}

// Lookup is Snapshot.Lookup of this moment.
func (s *Store) Lookup(name, session, id string) (fields map[string]any, found bool, err error) {
	err = s.read(func(now *Snapshot) error {
		fields, found, err = now.Lookup(name, session, id)
		return err
	})
	return fields, found, err
}

// Parked is Snapshot.Parked of this moment.
func (s *Store) Parked() (parked []Parked, err error) {
	err = s.read(func(now *Snapshot) error {
		parked, err = now.Parked()
		return err
	})
	return parked, err
}

// Rows is Snapshot.Rows of the moment that the iteration begins.
func (s *Store) Rows() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		stopped := false
		err := s.read(func(now *Snapshot) error {
			for entry, err := range now.Rows() {
				if err != nil {
					return err
				}
				if !yield(entry, nil) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Entry{}, err)
		}
	}
}

func (s *Store) read(f func(*Snapshot) error) error {
	now, err := s.Snapshot()
	if err != nil {
		return err
	}
	return errors.Join(f(now), now.Close())
}

func getRow(r pebble.Reader, k view.Key) (view.Row, bool, error) {
	b, closer, err := r.Get(rowKey(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, corrupt(err)
	}
	row, err := view.Decode(k.View, b)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return row, true, nil
}

// eachUnder calls f for every key that begins with prefix, until f says false.
func eachUnder(r pebble.Reader, prefix []byte, f func(key, value []byte) (bool, error)) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return corrupt(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		more, err := f(it.Key(), it.Value())
		if err != nil {
			return errors.Join(fmt.Errorf("%w: key %x: %w", ErrCorrupt, it.Key(), err), it.Close())
		}
		if !more {
			break
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return corrupt(err)
	}
	return nil
}

// after is the first key behind all that begin with prefix, whose last byte is
// not 0xff.
func after(prefix []byte) []byte {
	end := slices.Clone(prefix)
	end[len(end)-1]++
	return end
}
