//go:build !linux

package natsembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// syncDisk syncs every file and directory below dir: there is no call that
// syncs one file system here.
func syncDisk(dir *os.File) error {
	err := filepath.WalkDir(dir.Name(), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		f, err := os.Open(path)
		if err != nil {
			return ignoreMissing(err)
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err != nil {
		return fmt.Errorf("natsembed: sync %s: %w", dir.Name(), err)
	}
	return nil
}
