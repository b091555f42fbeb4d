// Command bench measures what an append costs, against a plain synchronous
// publish of the same bytes on the same embedded server, in one run. It prints
// a table of ratios and writes bench/out.json.
//
// How it measures
//
//  1. A session is played once without a server: the commands and ids of every
//     append are kept, so that each side sends the same bytes, any number of
//     times.
//  2. The two sides take turns: at every event of one session, at every round
//     of many, each first in every second round. A figure is the median of the
//     rounds' ratios: what disturbs the machine disturbs both sides.
//  3. One side decides, encodes, chains, publishes behind the fence and folds
//     ([eventlog.Writer], as the runner does). The other one publishes bytes to
//     a stream of the same shape and waits for the acknowledgement.
//
// It measures nothing that a network or another disk adds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// options are what a run can be told; the defaults take about a minute.
type options struct {
	rounds   int // of each row, after one that does not count
	turns    int // of a session: about 35 events each
	sessions int // side by side, in the second row
	out      string
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 15, "rounds of each row")
	flags.IntVar(&o.turns, "turns", 10, "turns of a session, about 35 events each")
	flags.IntVar(&o.sessions, "sessions", 64, "sessions side by side")
	flags.StringVar(&o.out, "out", filepath.Join("bench", "out.json"), "file for the figures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.turns < 1 || o.sessions < 1 {
		return errors.New("bench: rounds, turns and sessions must be 1 or more")
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(o.out), "store-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	g, err := open(ctx, dir)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer g.close()

	report := newReport(o)
	for _, measure := range []func(context.Context, *ground, options) (row, error){oneSession, manySessions} {
		r, err := measure(ctx, g, o)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		report.Rows = append(report.Rows, r)
	}
	if err := report.save(o.out); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return report.print(stdout)
}
