package natsembed

import "golang.org/x/sys/unix"

// freeBytes is what an unprivileged process may still write on dir's disk.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
