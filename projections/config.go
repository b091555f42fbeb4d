package projections

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config is how a store is opened; but for Stream, the zero value is ready.
type Config struct {
	// Stream is the stream that the store folds. A new store needs it; of one
	// that exists it is checked, unless it is empty.
	Stream Stream

	// ReadOnly opens a store that exists and refuses every write.
	ReadOnly bool

	// FS is where the database lies; nil is the operating system's. See
	// [Memory].
	FS vfs.FS

	// BatchRecords and BatchBytes bound what one Pebble batch takes: records
	// (default 1024), and bytes of them (default 4 MiB). A batch holds at
	// least one record, however long.
	BatchRecords int
	BatchBytes   int

	// CacheBytes is the block cache (default 64 MiB), MemTableBytes one
	// memtable, of which there are at most three (default 32 MiB), OpenFiles
	// the table files held open (default 512).
	CacheBytes    int64
	MemTableBytes uint64
	OpenFiles     int

	// CachedRows bounds the decoded rows that are kept for the next batches
	// (default 16 384; at most twice as many are).
	CachedRows int

	// MaxParked bounds the parked records that are kept with their reason
	// (default 10 000); more are counted only.
	MaxParked int

	// NoWAL writes no log ahead of the tables: faster, and a crash, of this
	// process too, loses what was not flushed; it is folded again. For builds in
	// the making.
	NoWAL bool

	// Fatal is called, at most once, where Pebble cannot go on: its disk is full
	// or gone. It should end the process; nothing that was promised is lost.
	// Default: a panic.
	Fatal func(error)

	// Logger gets what Pebble has to say, its routine at debug level; nil is
	// silence.
	Logger *slog.Logger
}

// Stream says which stream a store folds: a stream that was deleted and made
// again has the same name and another time.
type Stream struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

func (s Stream) String() string {
	return fmt.Sprintf("%s (created %s)", s.Name, s.Created.UTC().Format(time.RFC3339Nano))
}

func (s Stream) equal(other Stream) bool {
	return s.Name == other.Name && s.Created.Equal(other.Created)
}

// Memory is a file system that lives in memory and dies with the process.
func Memory() vfs.FS { return vfs.NewMem() }

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.BatchRecords == 0 {
		c.BatchRecords = 1024
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 4 << 20
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 64 << 20
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = 32 << 20
	}
	if c.OpenFiles == 0 {
		c.OpenFiles = 512
	}
	if c.CachedRows == 0 {
		c.CachedRows = 16 << 10
	}
	if c.MaxParked == 0 {
		c.MaxParked = 10_000
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { panic(err) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.BatchRecords < 0 || c.BatchBytes < 0:
		return fmt.Errorf("BatchRecords is %d and BatchBytes %d: want more than 0, or 0 for the default", c.BatchRecords, c.BatchBytes)
	case c.CacheBytes < 0 || c.OpenFiles < 0 || c.MaxParked < 0 || c.CachedRows < 0:
		return fmt.Errorf("CacheBytes is %d, OpenFiles %d, MaxParked %d, CachedRows %d: want more than 0, or 0 for the default", c.CacheBytes, c.OpenFiles, c.MaxParked, c.CachedRows)
	case c.MemTableBytes < 64<<10 || c.MemTableBytes > 1<<30:
		return fmt.Errorf("MemTableBytes is %d: want 64 KiB to 1 GiB", c.MemTableBytes)
	}
	return nil
}
