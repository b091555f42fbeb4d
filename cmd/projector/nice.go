package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
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

// rebuildMemory bounds the heap of a rebuild, in bytes: the whole process stays
// below 512 MiB however long the log is.
const rebuildMemory = 384 << 20

// collectLess has the garbage collector run less often, up to a bound: a fold
// makes much that lives for one batch. What the environment says goes first.
func collectLess() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(rebuildMemory)
		debug.SetGCPercent(300)
	}
}

func wrapNice(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lower the priority: %w (--nice 0 leaves it as it is)", err)
}
