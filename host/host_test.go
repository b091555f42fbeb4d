package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/provider/scripted"
)

func user(id, text string) event.Input {
	return event.Input{InputID: id, Kind: event.KindUser, Text: text}
}

// An input and the correction that arrived while its request ran are answered
// by one generation: both waits end with the same event.
func TestAwaitFindsTheGenerationThatTookTheInput(t *testing.T) {
	ctx, house := serve(t, says("provisional", scripted.Wait{Gate: "answer"}), says("corrected"))
	h, err := host.Dial(ctx, eventlog.Config{URL: house.url})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.Submit(ctx, "s", user("in-1", "Draft it")); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, h, "s", event.TypeOperationDispatched)
	steer, err := h.Steer(ctx, "s", "", "British spelling")
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, h, "s", event.TypeInputQueued)
	house.gates.Open("answer")
	var ends []string
	for _, id := range []string{"in-1", steer.InputID} {
		r, err := h.Await(ctx, "s", id)
		if err != nil {
			t.Fatal(err)
		}
		finished, ok := r.(host.Finished)
		if !ok || finished.Fact.Text != "corrected" || !slices.Equal(finished.Fact.InputIDs, []string{"in-1", steer.InputID}) {
			t.Fatalf("input %s: %+v, want the finished generation of both", id, r)
		}
		ends = append(ends, r.Decided().ID)
	}
	if ends[0] != ends[1] {
		t.Errorf("two results %v, want one event", ends)
	}
}

func TestStopAndWhatItLeaves(t *testing.T) {
	ctx, house := serve(t, says("never", scripted.Wait{Gate: "shut"}))
	h := host.New(house.log)
	running, err := h.Submit(ctx, "s", event.Input{Kind: event.KindUser, Text: "Begin"})
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, h, "s", event.TypeOperationDispatched)
	pending, err := h.Submit(ctx, "s", event.Input{Kind: event.KindUser, Text: "And this"})
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, h, "s", event.TypeInputQueued)
	stop, err := h.Stop(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	late, err := h.Submit(ctx, "s", event.Input{Kind: event.KindUser, Text: "Too late"})
	if err != nil {
		t.Fatal(err)
	}
	for id, right := range map[string]func(host.Result) bool{
		running.InputID: func(r host.Result) bool {
			d, ok := r.(host.Detached)
			return ok && d.Fact.Reason == event.DetachedStopped
		},
		pending.InputID: func(r host.Result) bool { _, ok := r.(host.Held); return ok },
		stop.InputID:    func(r host.Result) bool { return r.Decided().Type == event.TypeSessionClosed },
		late.InputID: func(r host.Result) bool {
			d, ok := r.(host.Rejected)
			return ok && d.Fact.Reason == event.RejectSessionClosed
		},
	} {
		r, err := h.Await(ctx, "s", id)
		if err != nil {
			t.Fatal(err)
		}
		if !right(r) {
			t.Errorf("input %s: %T %+v", id, r, r)
		}
	}
}

