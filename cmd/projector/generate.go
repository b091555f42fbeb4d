package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/replay"
)

const generateHelp = `Generate makes a log of realistic sessions from a seed: turns with and without
tools, corrections, answers that were cut off and go on, requests that failed. The
same seed makes the same bytes, and every event is one that the loop itself
decided, so an audit of them finds nothing.

It prints JSON lines as projector export does. With --into it writes them to the
log that --data or --nats names instead, which must be empty: for rehearsals and
measurements only.`

func newGenerate(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "generate", Short: "Make a log of realistic sessions from a seed (prints; with --into writes an empty log)", Long: generateHelp,
		Args: usage(cobra.NoArgs),
		Example: `  projector generate --events 1000 --seed 7 > events.jsonl
  projector generate --events 1000000 --into --nats nats://127.0.0.1:4222 --prefix rehearsal`,
	}
	w := logFlags(cmd)
	seed := cmd.Flags().Uint64("seed", 1, "what everything follows from")
	events := cmd.Flags().Uint64("events", 10_000, "events to make; sessions that began are not ended")
	aside := cmd.Flags().Int("side-by-side", 64, "sessions that are open at a time")
	into := cmd.Flags().Bool("into", false, "write to the log, which must be empty")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *aside < 1 || *aside > 100_000 {
			return fmt.Errorf("--side-by-side is %d; want 1 to 100000", *aside)
		}
		feed := generate(*seed, *events, *aside, w.prefix)
		if *into {
			return w.generateInto(cmd.Context(), e, feed)
		}
		out := bufio.NewWriter(e.out)
		for rec, err := range feed {
			if err == nil {
				err = cmd.Context().Err()
			}
			if err == nil {
				err = replay.WriteJSONL(out, rec)
			}
			if err != nil {
				return err
			}
		}
		return out.Flush()
	}
	return cmd
}

// generate interleaves the events of sessions, aside of them at a time.
func generate(seed, events uint64, aside int, prefix string) event.Feed {
	return func(yield func(event.Record, error) bool) {
		random := rand.New(rand.NewPCG(seed, 1))
		open := make([]*author, 0, aside)
		begun := 0
		for seq := uint64(1); seq <= events; seq++ {
			if len(open) < aside {
				begun++
				open = append(open, newAuthor(fmt.Sprintf("g%d-%07d", seed, begun), random))
			}
			i := random.IntN(len(open))
			e, err := open[i].next()
			if err != nil {
				yield(event.Record{}, fmt.Errorf("generate: %w", err))
				return
			}
			if open[i].ended() {
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
			subject := prefix + ".ev." + e.SessionID + "." + string(e.Type)
			if !yield(event.Record{StreamSeq: seq, Subject: subject, Data: e.Stored()}, nil) {
				return
			}
		}
	}
}

// generateInto publishes a feed, many at a time, in order.
func (w *where) generateInto(ctx context.Context, e env, feed event.Feed) error {
	src, err := w.open(ctx, e)
	if err != nil {
		return err
	}
	defer src.close()
	head, err := src.log.Head(ctx)
	if err != nil {
		return err
	}
	if head > 0 {
		return notHeld("the log has %d events; generate writes to an empty log only", head)
	}
	n, err := publish(ctx, src.log, feed)
	if err != nil {
		return err
	}
	return e.print("%d events are in stream %s", n, src.stream.Name)
}

func publish(ctx context.Context, log *eventlog.Log, feed iter.Seq2[event.Record, error]) (n uint64, err error) {
	const pending = 4096
	js, err := jetstream.New(log.Conn(), jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		return 0, err
	}
	var last jetstream.PubAckFuture
	for rec, err := range feed {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return n, err
		}
		if last, err = js.PublishAsync(rec.Subject, rec.Data, jetstream.WithStallWait(maxWait)); err != nil {
			return n, fmt.Errorf("generate: publish: %w", err)
		}
		n++
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return n, ctx.Err()
	}
	if last == nil {
		return n, nil
	}
	select {
	case ack := <-last.Ok():
		if ack.Sequence != n {
			return n, fmt.Errorf("generate: the last of %d events has sequence %d: others wrote, or some were lost", n, ack.Sequence)
		}
	case err := <-last.Err():
		return n, fmt.Errorf("generate: publish: %w", err)
	}
	return n, nil
}
