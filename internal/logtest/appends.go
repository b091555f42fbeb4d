package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
)

func appendAndRead(t *testing.T, s Server) {
	l := s.Open(t, nil)
	c := NewChain("s1")
	w := l.Writer("s1", 0)
	var want []event.Event
	var last uint64
	for i := range 20 {
		e := c.Next(t, fmt.Sprint(i))
		seq := Append(t, w, e)
		if seq <= last {
			t.Fatalf("stream sequence %d after %d", seq, last)
		}
		last = seq
		want = append(want, e)
	}
	got := Collect(t, l.Events(Context(t), "s1"))
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, r := range got {
		if !bytes.Equal(r.Data, want[i].Stored()) {
			t.Errorf("event %d: %s, want %s", i, r.Data, want[i].Stored())
		}
	}
	if subject := got[0].Subject; !strings.HasSuffix(subject, ".ev.s1.session.opened") {
		t.Errorf("subject %q", subject)
	}
	if head, err := l.Head(Context(t)); err != nil || head != last || got[len(got)-1].StreamSeq != last {
		t.Errorf("head %d %v, last record %d, want %d", head, err, got[len(got)-1].StreamSeq, last)
	}
	if n := len(Collect(t, l.Events(Context(t), "no such session"))); n != 0 {
		t.Errorf("%d events in a session that is not there", n)
	}
}

