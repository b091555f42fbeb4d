package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
)

const tokensHelp = `Tokens prints what a model sent, token by token: what is stored of an operation,
and with --follow what is to come, to its end. Begin behind the last frame you
saw with --from. It only reads.

What it prints is provisional: what counts is in the log (loopd events).

Exit status 1 when frames have expired or are missing, when there are none, or
when the operation ended in another way than completed.`

// watching is what the flags of tokens say.
type watching struct {
	session, operation string
	from               uint64
	follow, asJSON     bool

	seen uint64 // seq of the last frame
	end  event.Frame
	line bool // text was printed that no line break ends yet
}

func tokensCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tokens SESSION OPERATION", Short: "Print what a model sent, or watch it (only reads)", Long: tokensHelp,
		Args:    usage(cobra.ExactArgs(2)),
		Example: "  loopd tokens s1 01KDVJ4Y8MZ1S6Q7WJ2E0P4D3T --follow\n  loopd tokens s1 01KDVJ4Y8MZ1S6Q7WJ2E0P4D3T --from 17 --json",
	}
	f := addFlags(cmd, connection)
	var w watching
	cmd.Flags().Uint64Var(&w.from, "from", 1, "begin at frame `N`")
	cmd.Flags().BoolVar(&w.follow, "follow", false, "go on to the operation's end")
	cmd.Flags().BoolVar(&w.asJSON, "json", false, "every frame, one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		w.session, w.operation = args[0], args[1]
		return w.run(cmd.Context(), c, io)
	}
	return cmd
}

func (w *watching) run(ctx context.Context, c config, io stdio) error {
	where, err := c.visit(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer where.close()
	h, ended := host.New(where.log), true
	show := func(f event.Frame) error { return w.show(io.out, f) }
	if w.follow {
		err = h.Tokens(ctx, w.session, w.operation, w.from, show)
	} else {
		ended, err = h.SavedTokens(ctx, w.session, w.operation, w.from, show)
	}
	if w.line {
		_, _ = fmt.Fprintln(io.out)
	}
	if err != nil {
		return w.failed(ctx, err)
	}
	switch {
	case !ended && w.seen == 0:
		return notHeld("operation %s of session %s has no frames from %d on; with --follow they are waited for", w.operation, w.session, w.from)
	case !ended:
		io.say("loopd: it goes on; loopd tokens %s %s --from %d --follow", w.session, w.operation, w.seen+1)
	case w.end.State != "" && w.end.State != "completed":
		return notHeld("the operation's end: %s", w.end.State)
	}
	return nil
}

func (w *watching) failed(ctx context.Context, err error) error {
	var expired *host.ExpiredError
	var gap *host.GapError
	var cut *host.CutError
	switch {
	case errors.As(err, &expired), errors.As(err, &gap), errors.As(err, &cut):
		return &statusError{exitNotHeld, err}
	case ctx.Err() != nil:
		return nil // the watcher has enough
	}
	return err
}

func (w *watching) show(out io.Writer, f event.Frame) error {
	w.seen = f.Seq
	if f.Type == event.FrameOperation {
		w.end = f
	}
	switch {
	case w.asJSON:
		b, err := event.EncodeFrame(f)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", b)
		}
		return err
	case f.Type == event.FrameDelta && f.Kind == "text" && f.Text != "":
		w.line = f.Text[len(f.Text)-1] != '\n'
		_, err := io.WriteString(out, f.Text)
		return err
	}
	return nil
}
