package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitHeld    = 0 // done; what was asked holds
	exitNotHeld = 1 // what was asked does not hold
	exitUnasked = 2 // it could not be asked: bad usage, no server, no file
)

// run is the whole command: it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(stdio{stdin, stdout, stderr})
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
			_, _ = fmt.Fprintf(stderr, "loopd: %v\n", status.err)
		}
		return status.status
	}
	_, _ = fmt.Fprintf(stderr, "loopd: %v\n", err)
	return exitUnasked
}

// stdio are the three streams that a verb talks over.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// say writes a line of talk.
func (s stdio) say(format string, args ...any) { _, _ = fmt.Fprintf(s.err, format+"\n", args...) }

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

func rootCommand(io stdio) *cobra.Command {
	root := &cobra.Command{
		Use:   "loopd",
		Short: "A durable runtime under LLM agents",
		Long: `loopd is a durable runtime under LLM agents: every input, every correction and
every model request is an event on NATS JetStream before it counts, so that a
restart resumes one checkpoint and never asks a model twice.

Data go to standard output, talk to standard error. Exit status: 0 done,
1 what was asked does not hold, 2 it could not be asked.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%s: %w; see %s --help", cmd.Name(), err, cmd.CommandPath())
	})
	root.AddCommand(
		demoCommand(io), serveCommand(io), submitCommand(io), eventsCommand(io), tokensCommand(io), inspectCommand(io),
		doctorCommand(io), scenarioCommand(io), versionCommand(io),
	)
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
