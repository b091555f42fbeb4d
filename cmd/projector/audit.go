package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/replay"
	"github.com/loopd/loopd/schemas"
)

const auditHelp = `Audit holds every event of the log against every rule of the contract (section
7). With --input it audits an exported file, and needs no server (- = stdin).

Findings are told as they appear, one a line, and a summary after them. With
--json a finding is {"rule", "session", "stream_seq", "sequence", "message"}, and
the last line is {"summary": {...}}; without a summary the audit did not reach
the end. It only reads.

Exit status: 1 there are findings, 2 it could not be read (the line is named).`

func newAudit(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Hold the log against every rule of the contract (only reads)", Long: auditHelp,
		Args:    usage(cobra.NoArgs),
		Example: "  projector audit --input log.jsonl --json",
	}
	w := logFlags(cmd)
	session := cmd.Flags().String("session", "", "events of session `ID` alone")
	input := cmd.Flags().String("input", "", "audit an exported `FILE` (- = standard input), not the log")
	asJSON := cmd.Flags().Bool("json", false, "one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		feed, done, err := w.audited(cmd.Context(), e, *input, *session)
		if err != nil {
			return err
		}
		defer done()
		set, err := schemas.Load()
		if err != nil {
			return err
		}
		sum, err := replay.Report(e.out, feed, replay.Config{Validate: set.Event, Prefix: w.prefix}, *asJSON)
		if err == nil && sum.Findings > 0 {
			err = notHeld("audit: %d findings in %d events", sum.Findings, sum.Records)
		}
		return err
	}
	return cmd
}

// audited is the feed to audit: of the log, or of a file.
func (w *where) audited(ctx context.Context, e env, input, session string) (feed event.Feed, done func(), err error) {
	if input == "" {
		src, err := w.open(ctx, e)
		if err != nil {
			return nil, nil, err
		}
		return src.past(ctx, e, stretch{session: session}), src.close, nil
	}
	if w.data != "" || w.nats != "" {
		return nil, nil, errors.New("both a log (--data, --nats) and a file (--input) are given; keep one")
	}
	in, done := e.in, func() {}
	if input != "-" {
		file, err := os.Open(input)
		if err != nil {
			return nil, nil, fmt.Errorf("audit: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { _ = file.Close() }) // ends the read
		in, done = file, func() { stop(); _ = file.Close() }        // it was only read
	}
	return replay.OfSession(replay.ReadJSONL(in, replay.Config{}), session, w.prefix), done, nil
}
