package natsembed

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncDisk syncs the whole file system that dir is on: one call for every
// block file written.
func syncDisk(dir *os.File) error {
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("natsembed: syncfs %s: %w", dir.Name(), err)
	}
	return nil
}
