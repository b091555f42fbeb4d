package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

func TestServerGone(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	short := func(c *eventlog.Config) { c.Attempts, c.RequestTimeout = 2, 100*time.Millisecond }
	l := h.log(t, short)
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "opened"))
	url := h.current().ClientURL()
	h.stop()
	ctx := logtest.Context(t)
	e := c.Next(t, "meanwhile")
	_, errAppend := w.Append(ctx, e)
	_, errHead := l.Head(ctx)
	_, errSessions := l.Sessions(ctx)
	_, errRead := logtest.FeedError(l.ReadAll(ctx, 1, 0))
	_, errOpen := eventlog.Open(ctx, eventlog.Config{URL: url, RequestTimeout: 100 * time.Millisecond})
	for i, err := range []error{errAppend, errHead, errSessions, errRead, errOpen} {
		var full *eventlog.Error
		if !errors.Is(err, eventlog.ErrUnavailable) || !errors.As(err, &full) || full.Hint == "" {
			t.Errorf("call %d: %v, want ErrUnavailable with a hint", i, err)
		}
	}
	h.start(t)
	_, err := w.Append(ctx, e)
	for errors.Is(err, eventlog.ErrUnavailable) {
		_, err = w.Append(ctx, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(logtest.Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestPasswordsStayOutOfErrors(t *testing.T) {
	_, err := eventlog.Open(logtest.Context(t), eventlog.Config{URL: "nats://me:hunter2@127.0.0.1:1", RequestTimeout: 50 * time.Millisecond})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
}

func TestStreamDeleted(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	l := h.log(t, nil)
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "opened"))
	ctx := logtest.Context(t)
	reached := make(chan struct{})
	followed := make(chan error, 1)
	go func() {
		followed <- l.Follow(ctx, 1, func(event.Record) error { close(reached); return nil })
	}()
	<-reached
	_, js := h.raw(t)
	if err := js.DeleteStream(ctx, "LOOP_EVENTS"); err != nil {
		t.Fatal(err)
	}
	_, errAppend := w.Append(ctx, c.Next(t, "x"))
	_, errHead := l.Head(ctx)
	_, errRead := logtest.FeedError(l.Events(ctx, "s1"))
	for i, err := range []error{errAppend, errHead, errRead, <-followed} {
		var full *eventlog.Error
		if !errors.Is(err, eventlog.ErrNoStream) || !errors.As(err, &full) || full.Hint == "" {
			t.Errorf("call %d: %v, want ErrNoStream with a hint", i, err)
		}
	}
	// Opened anew, the log is empty: who knew its end says what is missing.
	again := h.log(t, nil)
	var gap *eventlog.GapError
	if _, err := w.Append(ctx, c.Next(t, "y")); !errors.Is(err, eventlog.ErrFenced) || !errors.As(err, &gap) {
		t.Errorf("the old writer on a new stream: %v, want ErrFenced and a GapError", err)
	}
	if n := len(logtest.Collect(t, again.ReadAll(ctx, 1, 0))); n != 0 {
		t.Errorf("%d events in the new stream", n)
	}
}

// TestTailLost: a follower notices that the log it reads is shorter than what
// it has read.
func TestTailLost(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	l := h.log(t, func(c *eventlog.Config) { c.RequestTimeout = 200 * time.Millisecond })
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	for range 5 {
		logtest.Append(t, w, c.Next(t, "x"))
	}
	ctx := logtest.Context(t)
	n, reached, followed := 0, make(chan struct{}), make(chan error, 1)
	go func() {
		followed <- l.Follow(ctx, 1, func(event.Record) error {
			if n++; n == 5 {
				close(reached)
			}
			return nil
		})
	}()
	<-reached
	_, js := h.raw(t)
	config := h.rawStream(t, "LOOP_EVENTS").CachedInfo().Config
	if err := js.DeleteStream(ctx, "LOOP_EVENTS"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	var gap *eventlog.GapError
	if err := <-followed; !errors.Is(err, eventlog.ErrNoStream) && (!errors.As(err, &gap) || gap.From != 1 || gap.To != 5) {
		t.Errorf("%v, want the loss of 1 to 5", err)
	}
}

func TestGaps(t *testing.T) {
	const n = 50
	for _, test := range []struct {
		name     string
		deleted  []uint64
		from, to uint64
	}{
		{"first", []uint64{1}, 1, 1},
		{"middle", []uint64{20, 21, 22}, 20, 22},
		{"last", []uint64{n - 1, n}, n - 1, n},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := startHost(t, natsembed.Config{})
			l := h.log(t, func(c *eventlog.Config) { c.RequestTimeout = 200 * time.Millisecond })
			c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
			for range n {
				logtest.Append(t, w, c.Next(t, "x"))
			}
			stream := h.rawStream(t, "LOOP_EVENTS")
			for _, seq := range test.deleted {
				if err := stream.DeleteMsg(logtest.Context(t), seq); err != nil {
					t.Fatal(err)
				}
			}
			got, err := logtest.FeedError(l.ReadAll(logtest.Context(t), 1, 0))
			var gap *eventlog.GapError
			if !errors.As(err, &gap) || *gap != (eventlog.GapError{Stream: "LOOP_EVENTS", From: test.from, To: test.to}) || got != int(test.from-1) {
				t.Errorf("after %d records: %v, want a gap from %d to %d", got, err, test.from, test.to)
			}
			if all := logtest.Collect(t, l.ReadAll(logtest.Context(t), 1, 0, eventlog.AllowGaps())); len(all) != n-len(test.deleted) {
				t.Errorf("gaps allowed: %d records", len(all))
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	h := startHost(t, natsembed.Config{MaxStore: 1 << 20})
	l := h.log(t, nil)
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "opened"))
	ctx := logtest.Context(t)
	var err error
	last := uint64(0)
	for i := 0; err == nil && i < 100; i++ {
		last, err = l.AppendFrame(ctx, "s1", "op1", last, make([]byte, 100_000))
	}
	checkFull(t, "frame", err)
	e := c.Next(t, strings.Repeat("x", 100_000))
	_, err = w.Append(ctx, e)
	checkFull(t, "append", err)
	checkFull(t, "submit", l.Submit(ctx, "s1", "i1", make([]byte, 100_000)))
	if n := len(logtest.Verify(t, l, "s1")); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if err := h.rawStream(t, "LOOP_FRAMES").Purge(ctx); err != nil {
		t.Fatal(err)
	}
	logtest.Append(t, w, e)
	if n := len(logtest.Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestStreamFull(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	l := h.log(t, func(c *eventlog.Config) { c.MaxStreamBytes = 20_000 })
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "opened"))
	_, err := w.Append(logtest.Context(t), c.Fork(t, strings.Repeat("x", 30_000)))
	checkFull(t, "append", err)
	logtest.Append(t, w, c.Next(t, "small"))
	if n := len(logtest.Verify(t, l, "s1")); n != 2 {
		t.Errorf("%d events, want 2: a full stream drops nothing", n)
	}
}

func checkFull(t *testing.T, what string, err error) {
	t.Helper()
	var full *eventlog.Error
	if !errors.Is(err, eventlog.ErrFull) || errors.Is(err, eventlog.ErrUnknownOutcome) || !errors.As(err, &full) || full.Hint == "" {
		t.Errorf("%s: %v, want ErrFull with a hint", what, err)
	}
}

// TestMessageSizes finds the largest event that the server takes: one more
// byte is refused before anything is sent.
func TestMessageSizes(t *testing.T) {
	h := startHost(t, natsembed.Config{MaxPayload: 64 << 10})
	l := h.log(t, nil)
	var large *eventlog.TooLargeError
	low, high := 60<<10, 64<<10
	for low+1 < high {
		size := (low + high) / 2
		session := fmt.Sprint("s", size)
		_, err := l.Writer(session, 0).Append(logtest.Context(t), logtest.NewChain(session).Next(t, strings.Repeat("x", size)))
		switch {
		case err == nil:
			low = size
		case errors.As(err, &large):
			high = size
		default:
			t.Fatal(err)
		}
	}
	if low < 64<<10-1024 {
		t.Errorf("the largest event has %d bytes of text", low)
	}
	data := bytes.Repeat([]byte("x"), l.FrameBytes())
	seq, err := l.AppendFrame(logtest.Context(t), "s", "op", 0, data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.AppendFrame(logtest.Context(t), "s", "op", seq, append(data, make([]byte, 4096)...))
	if !errors.As(err, &large) {
		t.Errorf("a frame that is too large: %v", err)
	}
	var got []byte
	for _, r := range logtest.Collect(t, l.Frames(logtest.Context(t), "s", "op")) {
		got = append(got, r.Data...)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes of frames, want %d", len(got), len(data))
	}
}

// TestStreamLimitsMessages: an administrator's max_msg_size counts too.
func TestStreamLimitsMessages(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	h.log(t, nil)
	_, js := h.raw(t)
	config := h.rawStream(t, "LOOP_EVENTS").CachedInfo().Config
	config.MaxMsgSize = 2000
	if _, err := js.UpdateStream(logtest.Context(t), config); err != nil {
		t.Fatal(err)
	}
	l := h.log(t, func(c *eventlog.Config) { c.Existing = true })
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	var large *eventlog.TooLargeError
	if _, err := w.Append(logtest.Context(t), c.Fork(t, strings.Repeat("x", 3000))); !errors.As(err, &large) || large.Limit != 2000 {
		t.Errorf("%v, want a limit of 2000", err)
	}
	logtest.Append(t, w, c.Next(t, "small"))
}

// TestSmallBuffer reads more than the buffers hold, slowly enough that the
// server has to wait: every record comes, in order, once.
func TestSmallBuffer(t *testing.T) {
	const n = 1500
	h := startHost(t, natsembed.Config{MaxPayload: 64 << 10})
	l := h.log(t, func(c *eventlog.Config) { c.ReadBuffer = 1 })
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	for i := range n {
		logtest.Append(t, w, c.Next(t, strings.Repeat("x", i*37%30_000)))
	}
	if got := len(logtest.Verify(t, l, "s1")); got != n {
		t.Errorf("%d events of the session, want %d", got, n)
	}
	next := uint64(1)
	for r, err := range l.ReadAll(logtest.Context(t), 1, 0) {
		if err != nil || r.StreamSeq != next {
			t.Fatalf("record %d: sequence %d, %v", next, r.StreamSeq, err)
		}
		next++
	}
	if next != n+1 {
		t.Errorf("%d records, want %d", next-1, n)
	}
}

func TestManySessions(t *testing.T) {
	const n = 100_000
	h := startHost(t, natsembed.Config{})
	l := h.log(t, func(c *eventlog.Config) { c.RequestTimeout = 5 * time.Second })
	nc, _ := h.raw(t)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := js.PublishAsync(fmt.Sprintf("loop.ev.s%06d.session.opened", i), nil, jetstream.WithStallWait(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		t.Fatal("the sessions were not stored in time")
	}
	if head, err := l.Head(ctx); err != nil || head != n {
		t.Fatalf("head %d, %v", head, err)
	}
	ids, err := l.Sessions(ctx)
	if err != nil || len(ids) != n || ids[0] != "s000000" || ids[n-1] != "s099999" {
		t.Errorf("%d sessions, %v", len(ids), err)
	}
}
