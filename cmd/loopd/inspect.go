package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
)

const inspectHelp = `Inspect has the daemon look up what became of an operation: a request to the
model server that may have run. It only reads: nothing is asked again, whatever
the look-up finds. What it saw, the daemon appends to the log
(operation.inspected, and the answer if it is complete), and inspect prints it.

Exit status 0 when the look-up was made, whatever it saw: complete, pending,
missing, unsupported, expired or error; 1 when there is nothing to look up;
2 when no daemon could be asked.`

// lookUp is what the flags of inspect say.
type lookUp struct {
	session, operation string
	timeout            time.Duration
	asJSON             bool
}

func inspectCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect SESSION OPERATION", Short: "Look up what became of a model request (only reads)", Long: inspectHelp,
		Args:    usage(cobra.ExactArgs(2)),
		Example: "  loopd inspect s1 01KDVJ4Y8MZ1S6Q7WJ2E0P4D3T\n  loopd inspect s1 01KDVJ4Y8MZ1S6Q7WJ2E0P4D3T --json",
	}
	f := addFlags(cmd, connection)
	var l lookUp
	cmd.Flags().DurationVar(&l.timeout, "timeout", time.Minute, "longest wait for what it finds")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "the events, one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		if l.timeout <= 0 {
			return fmt.Errorf("inspect: --timeout %s is not a wait; give one such as 1m", l.timeout)
		}
		l.session, l.operation = args[0], args[1]
		ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
		defer cancel()
		return l.run(ctx, c, io.out)
	}
	return cmd
}

func (l lookUp) run(ctx context.Context, c config, out io.Writer) error {
	where, err := c.visit(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer where.close()
	err = host.New(where.log).Inspect(ctx, l.session, l.operation, func(e event.Event) error { return l.show(out, e) })
	var refused *eventlog.RefusedError
	switch {
	case errors.As(err, &refused):
		return notHeld("%s", refused.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("inspect: nothing was seen within %s; loopd events --session %s shows it when it comes", l.timeout, l.session)
	}
	return err
}

func (l lookUp) show(out io.Writer, e event.Event) error {
	if l.asJSON {
		_, err := fmt.Fprintf(out, "%s\n", e.Stored())
		return err
	}
	_, err := fmt.Fprintf(out, "%s  %s\n", e.Type, fields(e, 100))
	return err
}
