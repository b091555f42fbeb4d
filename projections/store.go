package projections

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/projections/view"
)

// Store is one build of the views. Its methods may be called side by side;
// Close ends it, when nobody reads any more.
type Store struct {
	dir string
	cfg Config
	db  *pebble.DB

	lock *pebble.Lock // one process a store

	identity identity      // fixed once open
	applying sync.Mutex    // one batch at a time; guards progress and rows
	progress progress      // as in the last committed batch
	rows     *rowCache     // committed rows; guarded by applying
	offset   atomic.Uint64 // progress.Offset, for readers
	closed   atomic.Bool
	clean    bool // the last writer closed it; fixed once open
}

// progress is how far the store has folded.
type progress struct {
	Offset  uint64 `json:"offset"`           // stream sequence of the last folded record, 0 = none
	Parked  uint64 `json:"parked"`           // records that could not be folded, kept or only counted
	Missing uint64 `json:"missing,omitzero"` // stream sequences skipped as proven holes
}

// identity is what a store is a fold of.
type identity struct {
	Layout int            `json:"layout"` // of this package's keys
	Stream Stream         `json:"stream"`
	Views  []view.Version `json:"views"`
}

const layout = 1

var (
	keyIdentity = []byte("m/identity")
	keyProgress = []byte("m/progress")
	keyClean    = []byte("m/clean") // there while nobody writes: its writer closed it
)

const (
	prefixRow    = 'r'
	prefixParked = 'p'
	prefixHole   = 'h'
)

// Open opens the store in dir, or makes it. It refuses with
// [*ForeignStreamError], [*VersionError] or [ErrCorrupt], and then leaves the
// rows as they were.
func Open(dir string, cfg Config) (*Store, error) {
	return open(dir, cfg, false)
}

// open makes a store that must not exist yet if fresh is set.
func open(dir string, cfg Config, fresh bool) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("projections: open %s: %w", dir, err)
	}
	lock, err := lockStore(dir, cfg)
	if err != nil {
		return nil, err
	}
	opts := cfg.pebble()
	opts.ErrorIfExists, opts.Lock = fresh, lock
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("projections: open %s: %w", dir, corrupt(err)), lock.Close())
	}
	s := &Store{dir: dir, cfg: cfg, db: db, lock: lock, rows: newRowCache(cfg.CachedRows)}
	if err = s.identify(); err == nil {
		err = s.mark()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close(), lock.Close())
	}
	return s, nil
}

// mark takes the mark of a clean end away, synced, before the first write.
func (s *Store) mark() error {
	_, closer, err := s.db.Get(keyClean)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("projections: open %s: %w", s.dir, corrupt(err))
	}
	s.clean = true
	if err := closer.Close(); err != nil || s.cfg.ReadOnly {
		return err
	}
	if err := s.db.Delete(keyClean, s.cfg.synced()); err != nil {
		return fmt.Errorf("projections: open %s: %w", s.dir, corrupt(err))
	}
	if s.cfg.NoWAL {
		return s.flush()
	}
	return nil
}

func (c Config) pebble() *pebble.Options {
	opts := &pebble.Options{
		FS:                 vfs.OnDiskFull(c.FS, func() { c.Fatal(diskError(syscall.ENOSPC)) }), // before Pebble panics over it
		ReadOnly:           c.ReadOnly,
		CacheSize:          c.CacheBytes,
		MemTableSize:       c.MemTableBytes,
		MaxOpenFiles:       c.OpenFiles,
		FormatMajorVersion: pebble.FormatTableFormatV6,
		Logger:             pebbleLogger{c.Logger, c.Fatal},
		DisableWAL:         c.NoWAL,
		EventListener:      &pebble.EventListener{BackgroundError: c.background, DataCorruption: c.damaged},

		MemTableStopWritesThreshold: 3,
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // many events name a cause that has no row
	}
	return opts
}

