package host_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/provider/scripted"
	"github.com/loopd/loopd/internal/runner"
)

// house is a server, a log on it, and an owner that answers from a script.
type house struct {
	log   *eventlog.Log
	url   string
	gates *gates
	close func()
}

func openHouse(ctx context.Context, entries ...scripted.Entry) (*house, error) {
	dir, err := os.MkdirTemp("", "loopd-host-")
	if err != nil {
		return nil, err
	}
	server, err := natsembed.Start(natsembed.Config{Dir: dir, MaxStore: 64 << 20})
	if err != nil {
		return nil, err
	}
	log, err := eventlog.Open(ctx, eventlog.Config{InProcess: server, URL: server.ClientURL()})
	if err != nil {
		server.Shutdown()
		return nil, err
	}
	h := &house{log: log, url: server.ClientURL(), gates: &gates{open: map[string]chan struct{}{}}}
	owner, err := runner.New(runner.Config{
		Owner: "test", Log: log, Provider: scripted.New(scripted.Config{Entries: entries, Gates: h.gates}),
		Writer: func(session string, last uint64) runner.Appender { return log.Writer(session, last) },
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = owner.Run(context.Background(), true)
	}()
	h.close = func() {
		owner.Kill()
		<-done
		log.Close()
		server.Shutdown()
		_ = os.RemoveAll(dir)
	}
	return h, nil
}

// serve is openHouse for a test.
func serve(t *testing.T, entries ...scripted.Entry) (context.Context, *house) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	h, err := openHouse(ctx, entries...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return ctx, h
}

func says(text string, before ...scripted.Frame) scripted.Entry {
	return scripted.Entry{Frames: append(before, scripted.Text{Text: text}, scripted.Finish{Reason: "stop"})}
}

type gates struct {
	mu   sync.Mutex
	open map[string]chan struct{}
}

func (g *gates) gate(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[name] == nil {
		g.open[name] = make(chan struct{})
	}
	return g.open[name]
}

func (g *gates) Wait(ctx context.Context, name string) error {
	select {
	case <-g.gate(name):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gates) Open(name string) {
	gate := g.gate(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}
