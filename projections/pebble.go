package projections

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// lockStore takes the lock of a store's directory, which it makes if it may.
func lockStore(dir string, cfg Config) (*pebble.Lock, error) {
	if _, err := cfg.FS.Stat(dir); errors.Is(err, fs.ErrNotExist) && cfg.ReadOnly {
		return nil, fmt.Errorf("projections: open %s: %w", dir, err)
	}
	if !cfg.ReadOnly {
		if err := cfg.FS.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("projections: open %s: %w", dir, err)
		}
	}
	lock, err := pebble.LockDirectory(dir, cfg.FS)
	if err != nil {
		return nil, lockError(dir, "fold or read a store", err)
	}
	return lock, nil
}

// lockError tells a lock that another one holds from a directory that cannot
// be written.
func lockError(dir, use string, err error) error {
	for _, cause := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.EROFS, syscall.ENOSPC, syscall.ENOTDIR} {
		if errors.Is(err, cause) {
			return fmt.Errorf("projections: lock %s: %w (this process must be able to write there)", dir, err)
		}
	}
	return &InUseError{Dir: dir, Use: use, Err: err}
}

// background hears of flushes and compactions that failed. Pebble tries again;
// a disk that is full or gone would have it do so for ever.
func (c Config) background(err error) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, cause) {
			c.Fatal(diskError(err))
			return
		}
	}
	c.Logger.Warn("pebble: background work failed", "error", err)
}

// damaged hears of damage that a read met, and the read fails with it: whoever
// reads sees [ErrCorrupt]. Pebble's own default ends the process.
func (c Config) damaged(info pebble.DataCorruptionInfo) {
	c.Logger.Debug("pebble: " + info.String())
}

func diskError(cause any) error {
	return fmt.Errorf("projections: the store cannot go on: %v; if its disk is full, free space and start again, else rebuild: nothing is lost, the log has it all", cause)
}

// pebbleLogger hands Pebble's words to slog: its routine is nobody's news.
type pebbleLogger struct {
	to    *slog.Logger
	fatal func(error)
}

func (l pebbleLogger) Infof(format string, args ...any) {
	l.to.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.to.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf does not return: Pebble calls it where going on would damage data.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := diskError(fmt.Sprintf(format, args...))
	l.fatal(err)
	panic(err)
}