// identify reads what the store is and where it stands, and checks it; a new
// store is told.
func (s *Store) identify() error {
	found, err := getJSON(s.db, keyIdentity, &s.identity)
	if err != nil {
		return fmt.Errorf("projections: open %s: identity: %w", s.dir, err)
	}
	if !found {
		return s.begin()
	}
	want := view.Versions()
	if s.identity.Layout != layout || !slices.Equal(s.identity.Views, want) {
		return &VersionError{Dir: s.dir, Stored: s.identity.Views, Want: want}
	}
	if given := s.cfg.Stream; given != (Stream{}) && !given.equal(s.identity.Stream) {
		return &ForeignStreamError{Dir: s.dir, Stored: s.identity.Stream, Given: given}
	}
	if _, err := getJSON(s.db, keyProgress, &s.progress); err != nil {
		return fmt.Errorf("projections: open %s: progress: %w", s.dir, err)
	}
	s.offset.Store(s.progress.Offset)
	return nil
}

// begin gives a new store its identity, synced: from then on it is refused to
// every other stream.
func (s *Store) begin() error {
	if s.cfg.ReadOnly || s.cfg.Stream.Name == "" || s.cfg.Stream.Created.IsZero() {
		return fmt.Errorf("projections: open %s: a new store needs the stream's name and the time it was created, and must be writable", s.dir)
	}
	if iter, err := s.db.NewIter(nil); err != nil {
		return fmt.Errorf("projections: open %s: %w", s.dir, corrupt(err))
	} else if some, err := iter.First(), iter.Close(); some || err != nil {
		return fmt.Errorf("projections: open %s: rows without an identity: %w", s.dir, errors.Join(ErrCorrupt, err))
	}
	s.identity = identity{Layout: layout, Stream: s.cfg.Stream, Views: view.Versions()}
	b, err := json.Marshal(s.identity)
	if err != nil {
		return fmt.Errorf("projections: open %s: identity: %w", s.dir, err)
	}
	if err := s.db.Set(keyIdentity, b, s.cfg.synced()); err != nil {
		return fmt.Errorf("projections: open %s: identity: %w", s.dir, corrupt(err))
	}
	if !s.cfg.NoWAL {
		return nil
	}
	return s.flush()
}

// Flush puts everything that was applied on disk: what a crash cannot take from
// a store without a WAL.
func (s *Store) Flush() error {
	if s.closed.Load() {
		return fmt.Errorf("projections: flush %s: %w", s.dir, ErrClosed)
	}
	return s.flush()
}

func (s *Store) flush() error {
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("projections: flush %s: %w", s.dir, corrupt(err))
	}
	return nil
}

// synced is how a write that must be on disk is written.
func (c Config) synced() *pebble.WriteOptions {
	if c.NoWAL {
		return pebble.NoSync // flush follows
	}
	return pebble.Sync
}

// Stream is the stream that the store folds.
func (s *Store) Stream() Stream { return s.identity.Stream }

// Clean reports whether the store's last writer had closed it when it was
// opened: else what that one had folded last may have to be folded again.
func (s *Store) Clean() bool { return s.clean }

// Versions are the views of the store.
func (s *Store) Versions() []view.Version { return slices.Clone(s.identity.Views) }

// Offset is the stream sequence of the last folded record, 0 before the first.
func (s *Store) Offset() uint64 { return s.offset.Load() }

// Close ends the store, all of it on disk. Snapshots and iterations must have
// ended. A second Close does nothing.
func (s *Store) Close() error {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	var err error
	if !s.cfg.ReadOnly {
		if err = s.db.Set(keyClean, nil, s.cfg.synced()); err == nil && s.cfg.NoWAL {
			err = s.db.Flush()
		}
	}
	if err := errors.Join(err, s.db.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("projections: close %s: %w", s.dir, err)
	}
	return nil
}

// getJSON reads the value of key; false where there is none.
func getJSON(r pebble.Reader, key []byte, v any) (bool, error) {
	b, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, corrupt(err)
	}
	err = json.Unmarshal(b, v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return true, nil
}

// corrupt marks what Pebble calls corruption as ours.
func corrupt(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

func rowKey(k view.Key) []byte { return k.Append([]byte{prefixRow}) }

func parkedKey(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{prefixParked}, seq) }
