package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
)

func ranges(t *testing.T, s Server) {
	const n = 30
	l := s.Open(t, nil)
	chains := []*Chain{NewChain("s1"), NewChain("s2")}
	writers := []*eventlog.Writer{l.Writer("s1", 0), l.Writer("s2", 0)}
	for i := range n {
		Append(t, writers[i%2], chains[i%2].Next(t, "x"))
	}
	for _, r := range []struct{ from, to, first, last uint64 }{
		{0, 0, 1, n}, {1, 0, 1, n}, {1, n, 1, n}, {5, 9, 5, 9}, {n, 0, n, n}, {n, n + 50, n, n}, {1, 1, 1, 1},
	} {
		got := Collect(t, l.ReadAll(Context(t), r.from, r.to))
		if len(got) == 0 || got[0].StreamSeq != r.first || got[len(got)-1].StreamSeq != r.last || len(got) != int(r.last-r.first+1) {
			t.Errorf("%d to %d: %d records", r.from, r.to, len(got))
		}
	}
	if got := Collect(t, l.ReadAll(Context(t), n+1, 0)); len(got) != 0 {
		t.Errorf("behind the head: %d records", len(got))
	}
	var gap *eventlog.GapError
	if _, err := FeedError(l.ReadAll(Context(t), n+3, 0)); !errors.As(err, &gap) || gap.From != n+1 || gap.To != n+2 {
		t.Errorf("beyond the head: %v, want a gap from %d to %d", err, n+1, n+2)
	}
	if got := Collect(t, l.ReadAll(Context(t), 4, 9, eventlog.OnlySession("s2"))); len(got) != 3 || got[0].StreamSeq != 4 {
		t.Errorf("one session, 4 to 9: %v", got)
	}
	taken := 0
	for _, err := range l.ReadAll(Context(t), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if taken++; taken == 3 {
			break
		}
	}
	if taken != 3 {
		t.Errorf("took %d records, want 3", taken)
	}
}

var errEnough = errors.New("enough")

func follow(t *testing.T, s Server) {
	const before, after = 10, 200
	l := s.Open(t, nil)
	c, w := NewChain("s1"), l.Writer("s1", 0)
	other, wo := NewChain("s2"), l.Writer("s2", 0)
	for range before {
		Append(t, w, c.Next(t, "before"))
	}
	Append(t, wo, other.Next(t, "other"))
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	reached := make(chan struct{})
	var wg sync.WaitGroup
	var all, one int
	var errAll, errOne error
	wg.Go(func() {
		errAll = l.Follow(ctx, 3, func(r event.Record) error {
			if all++; all == before-1 {
				close(reached) // it reads what is to come from here on
			}
			if all == before+1-2+after {
				return errEnough
			}
			return nil
		})
	})
	wg.Go(func() {
		errOne = l.Follow(ctx, 1, func(r event.Record) error {
			if one++; one == before+after {
				return errEnough
			}
			return nil
		}, eventlog.OnlySession("s1"))
	})
	<-reached
	for range after {
		Append(t, w, c.Next(t, "after"))
	}
	wg.Wait()
	if errAll != errEnough || errOne != errEnough {
		t.Fatalf("all: %v after %d; one: %v after %d", errAll, all, errOne, one)
	}
	cancel()
	if err := l.Follow(ctx, 1, func(event.Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}

func sessions(t *testing.T, s Server) {
	l := s.Open(t, nil)
	sameIDs(t, l, nil)
	const n = 1500 // above the 1024 subjects of the server's multi-get
	var want []string
	for i := range n {
		id := fmt.Sprintf("s%04d", i)
		c, w := NewChain(id), l.Writer(id, 0)
		Append(t, w, c.Next(t, "x"))
		if i%100 == 0 {
			Append(t, w, c.Next(t, "y"))
		}
		want = append(want, id)
	}
	sameIDs(t, l, want)
}

func sameIDs(t *testing.T, l *eventlog.Log, want []string) {
	t.Helper()
	got, err := l.Sessions(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%d sessions %.10q, want %d %.10q", len(got), got, len(want), want)
	}
}

func frames(t *testing.T, s Server) {
	l := s.Open(t, nil)
	want := []string{"one", strings.Repeat("0123456789", l.FrameBytes()/10), "three"}
	last := uint64(0)
	for _, data := range want {
		seq, err := l.AppendFrame(Context(t), "s1", "op1", last, []byte(data))
		if err != nil || seq <= last {
			t.Fatalf("%d after %d: %v", seq, last, err)
		}
		last = seq
	}
	other, err := l.AppendFrame(Context(t), "s1", "op2", 0, []byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	for _, stale := range []uint64{0, 1, other} {
		if _, err := l.AppendFrame(Context(t), "s1", "op1", stale, []byte("late")); !errors.Is(err, eventlog.ErrFenced) {
			t.Errorf("a frame behind %d, not %d: %v", stale, last, err)
		}
	}
	var got []string
	for _, r := range Collect(t, l.Frames(Context(t), "s1", "op1")) {
		got = append(got, string(r.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d frames, want %d", len(got), len(want))
	}
	if n := len(Collect(t, l.Frames(Context(t), "s1", "op3"))); n != 0 {
		t.Errorf("%d frames of an operation without", n)
	}
	if head, err := l.Head(Context(t)); head != 0 || err != nil {
		t.Errorf("frames moved the head of the events: %d %v", head, err)
	}
}

func followFrames(t *testing.T, s Server) {
	l := s.Open(t, nil)
	ctx := Context(t)
	first := make(chan struct{})
	done := make(chan error, 1)
	var got []byte
	go func() {
		done <- l.FollowFrames(ctx, "s1", "op1", func(r event.Record) error {
			got = append(got, r.Data...)
			switch len(got) {
			case 1:
				close(first)
			case 3:
				return errEnough
			}
			return nil
		})
	}()
	last := uint64(0)
	for i, frame := range []string{"a", "b", "c"} {
		var err error
		if last, err = l.AppendFrame(ctx, "s1", "op1", last, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-first
		}
	}
	if err := <-done; err != errEnough || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

// restart appends, follows and watches over restarts of the server: nothing is
// lost, nothing doubled, nobody has to be told.
func restart(t *testing.T, s Server) {
	if s.Restart == nil {
		t.Log("this server cannot be restarted; it passes without it")
		return
	}
	const n = 300
	l := s.Open(t, nil)
	ctx := Context(t)
	c, w := NewChain("s1"), l.Writer("s1", 0)
	var wg sync.WaitGroup
	var followed int
	var errFollow error
	wg.Go(func() {
		errFollow = l.Follow(ctx, 1, func(event.Record) error {
			if followed++; followed == n {
				return errEnough
			}
			return nil
		})
	})
	for i := range n {
		if i == n/3 || i == n/2 {
			restarted := make(chan struct{})
			wg.Go(func() { defer close(restarted); s.Restart(t) })
			if i == n/3 {
				<-restarted // idle meanwhile; the other time it appends all along
			}
		}
		e := c.Next(t, "x")
		_, err := w.Append(ctx, e)
		for errors.Is(err, eventlog.ErrUnknownOutcome) || errors.Is(err, eventlog.ErrUnavailable) {
			_, err = w.Append(ctx, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if errFollow != errEnough {
		t.Errorf("followed %d of %d: %v", followed, n, errFollow)
	}
	if got := len(Verify(t, l, "s1")); got != n {
		t.Errorf("%d events, want %d", got, n)
	}
}