func appendAgain(t *testing.T, s Server) {
	l := s.Open(t, nil)
	c := NewChain("s1")
	w := l.Writer("s1", 0)
	first := c.Next(t, "first")
	seq := Append(t, w, first)
	if again := Append(t, w, first); again != seq {
		t.Errorf("the same event again: sequence %d, want %d", again, seq)
	}
	// A new writer that does not know of the first: its own bytes stand there.
	if again := Append(t, l.Writer("s1", 0), first); again != seq {
		t.Errorf("the same event by a new writer: sequence %d, want %d", again, seq)
	}
	Append(t, w, c.Next(t, "second"))
	if n := len(Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func appendWrongly(t *testing.T, s Server) {
	l := s.Open(t, nil)
	other := NewChain("s2").Next(t, "x")
	w := l.Writer("s1", 0)
	if _, err := w.Append(Context(t), other); err == nil || !strings.Contains(err.Error(), `session "s2"`) {
		t.Errorf("an event of another session: %v", err)
	}
	if _, err := w.Append(Context(t), event.Event{SessionID: "s1"}); err == nil {
		t.Error("an event without a payload was appended")
	}
	c := NewChain("s1")
	Append(t, w, c.Next(t, "opened"))
	fork := c.Fork(t, "a")
	Append(t, w, c.Next(t, "b"))
	var stored *eventlog.StoredError
	if _, err := w.Append(Context(t), fork); !errors.As(err, &stored) || stored.StreamSeq != 2 {
		t.Errorf("an event in the place of one that is stored: %v, want a StoredError at 2", err)
	}
	Append(t, w, c.Next(t, "c"))
	if n := len(Verify(t, l, "s1")); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

func staleWriter(t *testing.T, s Server) {
	a, b := s.Open(t, nil), s.Open(t, nil)
	c := NewChain("s1")
	wa := a.Writer("s1", 0)
	last := Append(t, wa, c.Next(t, "by a"))
	stale := c.Fork(t, "late, by a")
	wb := b.Writer("s1", last)
	Append(t, wb, c.Next(t, "by b"))
	for range 3 {
		if _, err := wa.Append(Context(t), stale); !errors.Is(err, eventlog.ErrFenced) || !errors.Is(err, event.ErrFenced) {
			t.Fatalf("the stale writer: %v, want ErrFenced", err)
		}
	}
	// Even an event that would fit now: fenced is for good.
	if _, err := wa.Append(Context(t), c.Fork(t, "fits")); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("the stale writer again: %v, want ErrFenced", err)
	}
	Append(t, wb, c.Next(t, "by b again"))
	if n := len(Verify(t, a, "s1")); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

func racers(t *testing.T, s Server) {
	const n = 64
	logs := []*eventlog.Log{s.Open(t, nil), s.Open(t, nil)}
	c := NewChain("s1")
	last := Append(t, logs[0].Writer("s1", 0), c.Next(t, "opened"))
	events := make([]event.Event, n)
	for i := range events {
		events[i] = c.Fork(t, fmt.Sprint("racer ", i))
	}
	ctx := Context(t)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			_, errs[i] = logs[i%2].Writer("s1", last).Append(ctx, events[i])
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("racers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, eventlog.ErrFenced):
			t.Errorf("racer %d: %v, want ErrFenced", i, err)
		}
	}
	got := Verify(t, logs[0], "s1")
	if len(got) != 2 || winner < 0 || got[1].ID != events[winner].ID {
		t.Errorf("%d events; the winner is %d", len(got), winner)
	}
}

// fight lets two owners take a session from each other, again and again: what
// was acknowledged is there once, in a chain without a break.
func fight(t *testing.T, s Server) {
	const rounds, owners = 40, 2
	acked := make([][]string, owners)
	var wg sync.WaitGroup
	for o := range owners {
		l := s.Open(t, nil)
		wg.Go(func() {
			for r := range rounds {
				ids, err := takeOver(t, l, "s1", fmt.Sprint(o, r))
				acked[o] = append(acked[o], ids...)
				if !errors.Is(err, eventlog.ErrFenced) && err != nil {
					t.Errorf("owner %d: %v", o, err)
					return
				}
			}
		})
	}
	wg.Wait()
	there := map[string]int{}
	for _, e := range Verify(t, s.Open(t, nil), "s1") {
		there[e.ID]++
	}
	total := 0
	for _, ids := range acked {
		total += len(ids)
		for _, id := range ids {
			if there[id] != 1 {
				t.Errorf("event %s was acknowledged and is there %d times", id, there[id])
			}
		}
	}
	if total != len(there) || total == 0 {
		t.Errorf("%d acknowledged, %d stored", total, len(there))
	}
}

func takeOver(t testing.TB, l *eventlog.Log, session, owner string) (acked []string, err error) {
	c := NewChain(session)
	var last uint64
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	for r, err := range l.Events(ctx, session) {
		if err != nil {
			return nil, err
		}
		e, err := event.Decode(r.Data)
		if err != nil {
			return nil, err
		}
		c.last, last = e, r.StreamSeq
	}
	w := l.Writer(session, last)
	for i := range 5 {
		e := c.Next(t, fmt.Sprint(owner, " ", i))
		if _, err := w.Append(ctx, e); err != nil {
			return acked, err
		}
		acked = append(acked, e.ID)
	}
	return acked, nil
}

func sideBySide(t *testing.T, s Server) {
	const sessions, each = 16, 25
	l := s.Open(t, nil)
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			id := fmt.Sprint("s", i)
			c, w := NewChain(id), l.Writer(id, 0)
			for range each {
				if _, err := w.Append(Context(t), c.Next(t, "x")); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		if n := len(Verify(t, l, fmt.Sprint("s", i))); n != each {
			t.Errorf("session s%d: %d events, want %d", i, n, each)
		}
	}
	if n := len(Collect(t, l.ReadAll(Context(t), 1, 0))); n != sessions*each {
		t.Errorf("%d events in all, want %d", n, sessions*each)
	}
}

// odd are ids that would be something else if they stood in a subject as they
// are; no two may share a subject or see each other's events.
var odd = []string{
	"a", "A", "a b", " ", "a.b", "a..b", ".", "*", ">", "a.>", "*.session", "$JS.API", "~", "~YQ", "YQ",
	"grüße", "日本語", "\u202e", "a\nb", "a\r\nPUB x 0\r\n", "\x00", "session.opened",
	strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("語", 128), "~" + strings.Repeat("x", 511),
}

func oddIDs(t *testing.T, s Server) {
	l := s.Open(t, nil)
	for i, id := range odd {
		c, w := NewChain("s"), l.Writer(id, 0)
		c.Session = id
		Append(t, w, c.Next(t, fmt.Sprint(i)))
		Append(t, w, c.Next(t, "second"))
	}
	for i, id := range odd {
		if err := l.Submit(Context(t), id, id, fmt.Append(nil, i)); err != nil {
			t.Errorf("submit to %q: %v", id, err)
		}
		if _, err := l.AppendFrame(Context(t), id, id, 0, fmt.Append(nil, i)); err != nil {
			t.Errorf("frame of %q: %v", id, err)
		}
	}
	var want []string
	for i, id := range odd {
		want = append(want, id)
		if n := len(Verify(t, l, id)); n != 2 {
			t.Errorf("session %q: %d events, want 2", id, n)
		}
		d, ok, err := l.NextInput(Context(t), id, 0)
		if err != nil || !ok || d.InputID != id || string(d.Data) != fmt.Sprint(i) {
			t.Errorf("input of %q: %v %q %s %v", id, ok, d.InputID, d.Data, err)
		}
		if _, ok, err := l.NextInput(Context(t), id, d.InboxSeq); ok || err != nil {
			t.Errorf("a second input of %q: %v %v", id, ok, err)
		}
		if f := Collect(t, l.Frames(Context(t), id, id)); len(f) != 1 || string(f[0].Data) != fmt.Sprint(i) {
			t.Errorf("frames of %q: %v", id, f)
		}
	}
	sameIDs(t, l, want)
}

func badIDs(t *testing.T, s Server) {
	l := s.Open(t, nil)
	for _, id := range []string{"", strings.Repeat("x", eventlog.MaxIDBytes+1), "\xff\xfe", "\xed\xa0\x80"} {
		c := NewChain("s")
		_, errAppend := l.Writer(id, 0).Append(Context(t), c.Next(t, "x"))
		_, errEvents := FeedError(l.Events(Context(t), id))
		_, _, errNext := l.NextInput(Context(t), id, 0)
		_, errPlain := l.SubmitPlain(Context(t), "s", id, nil)
		_, errFrames := FeedError(l.Frames(Context(t), "s", id))
		_, errFrame := l.AppendFrame(Context(t), "s", id, 0, []byte("x"))
		for i, err := range []error{
			errAppend, errEvents, errNext, errPlain, errFrames,
			l.Submit(Context(t), id, "i", nil), l.Submit(Context(t), "s", id, nil),
			errFrame,
		} {
			var token *eventlog.TokenError
			if !errors.As(err, &token) || token.ID != id {
				t.Errorf("id of %d bytes, call %d: %v, want a TokenError", len(id), i, err)
			}
		}
	}
	if head, err := l.Head(Context(t)); head != 0 || err != nil {
		t.Errorf("head %d, %v", head, err)
	}
}

func tooLarge(t *testing.T, s Server) {
	l := s.Open(t, func(c *eventlog.Config) { c.MaxEventBytes = 4096 })
	free := s.Open(t, nil)
	c := NewChain("s1")
	w := l.Writer("s1", 0)
	Append(t, w, c.Next(t, "opened"))
	var large *eventlog.TooLargeError
	if _, err := w.Append(Context(t), c.Fork(t, strings.Repeat("x", 5000))); !errors.As(err, &large) || large.Limit != 4096 {
		t.Errorf("above MaxEventBytes: %v", err)
	}
	huge := strings.Repeat("x", 9<<20) // above any max_payload that the server calls sound
	if _, err := free.Writer("s2", 0).Append(Context(t), NewChain("s2").Next(t, huge)); !errors.As(err, &large) || large.Bytes < len(huge) {
		t.Errorf("above the server's limit: %v", err)
	}
	if err := free.Submit(Context(t), "s1", "i", []byte(huge)); !errors.As(err, &large) {
		t.Errorf("input above the server's limit: %v", err)
	}
	Append(t, w, c.Next(t, "goes on"))
	if n := len(Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func cancelled(t *testing.T, s Server) {
	l := s.Open(t, nil)
	ctx, cancel := context.WithCancel(Context(t))
	cancel()
	c := NewChain("s1")
	w := l.Writer("s1", 0)
	if _, err := w.Append(ctx, c.Fork(t, "never sent")); !errors.Is(err, context.Canceled) || errors.Is(err, eventlog.ErrUnknownOutcome) {
		t.Errorf("append: %v, want context.Canceled and a known outcome", err)
	}
	if err := l.Submit(ctx, "s1", "i", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("submit: %v", err)
	}
	if _, err := FeedError(l.Events(ctx, "s1")); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	Append(t, w, c.Next(t, "opened"))
	if n := len(Verify(t, l, "s1")); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}
