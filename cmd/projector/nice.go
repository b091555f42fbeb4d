package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// yieldTo lowers the priority of this process by n, so that who serves on the
// same machine goes first. Linux counts it for each thread, and gives a new one
// what its maker has.
func yieldTo(n int) error {
	if n == 0 {
		return nil
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil { // not Linux: the process has one priority
		return wrapNice(syscall.Setpriority(syscall.PRIO_PROCESS, 0, n))
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return wrapNice(err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, n); err != nil && !errors.Is(err, syscall.ESRCH) {
			return wrapNice(err)
		}
	}
	return nil
}

func wrapNice(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lower the priority: %w (--nice 0 leaves it as it is)", err)
}
