package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
	"github.com/loopd/loopd/replay"
	"github.com/loopd/loopd/schemas"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// shapes are the schemas, compiled once.
var shapes = sync.OnceValues(schemas.Load)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a real log on a real server, and everything that was ever stored in
// it, in order.
type world struct {
	t      *testing.T
	ctx    context.Context
	server natsembed.Config
	ns     *natsembed.Server
	log    *eventlog.Log
	notes  *notes

	mu   sync.Mutex
	seen []event.Event
	more chan struct{} // closed and renewed when something is stored
}

// newWorld starts a server and follows its log. tune may change both.
func newWorld(t *testing.T, tune func(*natsembed.Config, *eventlog.Config)) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, server: natsembed.Config{Dir: t.TempDir()}, notes: &notes{}, more: make(chan struct{})}
	var logs eventlog.Config
	if tune != nil {
		tune(&w.server, &logs)
	}
	w.start()
	logs.URL = w.ns.ClientURL()
	l, err := eventlog.Open(ctx, logs)
	if err != nil {
		t.Fatal(err)
	}
	w.log = l
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_ = l.Follow(ctx, 1, w.note)
	}()
	t.Cleanup(func() {
		cancel()
		<-followed
		l.Close()
		w.ns.Shutdown()
		if t.Failed() {
			t.Log(w.notes.tail())
		}
	})
	return w
}

// start runs the server; again on the port that it had.
func (w *world) start() {
	w.t.Helper()
	ns, err := natsembed.Start(w.server)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ns, w.server.Port = ns, ns.Port()
}

func (w *world) note(rec event.Record) error {
	e, err := event.Decode(rec.Data)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, e)
	close(w.more)
	w.more = make(chan struct{})
	return nil
}

// events are the session's events that the tail has seen so far.
func (w *world) events(session string) []event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var of []event.Event
	for _, e := range w.seen {
		if e.SessionID == session {
			of = append(of, e)
		}
	}
	return of
}