func TestSubmitKeepsIdentities(t *testing.T) {
	ctx, house := serve(t, says("one"))
	h := host.New(house.log)
	first, err := h.Submit(ctx, "s", user("in-1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Submit(ctx, "s", user("in-1", "Hello"))
	if err != nil || again != first {
		t.Errorf("the same again: %+v, %v; want %+v", again, err, first)
	}
	var conflict *eventlog.ConflictError
	if _, err := h.Submit(ctx, "s", user("in-1", "Other")); !errors.As(err, &conflict) {
		t.Errorf("other content under the same id: %v, want a conflict", err)
	}
	var invalid *event.InvalidInputError
	if _, err := h.Submit(ctx, "s", user("in-2", " ")); !errors.As(err, &invalid) {
		t.Errorf("blank text: %v, want it refused before it is published", err)
	}
	if _, there, err := house.log.NextInput(ctx, "s", 1); err != nil || there {
		t.Errorf("a second input lies in the inbox (%v)", err)
	}
	named, err := h.Submit(ctx, "s", user("", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ulid.ParseStrict(named.InputID); err != nil {
		t.Errorf("generated id %q: %v", named.InputID, err)
	}
}

func TestEventsBeginWhereAskedAndEndWithTheContext(t *testing.T) {
	ctx, house := serve(t, says("one"))
	h := host.New(house.log)
	if _, err := h.Submit(ctx, "s", user("in-1", "Hello")); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, h, "s", event.TypeSessionIdle)
	within, cancel := context.WithCancel(ctx)
	want := event.Seq(3)
	for e, err := range h.Events(within, "s", want) {
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil || e.Sequence != want {
			t.Fatalf("sequence %d, %v; want %d", e.Sequence, err, want)
		}
		if want++; e.Type == event.TypeSessionIdle {
			cancel()
		}
	}
	if within.Err() == nil {
		t.Error("the feed ended by itself")
	}
	cancel()
	if _, err := h.Await(within, "s", "nobody"); !errors.Is(err, context.Canceled) {
		t.Errorf("await with an ended context: %v", err)
	}
}

func TestDialNeedsALog(t *testing.T) {
	ctx, house := serve(t)
	if _, err := host.Dial(ctx, eventlog.Config{URL: house.url, Prefix: "other"}); !errors.Is(err, eventlog.ErrNoStream) {
		t.Errorf("dial where no log is: %v, want %v", err, eventlog.ErrNoStream)
	}
}

// await reads events until the first of a type.
func await(ctx context.Context, t *testing.T, h *host.Host, session string, want event.Type) {
	t.Helper()
	for e, err := range h.Events(ctx, session, 1) {
		if err != nil {
			t.Fatalf("no %s came: %v", want, err)
		}
		if e.Type == want {
			return
		}
	}
}

// A look waits for nothing: it tells what the log says by now.
func TestLook(t *testing.T) {
	ctx, house := serve(t, says("late", scripted.Wait{Gate: "answer"}))
	h := host.New(house.log)
	look := func(session, id string) (host.Result, bool) {
		t.Helper()
		r, known, err := h.Look(ctx, session, id)
		if err != nil {
			t.Fatal(err)
		}
		return r, known
	}
	if r, known := look("s", "in-1"); r != nil || known {
		t.Errorf("never submitted: %+v, known %t", r, known)
	}
	if _, err := h.Submit(ctx, "s", user("in-1", "Wait")); err != nil {
		t.Fatal(err)
	}
	if r, known := look("s", "in-1"); r != nil || !known {
		t.Errorf("in the inbox, or accepted: %+v, known %t", r, known)
	}
	await(ctx, t, h, "s", event.TypeOperationDispatched)
	if r, known := look("s", "in-1"); r != nil || !known {
		t.Errorf("at work: %+v, known %t", r, known)
	}
	house.gates.Open("answer")
	await(ctx, t, h, "s", event.TypeSessionIdle)
	if r, known := look("s", "in-1"); !known || r.(host.Finished).Fact.Text != "late" {
		t.Errorf("answered: %+v, known %t", r, known)
	}
	if r, known := look("s", "in-2"); r != nil || known {
		t.Errorf("another: %+v, known %t", r, known)
	}

	// Where no owner takes it up, it lies in the inbox, behind others.
	quiet := openQuiet(ctx, t)
	q := host.New(quiet)
	for _, id := range []string{"in-1", "in-2"} {
		if _, err := q.Submit(ctx, "s", user(id, "Hello")); err != nil {
			t.Fatal(err)
		}
	}
	if r, known, err := q.Look(ctx, "s", "in-2"); r != nil || !known || err != nil {
		t.Errorf("in the inbox: %+v, known %t, %v", r, known, err)
	}
}

// openQuiet is a log without an owner.
func openQuiet(ctx context.Context, t *testing.T) *eventlog.Log {
	t.Helper()
	server, err := natsembed.Start(natsembed.Config{Dir: t.TempDir(), MaxStore: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	log, err := eventlog.Open(ctx, eventlog.Config{InProcess: server, URL: server.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}
