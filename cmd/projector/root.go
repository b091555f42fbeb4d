package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// verbs are the commands, one file each. A verb is a constructor that takes
// env and gives its cobra command.
func verbs(e env) []*cobra.Command {
	return []*cobra.Command{
		newRun(e), newRebuild(e), newVerify(e), newStatus(e), newGet(e),
		newSnapshot(e), newRestore(e), newRollback(e), newGenerate(e),
		newAudit(e),
	}
}

// The exit statuses.
const (
	exitHeld    = 0 // done; what was asked holds
	exitNotHeld = 1 // what was asked does not hold
	exitUnasked = 2 // it could not be asked: bad usage, no server, no file
)

// run is the whole command: it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(env{stdin, stdout, stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var status *statusError
	switch {
	case err == nil:
		return exitHeld
	case errors.As(err, &status):
		if status.err != nil {
			_, _ = fmt.Fprintf(stderr, "projector: %v\n", status.err)
		}
		return status.status
	}
	_, _ = fmt.Fprintf(stderr, "projector: %v\n", err)
	return exitUnasked
}

// env is what every verb gets: the three streams that it talks over.
type env struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// say writes a line of talk.
func (e env) say(format string, args ...any) { _, _ = fmt.Fprintf(e.err, format+"\n", args...) }

// print writes a line of data.
func (e env) print(format string, args ...any) error {
	_, err := fmt.Fprintf(e.out, format+"\n", args...)
	return err
}

// printJSON writes one JSON object on a line of its own.
func (e env) printJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return e.print("%s", b)
}

// logger writes warnings and worse to standard error.
func (e env) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// statusError is an error with an exit status of its own; every other error
// is exitUnasked. A nil err was told already.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// notHeld says that what was asked does not hold.
func notHeld(format string, args ...any) error {
	return &statusError{exitNotHeld, fmt.Errorf(format, args...)}
}

func rootCommand(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "projector",
		Short: "Keep, rebuild and prove the views of a log",
		Long: `projector keeps the views of a loopd log in a store of its own, rebuilds them
beside the served ones, and proves them equal to the log. It never writes to the
log: every store can be made anew from it.

A log is named by the data directory of a loopd that runs or not (--data), or by
a NATS server (--nats). The store lies in <data>/projections, or where --store
says.

Data go to standard output, talk to standard error. Exit status: 0 done,
1 what was asked does not hold, 2 it could not be asked.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%s: %w; see %s --help", cmd.Name(), err, cmd.CommandPath())
	})
	root.AddCommand(verbs(e)...)
	return root
}

// usage turns what cobra says of arguments into our own words.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%s: %w; usage: %s", cmd.Name(), err, cmd.UseLine())
		}
		return nil
	}
}
