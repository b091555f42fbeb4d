package natsembed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LockedError says that another process, or another server of this one, uses
// the directory.
type LockedError struct {
	Dir    string
	Holder string // what the holder wrote about itself
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("natsembed: start: directory %s is in use by %s; stop that process, or choose another directory", e.Dir, e.Holder)
}

// dirLock is an flock on a file in the directory: the kernel frees it when the
// process ends, however it ends.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsembed: lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(f, 256)) // only to name it
		_ = f.Close()
		return nil, &LockedError{Dir: dir, Holder: holderText(holder)}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsembed: lock %s: %w", path, err), f.Close())
	}
	if err := writeHolder(f); err != nil {
		return nil, errors.Join(fmt.Errorf("natsembed: lock %s: %w", path, err), f.Close())
	}
	return &dirLock{f}, nil
}

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339)), 0)
	return err
}

func holderText(b []byte) string {
	if s := strings.TrimSpace(string(b)); s != "" {
		return s
	}
	return "a process that did not say its name"
}

// release frees the directory. The file stays: removing it would let two
// processes lock two files of one name.
func (l *dirLock) release() error { return l.file.Close() }
