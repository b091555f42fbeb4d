package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

func TestCallIsAnsweredByWhoServes(t *testing.T) {
	ctx := logtest.Context(t)
	h := startHost(t, natsembed.Config{})
	owner, client := h.log(t, nil), h.log(t, func(c *eventlog.Config) { c.InProcess = nil })

	var nobody *eventlog.NobodyServesError
	if _, err := client.Call(ctx, "echo", nil); !errors.As(err, &nobody) || !strings.Contains(err.Error(), "loopd serve") {
		t.Fatalf("nobody serves it: %v, want to be told, with the way out", err)
	}
	serving, stop := context.WithCancel(context.Background()) // a daemon has no deadline
	defer stop()
	err := owner.Serve(serving, "echo", func(_ context.Context, request []byte) ([]byte, error) {
		if len(request) == 0 {
			return nil, errors.New("nothing\nto say")
		}
		return append([]byte("said: "), request...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Call(ctx, "echo", []byte("hello")); err != nil || string(got) != "said: hello" {
		t.Fatalf("answer %q, %v", got, err)
	}
	var refused *eventlog.RefusedError
	if _, err := client.Call(ctx, "echo", nil); !errors.As(err, &refused) || refused.Reason != "nothing to say" {
		t.Fatalf("refused: %v", err)
	}
	stop()
	for err = nil; !errors.As(err, &nobody); { // it ends beside us: a request that meets the end gets no answer
		one, cancel := context.WithTimeout(ctx, time.Second)
		_, err = client.Call(one, "echo", []byte("hello"))
		cancel()
		if ctx.Err() != nil {
			t.Fatalf("the endpoint does not end: %v", err)
		}
	}
}

// One request that takes long holds up no other, and an answer that does not
// come in time is of unknown outcome.
func TestRequestsAreAnsweredBesideEachOther(t *testing.T) {
	ctx := logtest.Context(t)
	h := startHost(t, natsembed.Config{})
	l := h.log(t, nil)
	arrived, gate := make(chan struct{}), make(chan struct{})
	defer close(gate)
	if err := l.Serve(ctx, "wait", func(ctx context.Context, request []byte) ([]byte, error) {
		if string(request) == "long" {
			close(arrived)
			<-gate
		}
		return request, nil
	}); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithCancel(ctx)
	answered := make(chan error, 1)
	go func() {
		_, err := l.Call(within, "wait", []byte("long"))
		answered <- err
	}()
	<-arrived
	if got, err := l.Call(ctx, "wait", []byte("short")); err != nil || string(got) != "short" {
		t.Errorf("beside a long one: %q, %v", got, err)
	}
	cancel()
	if err := <-answered; !errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("no answer: %v, want %v", err, eventlog.ErrUnknownOutcome)
	}
	var token *eventlog.TokenError
	for _, name := range []string{"", "a.b", "*", ">", "a b"} {
		serve := l.Serve(ctx, name, func(context.Context, []byte) ([]byte, error) { return nil, fmt.Errorf("never") })
		if _, err := l.Call(ctx, name, nil); !errors.As(err, &token) || !errors.As(serve, &token) {
			t.Errorf("endpoint %q: %v, %v; want it refused", name, serve, err)
		}
	}
}
