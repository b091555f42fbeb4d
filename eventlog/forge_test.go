package eventlog_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

// TestForging: whoever may publish to the inbox tries every header that makes
// a server do more than store a message. The events stay as they are, and the
// inputs too.
func TestForging(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	l := h.log(t, nil)
	c, w := logtest.NewChain("s1"), l.Writer("s1", 0)
	for range 3 {
		logtest.Append(t, w, c.Next(t, "x"))
	}
	ctx := logtest.Context(t)
	if err := l.Submit(ctx, "s1", "first", []byte("of all")); err != nil {
		t.Fatal(err)
	}
	const forged = "loop.ev.s1.generation.finished"
	nc, _ := h.raw(t)
	for name, headers := range map[string]nats.Header{
		"roll-up all":       {"Nats-Rollup": {"all"}},
		"roll-up subject":   {"Nats-Rollup": {"sub"}},
		"schedule":          {"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {forged}},
		"schedule every":    {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {forged}},
		"schedule source":   {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"loop.in.s1.x"}, "Nats-Schedule-Source": {forged}},
		"TTL":               {"Nats-TTL": {"1s"}},
		"marker":            {"Nats-Marker-Reason": {"MaxAge"}, "Nats-TTL": {"1s"}},
		"counter":           {"Nats-Incr": {"+1"}},
		"batch":             {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		"stream source":     {"Nats-Stream-Source": {"LOOP_EVENTS 1 > > " + forged}},
		"foreign stream":    {"Nats-Expected-Stream": {"LOOP_EVENTS"}},
		"foreign filter":    {"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-Expected-Last-Subject-Sequence-Subject": {forged}},
		"original subject":  {"Nats-Subject": {forged}},
		"schedule roll-up":  {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"loop.in.s1.y"}, "Nats-Schedule-Rollup": {"sub"}},
		"message id":        {"Nats-Msg-Id": {"first"}},
		"next subject":      {"Nats-Scheduler": {forged}},
		"stream source two": {"Nats-Stream-Source": {"x"}, "Nats-Rollup": {"all"}},
	} {
		subject := "loop.in.s1." + strings.ReplaceAll(name, " ", "-")
		answer, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: headers, Data: []byte("forged")})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var ack struct {
			Stream string `json:"stream"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Stream != "" && ack.Stream != "LOOP_INBOX" {
			t.Errorf("%s: %s %v", name, answer.Data, err)
		}
	}
	if n := len(logtest.Verify(t, l, "s1")); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	if head, err := l.Head(ctx); head != 3 || err != nil {
		t.Errorf("head %d, %v", head, err)
	}
	first, ok, err := l.NextInput(ctx, "s1", 0)
	if err != nil || !ok || first.InputID != "first" || string(first.Data) != "of all" {
		t.Errorf("the first input: %v %v %v", first, ok, err)
	}
	logtest.Append(t, w, c.Next(t, "goes on")) // an expected sequence that a schedule took would fence it
}

// TestNotInAnyStream: what is published beside the exact subjects is stored
// nowhere.
func TestNotInAnyStream(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	h.log(t, nil)
	nc, _ := h.raw(t)
	for _, subject := range []string{"loop.in.s1", "loop.in.s1.a.b", "loop.ev.s1.x", "loop.ev.s1.a.b.c", "loop.op.s1", "loop.api.s1.x", "loop.tool.x.y"} {
		_, err := nc.RequestWithContext(logtest.Context(t), subject, []byte("x"))
		if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v, want no responders", subject, err)
		}
	}
}

func TestForeignShape(t *testing.T) {
	plain := func(name, subject string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Discard: jetstream.DiscardNew}
	}
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"subjects":  func(c *jetstream.StreamConfig) { c.Subjects = []string{"loop.>"} },
		"retention": func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"storage":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"discard":   func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
		"max msgs":  func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"per subj":  func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"max age":   func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"roll-up":   func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"schedules": func(c *jetstream.StreamConfig) { c.AllowMsgSchedules, c.Discard = true, jetstream.DiscardOld },
		"ttl":       func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"counter":   func(c *jetstream.StreamConfig) { c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld },
		"atomic":    func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true },
		"batch":     func(c *jetstream.StreamConfig) { c.AllowBatchPublish = true },
		"republish": func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		},
		"no ack":  func(c *jetstream.StreamConfig) { c.NoAck = true },
		"sources": func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} },
		"transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "loop.ev.*.*.*", Destination: "loop.xx.{{wildcard(1)}}"}
		},
		"mirror": func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror, c.Discard = nil, &jetstream.StreamSource{Name: "OTHER"}, jetstream.DiscardOld
		},
		"async mode": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, natsembed.Config{})
			_, js := h.raw(t)
			ctx := logtest.Context(t)
			config := plain("LOOP_EVENTS", "loop.ev.*.*.*")
			change(&config)
			if _, err := js.CreateStream(ctx, config); err != nil {
				t.Fatal(err)
			}
			before := h.rawStream(t, "LOOP_EVENTS").CachedInfo().Config
			_, err := eventlog.Open(ctx, eventlog.Config{URL: h.current().ClientURL()})
			var shape *eventlog.ShapeError
			if !errors.As(err, &shape) || shape.Stream != "LOOP_EVENTS" || len(shape.Found) == 0 {
				t.Errorf("%v, want a ShapeError", err)
			}
			if after := h.rawStream(t, "LOOP_EVENTS").CachedInfo().Config; !reflect.DeepEqual(before, after) {
				t.Errorf("the stream was changed: %+v, was %+v", after, before)
			}
			if _, err := js.Stream(ctx, "LOOP_INBOX"); !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("another stream was made: %v", err)
			}
		})
	}
}

// TestUpdatedShape: what may be changed in place is, at every Open.
func TestUpdatedShape(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	ctx := logtest.Context(t)
	if _, err := eventlog.Open(ctx, eventlog.Config{URL: h.current().ClientURL(), Existing: true}); !errors.Is(err, eventlog.ErrNoStream) {
		t.Fatalf("nothing there: %v, want ErrNoStream", err)
	}
	c, w := logtest.NewChain("s1"), h.log(t, nil).Writer("s1", 0)
	logtest.Append(t, w, c.Next(t, "x"))
	l := h.log(t, func(c *eventlog.Config) {
		c.FramesMaxAge, c.InboxMaxAge, c.MaxStreamBytes = time.Hour, 24*time.Hour, 1<<20
	})
	for name, age := range map[string]time.Duration{"LOOP_FRAMES": time.Hour, "LOOP_INBOX": 24 * time.Hour, "LOOP_EVENTS": 0} {
		if got := h.rawStream(t, name).CachedInfo().Config; got.MaxAge != age || got.MaxBytes != 1<<20 || got.AllowDirect {
			t.Errorf("%s: age %v, bytes %d, direct %v", name, got.MaxAge, got.MaxBytes, got.AllowDirect)
		}
	}
	if n := len(logtest.Verify(t, l, "s1")); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	h.log(t, func(c *eventlog.Config) { c.Existing = true })
	if got := h.rawStream(t, "LOOP_FRAMES").CachedInfo().Config; got.MaxAge != time.Hour {
		t.Errorf("Existing changed the age to %v", got.MaxAge)
	}
}

// TestPrefixes: two logs on one server do not see each other.
func TestPrefixes(t *testing.T) {
	h := startHost(t, natsembed.Config{})
	a := h.log(t, nil)
	b := h.log(t, func(c *eventlog.Config) { c.Prefix, c.Storage = "other", eventlog.StorageMemory })
	logtest.Append(t, a.Writer("s1", 0), logtest.NewChain("s1").Next(t, "a"))
	logtest.Append(t, b.Writer("s1", 0), logtest.NewChain("s1").Next(t, "b"))
	for _, l := range []*eventlog.Log{a, b} {
		if n := len(logtest.Verify(t, l, "s1")); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	}
}
