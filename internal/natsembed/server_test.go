package natsembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func run(t *testing.T, c Config) *Server {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, s *Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// TestDurabilities: under each of them what was acknowledged is there after a
// start on the same directory, over both ways of connecting.
func TestDurabilities(t *testing.T) {
	for _, d := range []Durability{"", DurabilityInterval, DurabilityBarrier, DurabilityAlways} {
		t.Run(string(d), func(t *testing.T) {
			dir, ctx := t.TempDir(), deadline(t)
			s := run(t, Config{Dir: dir, Durability: d})
			js := connect(t, s, nats.InProcessServer(s))
			if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if _, err := js.Publish(ctx, "s.x", []byte("x")); err != nil {
					t.Fatal(err)
				}
				if err := s.Sync(ctx); err != nil {
					t.Fatal(err)
				}
			}
			port := s.Port()
			s.Shutdown()
			s.Shutdown() // twice is once
			if err := s.Sync(ctx); err == nil {
				t.Error("a sync after the shutdown claims to have synced")
			}
			s = run(t, Config{Dir: dir, Durability: d, Port: port})
			if s.Port() != port {
				t.Errorf("port %d, want %d", s.Port(), port)
			}
			stream, err := connect(t, s).Stream(ctx, "S")
			if err != nil {
				t.Fatal(err)
			}
			if n := stream.CachedInfo().State.Msgs; n != 100 {
				t.Errorf("%d messages, want 100", n)
			}
		})
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	s := run(t, Config{Dir: dir})
	_, err := Start(Config{Dir: dir})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Dir != dir || !strings.Contains(locked.Holder, fmt.Sprint("process ", os.Getpid())) {
		t.Fatalf("%v, want a LockedError that names us", err)
	}
	if !strings.Contains(err.Error(), "stop that process") {
		t.Errorf("no hint in %q", err)
	}
	s.Shutdown()
	run(t, Config{Dir: dir}) // free again
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := t.TempDir()
	_, err = Start(Config{Dir: dir, Port: listener.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Fatal(err)
	}
	run(t, Config{Dir: dir}) // the failed start left no lock
}

func TestBadStarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, c := range map[string]Config{
		"no directory":     {},
		"a file":           {Dir: file},
		"durability":       {Dir: dir, Durability: "perhaps"},
		"port":             {Dir: dir, Port: 70000},
		"payload":          {Dir: dir, MaxPayload: 65 << 20},
		"negative":         {Dir: dir, MaxStore: -1},
		"user alone":       {Dir: dir, User: "u"},
		"certificate":      {Dir: dir, TLSCert: "c.pem"},
		"authority":        {Dir: dir, TLSCA: "ca.pem"},
		"certificate file": {Dir: dir, TLSCert: "missing.pem", TLSKey: "missing.key"},
		"no such host":     {Dir: dir, Host: "256.256.256.256", StartTimeout: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Start(c); err == nil {
				s.Shutdown()
				t.Error("started")
			}
		})
	}
	run(t, Config{Dir: dir}) // none of them left a lock
}

func TestUserIsAsked(t *testing.T) {
	s := run(t, Config{User: "u", Password: "p"})
	if nc, err := nats.Connect(s.ClientURL()); err == nil {
		nc.Close()
		t.Error("a stranger is connected")
	}
	connect(t, s, nats.UserInfo("u", "p"))
	connect(t, s, nats.UserInfo("u", "p"), nats.InProcessServer(s))
}

func TestMaxStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stored"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := freeBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	most, err := maxStore(dir)
	if err != nil || most <= 0 || most >= free+1<<20 {
		t.Errorf("limit %d of %d free: %v", most, free, err)
	}
	s := run(t, Config{MaxStore: 100_000})
	js, ctx := connect(t, s), deadline(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil && i < 100; i++ {
		_, err = js.Publish(ctx, "s.x", make([]byte, 10_000))
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		t.Errorf("a full store answers %v, want an error of the server", err)
	}
}

func TestWarningsAreLogged(t *testing.T) {
	var out bytes.Buffer
	l := &logger{log: slog.New(slog.NewTextHandler(&out, nil)), fatal: make(chan string, 1)}
	l.Noticef("noise %d", 1)
	l.Debugf("noise")
	l.Tracef("noise")
	l.Warnf("block %d damaged\n", 7)
	l.Errorf("error %d", 8)
	l.Fatalf("fatal %d", 9)
	l.Fatalf("fatal again")
	for _, want := range []string{"block 7 damaged", "error 8", "fatal 9"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
	if strings.Contains(out.String(), "noise") || <-l.fatal != "fatal 9" {
		t.Errorf("logged %q", out.String())
	}
}

// TestSyncRounds: a caller is never served by a round that began before it
// came, and callers that wait share one.
func TestSyncRounds(t *testing.T) {
	s, err := newSyncer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan int, 10), make(chan error)
	rounds := 0
	s.sync = func(*os.File) error {
		rounds++
		began <- rounds
		return <-finish
	}
	ctx := deadline(t)
	first := make(chan error, 1)
	go func() { first <- s.wait(ctx) }()
	<-began
	const late = 20
	var served sync.WaitGroup
	errs := make(chan error, late)
	for range late {
		r, err := s.join() // they come while the first round runs
		if err != nil {
			t.Fatal(err)
		}
		served.Go(func() { <-r.done; errs <- r.err })
	}
	select {
	case err := <-errs:
		t.Fatalf("served by a round that began before: %v", err)
	default:
	}
	finish <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := <-began; n != 2 {
		t.Errorf("round %d", n)
	}
	broken := errors.New("broken disk")
	finish <- broken
	served.Wait()
	for range late {
		if err := <-errs; err != broken {
			t.Errorf("%v, want the round's error", err)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if rounds != 2 {
		t.Errorf("%d rounds, want 2", rounds)
	}
	if err := s.wait(ctx); err != errClosed {
		t.Errorf("after close: %v", err)
	}
}

func TestSyncGivesUp(t *testing.T) {
	s, err := newSyncer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	finish := make(chan error)
	s.sync = func(*os.File) error { return <-finish }
	ctx, cancel := context.WithCancel(deadline(t))
	cancel()
	if err := s.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	finish <- nil
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
