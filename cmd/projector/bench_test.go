package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/projections"
)

// BenchmarkRebuild is a rebuild of a generated log against draining the same
// stream with the fastest plain client loop, nothing decoded (log.md, Read).
// The ratio of their rates is what counts: goal 0.50 or more.
func BenchmarkRebuild(b *testing.B) {
	const events = 100_000
	server, err := natsembed.Start(natsembed.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Shutdown()
	log, err := eventlog.Open(b.Context(), eventlog.Config{InProcess: server, URL: server.ClientURL(), Created: server.Sync})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	if _, err := publish(b.Context(), log, generate(1, events, 64, "loop")); err != nil {
		b.Fatal(err)
	}
	stream := projections.Stream{Name: streamName, Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var drained, rebuilt time.Duration
	for b.Loop() {
		begun := time.Now()
		drain(b, server.ClientURL(), events)
		drained += time.Since(begun)
		begun = time.Now()
		builds := projections.NewBuilds(filepath.Join(b.TempDir(), "views"), projections.Config{})
		build, store, _, err := builds.Begin(stream, "")
		if err == nil {
			err = (&source{log: log, stream: stream}).fold(b.Context(), store, events)
		}
		if err == nil {
			err = builds.Ready(build, store, "")
		}
		if err != nil {
			b.Fatal(err)
		}
		rebuilt += time.Since(begun)
	}
	rate := func(d time.Duration) float64 { return float64(events*b.N) / d.Seconds() }
	b.ReportMetric(rate(drained), "drained/s")
	b.ReportMetric(rate(rebuilt), "rebuilt/s")
	b.ReportMetric(rate(rebuilt)/rate(drained), "ratio")
}

// drain reads a stream to a sequence and decodes nothing.
func drain(b *testing.B, url string, to uint64) {
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	consumer, err := js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	n := uint64(0)
	running, err := consumer.Consume(func(jetstream.Msg) {
		if n++; n == to {
			close(done)
		}
	}, jetstream.PullMaxMessages(10_000), jetstream.PullThresholdMessages(9_000))
	if err != nil {
		b.Fatal(err)
	}
	defer running.Stop()
	select {
	case <-done:
	case <-ctx.Done():
		b.Fatal("the stream cannot be drained")
	}
}
