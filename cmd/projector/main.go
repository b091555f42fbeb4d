// Command projector keeps the views of a log: it folds them, rebuilds them
// beside the served ones, proves them equal to the log, and answers questions
// about them and about the past. It never writes to the log.
//
// Data go to standard output, talk to standard error. The exit status is 0, 1
// (what was asked does not hold), or 2 (it could not be asked).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(mainStatus()) }

func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
