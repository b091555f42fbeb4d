package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/projections"
)

// The test program is projector when it is called by that name: what is killed
// in a test is a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("PROJECTOR_TEST_CHILD") == "yes" {
		os.Exit(mainStatus())
	}
	testscript.Main(m, map[string]func(){"projector": func() { os.Exit(mainStatus()) }})
}

// place is a real server in this process, a log on it, and a directory for
// views.
type place struct {
	t      *testing.T
	server *natsembed.Server
	log    *eventlog.Log
	js     jetstream.JetStream
	store  string
}

const streamName = "LOOP_EVENTS"

func newPlace(t *testing.T) *place {
	t.Helper()
	server, err := natsembed.Start(natsembed.Config{Dir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	p := &place{t: t, server: server, store: filepath.Join(t.TempDir(), "views")}
	p.open()
	return p
}

// open opens the log, and makes its streams where they are missing.
func (p *place) open() {
	p.t.Helper()
	log, err := eventlog.Open(p.t.Context(), eventlog.Config{InProcess: p.server, Created: p.server.Sync})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(log.Close)
	js, err := jetstream.New(log.Conn())
	if err != nil {
		p.t.Fatal(err)
	}
	p.log, p.js = log, js
}

// write appends n generated events.
func (p *place) write(seed, n uint64) {
	p.t.Helper()
	for rec, err := range generate(seed, n, 16, "loop") {
		if err == nil {
			_, err = p.js.PublishAsync(rec.Subject, rec.Data)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	select {
	case <-p.js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		p.t.Fatal("the server does not acknowledge")
	}
}

func (p *place) stream() jetstream.Stream {
	p.t.Helper()
	s, err := p.js.Stream(p.t.Context(), streamName)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *place) args(verb ...string) []string {
	if verb[0] == "rebuild" {
		verb = append(verb, "--nice", "0") // this process does more than that
	}
	return append(verb, "--nats", p.server.ClientURL(), "--store", p.store)
}

// talk is a buffer that one writes and another reads.
type talk struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *talk) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *talk) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// run runs a verb here, and wants an exit status.
func (p *place) run(status int, verb ...string) (stdout, stderr string) {
	p.t.Helper()
	var out, talked talk
	got := run(p.t.Context(), p.args(verb...), strings.NewReader(""), &out, &talked)
	if got != status {
		p.t.Fatalf("projector %s: exit status %d, want %d\n%s%s", strings.Join(verb, " "), got, status, &out, &talked)
	}
	return out.String(), talked.String()
}

// serve runs projector run beside the test, until stop or the test's end.
func (p *place) serve(store string) (stop func(), talked *talk) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	talked = &talk{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"run", "--nats", p.server.ClientURL(), "--store", store}, strings.NewReader(""), talked, talked)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if status := <-ended; status != exitHeld {
			p.t.Errorf("projector run ended with %d: %s", status, talked)
		}
	})
	p.t.Cleanup(stop)
	p.eventually("it serves", func() bool { return strings.Contains(talked.String(), "serving build") })
	return stop, talked
}

// eventually looks again and again until what is waited for holds.
func (p *place) eventually(what string, holds func() bool) {
	p.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.t.Fatalf("never: %s", what)
		}
	}
}

func (p *place) standing(status int) standing {
	p.t.Helper()
	out, _ := p.run(status, "status", "--json")
	var s standing
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *place) builds() *projections.Builds {
	return projections.NewBuilds(p.store, projections.Config{})
}

func requireText(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Fatalf("%q is not in:\n%s", want, text)
		}
	}
}

func TestTheWayOfAnOperator(t *testing.T) {
	p := newPlace(t)
	p.write(1, 3000)
	out, _ := p.run(exitNotHeld, "status")
	requireText(t, out, "offset   0 of 3000, lag 3000")
	out, _ = p.run(exitHeld, "run", "--once")
	requireText(t, out, "build b000001 is at offset 3000")
	p.run(exitHeld, "status")
	out, _ = p.run(exitHeld, "rebuild")
	requireText(t, out, "build b000002 is served, at offset 3000: equal to the build served before")
	out, _ = p.run(exitHeld, "verify")
	requireText(t, out, "build b000002 is equal to the log at offset 3000")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	p.run(exitHeld, "snapshot", snapshot)
	p.run(exitUnasked, "snapshot", snapshot)
	p.write(2, 500)
	s := p.standing(exitNotHeld)
	if s.Lag != 500 || !strings.Contains(s.Trouble, "nobody folds") {
		t.Fatalf("%+v", s)
	}
	out, _ = p.run(exitHeld, "rollback")
	requireText(t, out, "build b000001 is served")
	p.run(exitNotHeld, "rollback")
	p.run(exitHeld, "restore", snapshot)
	p.run(exitHeld, "run", "--once")
	out, _ = p.run(exitHeld, "verify", "--against", snapshot)
	requireText(t, out, "build b000003 is equal to "+snapshot+" at offset 3500")
	out, _ = p.run(exitHeld, "rebuild", "--from-snapshot", snapshot, "--json")
	requireText(t, out, `"id":"b000004"`, `"from":"`+snapshot)
	out, _ = p.run(exitHeld, "get", "session", "g1-0000001", "--json")
	requireText(t, out, `"offset":3500`, `"session":"g1-0000001"`)
	p.run(exitNotHeld, "get", "session", "nobody")
	p.run(exitUnasked, "get", "weather", "nobody")
	p.run(exitNotHeld, "get", "session", "g1-0000001", "--at-least", "9999")
}

