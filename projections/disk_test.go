package projections

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// refusing is a file system on which writes fail with err while on is set.
func refusing(under vfs.FS, err error, on *atomic.Bool) vfs.FS {
	return errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &fs.PathError{Op: "write", Path: op.Path, Err: err}
		}
		return nil
	}))
}

// A full disk ends the process by Fatal, with a way out; the next one finds a
// whole prefix and goes on.
func TestDiskFull(t *testing.T) {
	for _, noWAL := range []bool{false, true} {
		var full atomic.Bool
		under := vfs.NewCrashableMem()
		cfg := memory(refusing(under, syscall.ENOSPC, &full))
		fatal := make(chan error, 16)
		cfg.NoWAL, cfg.Fatal = noWAL, func(err error) {
			select {
			case fatal <- err:
			default:
			}
			select {} // the process would end here
		}
		s, err := Open("store", cfg)
		if err != nil {
			t.Fatal(err)
		}
		recs := history(11, 2000)
		if err := s.ApplyBatch(recs[:500]); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		full.Store(true)
		go func() { _ = s.ApplyBatch(recs[500:]); _ = s.Flush() }()
		select {
		case err := <-fatal:
			if !strings.Contains(err.Error(), "free space") {
				t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a full disk goes unnoticed")
		}
		left := memory(under.CrashClone(vfs.CrashCloneCfg{}))
		requireGoesOn(t, left, 499, 2000)
	}
}

// requireGoesOn opens what a crash left, which must have the records to at
// least, and folds on to n.
func requireGoesOn(t *testing.T, left Config, least, n int) {
	t.Helper()
	recs := history(11, n)
	after, err := Open("store", left)
	if err != nil {
		t.Fatal(err)
	}
	if after.Offset() < recs[least].StreamSeq {
		t.Fatalf("it is at %d; %d was flushed", after.Offset(), recs[least].StreamSeq)
	}
	if err := after.ApplyBatch(recs); err != nil {
		t.Fatal(err)
	}
	requireModel(t, after, model(t, recs))
	mustClose(t, after)
}

// What cannot be written is refused in words, and left as it is.
func TestReadOnlyDirectory(t *testing.T) {
	var on atomic.Bool
	under := vfs.NewMem()
	for _, cause := range []error{fs.ErrPermission, syscall.EROFS} {
		b := NewBuilds("views", memory(refusing(under, cause, &on)))
		on.Store(false)
		served := serveBuild(t, b, testStream, applying(t, 1, 50))
		on.Store(true)
		if _, err := b.Hold(RoleServe); !errors.Is(err, cause) {
			t.Fatalf("hold: %v", err)
		}
		if _, err := b.Open(served, testStream); !errors.Is(err, cause) || errors.Is(err, ErrCorrupt) {
			t.Fatalf("open: %v", err)
		}
		if err := b.Switch(served.ID); !errors.Is(err, cause) {
			t.Fatalf("switch: %v", err)
		}
		requireCurrent(t, b, served.ID)
	}
}