// stored reads the session's events from the log itself.
func (w *world) stored(session string) []event.Event {
	w.t.Helper()
	var all []event.Event
	for rec, err := range w.log.Events(w.ctx, session) {
		if err != nil {
			w.t.Fatal(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// await waits until the session's events are such.
func (w *world) await(session, what string, such func([]event.Event) bool) []event.Event {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		w.mu.Lock()
		more := w.more
		w.mu.Unlock()
		all := w.events(session)
		if such(all) {
			return all
		}
		select {
		case <-more:
		case <-deadline.C:
			w.t.Fatalf("session %s: no %s; it has\n%s", session, what, outline(all))
		}
	}
}

// awaitN waits for the n-th event of a type.
func (w *world) awaitN(session string, typ event.Type, n int) []event.Event {
	w.t.Helper()
	return w.await(session, fmt.Sprintf("%d × %s", n, typ), func(all []event.Event) bool { return count(all, typ) >= n })
}

// awaitEnd waits until the input's generation ended in an idle session.
func (w *world) awaitIdle(session string, n int) []event.Event {
	w.t.Helper()
	return w.awaitN(session, event.TypeSessionIdle, n)
}

// send publishes an input as a host does and gives its place in the inbox.
func (w *world) send(session string, in event.Input) uint64 {
	w.t.Helper()
	return w.sendRaw(session, in.InputID, body(in))
}

func (w *world) sendRaw(session, id string, data []byte) uint64 {
	w.t.Helper()
	seq, err := w.log.SubmitPlain(w.ctx, session, id, data)
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

// say publishes a user's message.
func (w *world) say(session, id, text string) uint64 {
	w.t.Helper()
	return w.send(session, event.Input{InputID: id, Kind: event.KindUser, Text: text})
}

// audit holds the whole log against every rule.
func (w *world) audit() {
	w.t.Helper()
	set, err := shapes()
	if err != nil {
		w.t.Fatal(err)
	}
	for f, err := range replay.Audit(w.log.ReadAll(w.ctx, 1, 0), replay.Config{Validate: set.Event}) {
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Errorf("rule %s, session %s, sequence %d: %s", f.Rule, f.Session, f.Sequence, f.Message)
	}
}

// head is the number of stored events of the whole log.
func (w *world) head() uint64 {
	w.t.Helper()
	head, err := w.log.Head(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return head
}

// frames are the saved frames of an operation; they must be gapless.
func (w *world) frames(session, operation string) []event.Frame {
	w.t.Helper()
	var all []event.Frame
	for rec, err := range w.log.Frames(w.ctx, session, operation) {
		if err != nil {
			w.t.Fatal(err)
		}
		f, err := event.DecodeFrame(rec.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, f)
		if f.Seq != uint64(len(all)) || f.OperationID != operation || f.SessionID != session {
			w.t.Fatalf("frame %d of operation %s is %+v", len(all), operation, f)
		}
	}
	return all
}

// rig is a running runner.
type rig struct {
	w    *world
	r    *runner.Runner
	gone chan struct{} // closed when Run has returned
}

// run starts a runner with the fakes that tune sets; it claims what it needs.
func (w *world) run(p *provider, tune func(*runner.Config)) *rig {
	w.t.Helper()
	g := w.prepare(p, tune)
	g.start(true)
	return g
}

func (w *world) prepare(p *provider, tune func(*runner.Config)) *rig {
	w.t.Helper()
	cfg := runner.Config{
		Owner: "owner", Log: w.log, Provider: p, Loop: loop.Config{Tools: kit},
		Logger: slog.New(slog.NewTextHandler(w.notes, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Writer: func(session string, last uint64) runner.Appender { return w.log.Writer(session, last) },
	}
	if tune != nil {
		tune(&cfg)
	}
	if steering := cfg.Loop.Steering; steering == event.SteeringModeNative {
		cfg.Provider = steerer{p}
	}
	r, err := runner.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return &rig{w: w, r: r, gone: make(chan struct{})}
}

func (g *rig) start(claim bool) {
	go func() {
		defer close(g.gone)
		if err := g.r.Run(g.w.ctx, claim); err != nil {
			g.w.t.Error(err)
		}
	}()
	g.w.t.Cleanup(g.kill)
}

// kill ends the runner at once, and waits until nothing of it is left.
func (g *rig) kill() {
	g.r.Kill()
	<-g.gone
}

// close ends the runner in order, without a bound.
func (g *rig) close() {
	g.w.t.Helper()
	ctx, cancel := context.WithTimeout(g.w.ctx, patience)
	defer cancel()
	if err := g.r.Close(ctx); err != nil || ctx.Err() != nil {
		g.w.t.Fatalf("close: %v, %v", err, ctx.Err())
	}
	<-g.gone
}

// settled waits until the runner has nothing to do but to wait for the world.
func (g *rig) settled(inboxSeq uint64) {
	g.w.t.Helper()
	g.w.poll("the runner settles", func() bool { return g.r.Noticed() >= inboxSeq && g.r.Settled() })
}

// poll asks until it holds.
func (w *world) poll(what string, holds func() bool) {
	w.t.Helper()
	tick, deadline := time.NewTicker(2*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer deadline.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.t.Fatalf("in vain: %s", what)
		}
	}
}

// receive waits for a signal.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case v := <-c:
		return v
	case <-deadline.C:
		t.Fatalf("in vain: %s", what)
		panic("unreachable")
	}
}

// count counts events of a type.
func count(all []event.Event, typ event.Type) int {
	n := 0
	for _, e := range all {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// payloads are the payloads of one kind, in order.
func payloads[P event.Payload](all []event.Event) []P {
	var of []P
	for _, e := range all {
		if p, ok := e.Payload.(P); ok {
			of = append(of, p)
		}
	}
	return of
}

// last is the last payload of one kind.
func last[P event.Payload](t *testing.T, all []event.Event) P {
	t.Helper()
	of := payloads[P](all)
	if len(of) == 0 {
		var none P
		t.Fatalf("no %s in\n%s", none.Type(), outline(all))
	}
	return of[len(of)-1]
}

func outline(all []event.Event) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%4d epoch %d %s %.160s\n", e.Sequence, e.Epoch, e.Type, fmt.Sprintf("%+v", e.Payload))
	}
	return b.String()
}

// types are the types of events, in order.
func types(all []event.Event) []event.Type {
	var of []event.Type
	for _, e := range all {
		of = append(of, e.Type)
	}
	return of
}

// notes keeps what the runners logged.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notes) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Contains(n.b.Bytes(), []byte(text))
}

func (n *notes) tail() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := strings.Split(n.b.String(), "\n")
	return strings.Join(slices.Clone(lines[max(0, len(lines)-40):]), "\n")
}