func TestWhatCannotBeAsked(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{
		{"status"}, {"status", "--data", t.TempDir() + "/none"}, {"status", "--nats", "nats://x", "--data", "y"},
		{"status", "--nats", p.server.ClientURL()}, {"rebuild", "surplus"}, {"weather"},
		{"run", "--nats", p.server.ClientURL(), "--prefix", "nobody", "--store", p.store},
	} {
		var talked talk
		if got := run(t.Context(), args, strings.NewReader(""), &talked, &talked); got != exitUnasked {
			t.Errorf("projector %v: exit status %d: %s", args, got, &talked)
		}
	}
}

func TestQueries(t *testing.T) {
	p := newPlace(t)
	p.write(1, 1000)
	stop, _ := p.serve(p.store)
	other := filepath.Join(t.TempDir(), "other")
	p.serve(other) // several projectors on one log
	_, talked := p.run(exitUnasked, "run")
	requireText(t, talked, "in use to serve by another process")

	// An answer waits for the offset that was asked for.
	answered := make(chan string, 1)
	go func() {
		out, _ := p.run(exitHeld, "get", "session", "g2-0000001", "--at-least", "1100", "--wait", "20s", "--json")
		answered <- out
	}()
	p.write(2, 100)
	requireText(t, <-answered, `"offset":1100`, `"id":"g2-0000001"`)
	_, talked = p.run(exitNotHeld, "get", "session", "g2-0000001", "--at-least", "1101", "--wait", "50ms")
	requireText(t, talked, "did not reach 1101")

	// Over NATS alone, by whoever serves the log.
	var out bytes.Buffer
	if got := run(t.Context(), []string{"get", "input", "in-1", "--session", "g1-0000001", "--nats", p.server.ClientURL()}, strings.NewReader(""), &out, &out); got != exitHeld {
		t.Fatal(got, out.String())
	}
	requireText(t, out.String(), `"input_id":"in-1"`, `"digest"`)
	reply, err := p.log.Conn().Request("$SRV.STATS.projector", nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	requireText(t, string(reply.Data), `"loop.api.projector.session"`, `"num_requests"`, `"loop.api.projector.checkpoint"`)
	if s := p.standing(exitHeld); !s.Running || s.Offset != 1100 || !s.Clean {
		t.Fatalf("%+v", s)
	}
	stop()
	if s := p.standing(exitHeld); s.Running || !s.Clean {
		t.Fatalf("%+v", s)
	}
}

func TestPoisonedEventsAreParked(t *testing.T) {
	p := newPlace(t)
	p.write(1, 100)
	for _, data := range []string{"{", `{"version":9,"type":"job.queued"}`} {
		if _, err := p.js.Publish(t.Context(), "loop.ev.s.job.queued", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	p.write(2, 100)
	p.run(exitHeld, "run", "--once")
	s := p.standing(exitHeld)
	if s.Parked != 2 || len(s.Reasons) != 2 || s.Reasons[0].StreamSeq != 101 || s.Offset != 202 {
		t.Fatalf("%+v", s)
	}
	p.run(exitHeld, "get", "session", "g2-0000001")
}

func TestHolesThatAreProven(t *testing.T) {
	p := newPlace(t)
	p.write(1, 300)
	if err := p.stream().Purge(t.Context(), jetstream.WithPurgeSequence(41)); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{100, 101, 300} {
		if err := p.stream().DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	p.run(exitHeld, "run", "--once")
	s := p.standing(exitHeld)
	want := []projections.Hole{
		{From: 1, To: 40, Proof: "purged, the log begins at 41"},
		{From: 100, To: 101, Proof: "deleted, as the server says"}, {From: 300, To: 300, Proof: "deleted, as the server says"},
	}
	if s.Missing != 43 || fmt.Sprint(s.Holes) != fmt.Sprint(want) {
		t.Fatalf("%+v", s)
	}
	out, _ := p.run(exitHeld, "verify")
	requireText(t, out, "is equal to the log")

	// While it follows.
	p.serve(p.store)
	p.write(2, 50)
	p.eventually("it is at 350", func() bool { return p.standing(exitHeld).Offset == 350 })
}

func TestAHoleThatIsNotProvenStops(t *testing.T) {
	p := newPlace(t)
	p.write(1, 50)
	w := &where{nats: p.server.ClientURL(), prefix: "loop"}
	src, err := w.open(t.Context(), env{strings.NewReader(""), &talk{}, &talk{}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	if err := p.stream().DeleteMsg(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if hole, err := src.prove(t.Context(), &eventlog.GapError{Stream: streamName, From: 20, To: 20}); err != nil || hole.To != 20 {
		t.Fatal(hole, err)
	}
	for _, gap := range []eventlog.GapError{{Stream: streamName, From: 20, To: 21}, {Stream: streamName, From: 5, To: 5}} {
		if hole, err := src.prove(t.Context(), &gap); err == nil {
			t.Fatalf("%+v was taken for proven, although the server has those messages", hole)
		}
	}
}
