package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
)

func inbox(t *testing.T, s Server) {
	l := s.Open(t, nil)
	ctx := Context(t)
	submit := func(id, body string) error { return l.Submit(ctx, "s1", id, []byte(body)) }
	if err := submit("i1", `{"input_id":"i1","kind":"user","text":"hello","sent_at":"1"}`); err != nil {
		t.Fatal(err)
	}
	// The same content: other order, other time of sending.
	if err := submit("i1", `{"kind":"user", "sent_at":"2", "text":"hello", "input_id":"i1"}`); err != nil {
		t.Errorf("the same content again: %v", err)
	}
	err := submit("i1", `{"input_id":"i1","kind":"user","text":"other"}`)
	var conflict *eventlog.ConflictError
	if !errors.As(err, &conflict) || conflict.InputID != "i1" || conflict.InboxSeq != 1 || conflict.Stored == conflict.Sent {
		t.Errorf("other content: %v, want a ConflictError", err)
	}
	if err := l.Submit(ctx, "s2", "i1", []byte("another session")); err != nil {
		t.Errorf("the same id in another session: %v", err)
	}
	seq, err := l.SubmitPlain(ctx, "s1", "i1", []byte("not JSON"))
	if err != nil || seq != 3 {
		t.Errorf("plain: sequence %d, %v; want 3", seq, err)
	}
	var got []event.Delivery
	for after := uint64(0); ; {
		d, ok, err := l.NextInput(ctx, "s1", after)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got, after = append(got, d), d.InboxSeq
	}
	if len(got) != 2 || got[0].InboxSeq != 1 || got[1].InboxSeq != 3 || got[1].InputID != "i1" || string(got[1].Data) != "not JSON" {
		t.Errorf("inputs %v", got)
	}
	if _, ok, err := l.NextInput(ctx, "s1", 1<<40); ok || err != nil {
		t.Errorf("far behind the end: %v %v", ok, err)
	}
}

func inboxRace(t *testing.T, s Server) {
	const n = 32
	logs := []*eventlog.Log{s.Open(t, nil), s.Open(t, nil)}
	ctx := Context(t)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := logs[i%2].Submit(ctx, "s1", "i1", fmt.Append(nil, "content ", i%4))
			var conflict *eventlog.ConflictError
			switch {
			case err == nil:
				won.Add(1)
			case errors.As(err, &conflict):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != n/4 || lost.Load() != n-n/4 {
		t.Errorf("%d acknowledged, %d in conflict; want %d and %d", won.Load(), lost.Load(), n/4, n-n/4)
	}
	first, ok, err := logs[0].NextInput(ctx, "s1", 0)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, ok, err := logs[0].NextInput(ctx, "s1", first.InboxSeq); ok || err != nil {
		t.Errorf("a second one is stored: %v %v", ok, err)
	}
}

func watchInputs(t *testing.T, s Server) {
	l, host := s.Open(t, nil), s.Open(t, nil)
	submit := func(session string, i int) {
		t.Helper()
		err := host.Submit(Context(t), session, fmt.Sprint("i", i), []byte("x"))
		for errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrUnknownOutcome) {
			err = host.Submit(Context(t), session, fmt.Sprint("i", i), []byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	submit("s1", 1)
	submit("s.2", 2)
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	type hint struct {
		session string
		seq     uint64
	}
	hints := make(chan hint, 16)
	done := make(chan error, 1)
	go func() {
		done <- l.WatchInputs(ctx, func(session string, seq uint64) { hints <- hint{session, seq} })
	}()
	expect := func(session string, seq uint64) {
		t.Helper()
		select {
		case h := <-hints:
			if h != (hint{session, seq}) {
				t.Fatalf("hint %v, want %q %d", h, session, seq)
			}
		case <-ctx.Done():
			t.Fatalf("no hint of %q %d", session, seq)
		}
	}
	expect("s1", 1)
	expect("s.2", 2)
	submit("s1", 3)
	expect("s1", 3)
	if s.Restart != nil {
		s.Restart(t)
		submit("s1", 4)
		expect("s1", 4)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}
