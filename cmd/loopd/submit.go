package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
)

const submitHelp = `Submit publishes one input to a session and prints its receipt: it is durable
then, whether an owner runs or not. TEXT - is read from standard input. It writes.

With --await it waits for what becomes of the input, and prints the answer; exit
status 1 then means that the log says something else than an answer.`

// submission is what the flags of submit say.
type submission struct {
	session string
	input   event.Input
	kind    string
	await   bool
	timeout time.Duration
	asJSON  bool
}

func submitCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "submit --session ID [TEXT]", Short: "Publish an input to a session (writes)", Long: submitHelp,
		Args: usage(cobra.MaximumNArgs(1)),
		Example: `  loopd submit --session s1 --await "Hello"
  loopd submit --session s1 --kind steer "British spelling, please"
  loopd submit --session s1 --kind stop`,
	}
	f := addFlags(cmd, connection)
	var s submission
	flags := cmd.Flags()
	flags.StringVar(&s.session, "session", "", "session `ID`; required")
	flags.StringVar(&s.kind, "kind", "user", "user, steer, service, decision, withdraw, cancel_job, interrupt, stop")
	flags.StringVar(&s.input.InputID, "id", "", "input `ID`; the same one again changes nothing (default a new ULID)")
	flags.StringVar(&s.input.Source, "source", "", "`NAME` of the service, for --kind service")
	flags.StringVar(&s.input.Target, "target", "", "`ID` that a command is about")
	flags.StringVar(&s.input.TargetGenerationID, "generation", "", "`ID` of the generation that a steer or an interrupt is anchored to")
	flags.StringVar(&s.input.Verdict, "verdict", "", "of a decision: approve, deny, continue, abandon, reconciled, still_unknown")
	flags.StringVar(&s.input.InputDigest, "digest", "", "of the arguments that an approval saw")
	flags.BoolVar(&s.await, "await", false, "wait for what becomes of it")
	flags.DurationVar(&s.timeout, "timeout", 0, "longest wait (default none)")
	flags.BoolVar(&s.asJSON, "json", false, "one JSON object: the receipt, or with --await the deciding event")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.session == "" {
			return errors.New("submit: no session; name it with --session ID")
		}
		c, err := f.config()
		if err != nil {
			return err
		}
		s.input.Kind = event.Kind(s.kind)
		if s.input.Text, err = textOf(args, io.in); err != nil {
			return err
		}
		return s.run(cmd.Context(), c, io)
	}
	return cmd
}

// maxText bounds what is read from standard input; the daemon's own limit is
// far below.
const maxText = 1 << 20

func textOf(args []string, in io.Reader) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if args[0] != "-" {
		return args[0], nil
	}
	b, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err == nil && len(b) > maxText {
		err = fmt.Errorf("more than %d bytes", maxText)
	}
	if err != nil {
		return "", fmt.Errorf("submit: standard input: %w", err)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

func (s submission) run(ctx context.Context, c config, io stdio) error {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	where, err := c.visit(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer where.close()
	h := host.New(where.log)
	receipt, err := h.Submit(ctx, s.session, s.input)
	var conflict *eventlog.ConflictError
	switch {
	case errors.As(err, &conflict):
		return &statusError{exitNotHeld, err}
	case err != nil:
		return err
	}
	if !s.await {
		return s.receipt(io.out, receipt)
	}
	io.say("loopd: %s is in the inbox of session %s", receipt.InputID, s.session)
	r, err := h.Await(ctx, s.session, receipt.InputID)
	if errors.Is(err, context.DeadlineExceeded) {
		return notHeld("nothing became of %s within %s; it stays in the inbox (is an owner running? loopd serve)", receipt.InputID, s.timeout)
	} else if err != nil {
		return err
	}
	return s.result(io.out, r)
}

func (s submission) receipt(out io.Writer, r host.Receipt) error {
	if !s.asJSON {
		_, err := fmt.Fprintln(out, r.InputID)
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", b)
	return err
}

// result prints the answer, or says what else became of the input.
func (s submission) result(out io.Writer, r host.Result) error {
	if s.asJSON {
		if _, err := fmt.Fprintf(out, "%s\n", r.Decided().Stored()); err != nil {
			return err
		}
	}
	if why := host.Explain(r); why != "" {
		return notHeld("%s", why)
	}
	if s.asJSON {
		return nil
	}
	text := string(r.Decided().Type)
	if f, ok := r.(host.Finished); ok {
		text = f.Fact.Text
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
