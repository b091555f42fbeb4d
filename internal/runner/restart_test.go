package runner_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the rounds of kills; 0 = by the time")
	rounds   = flag.Int("rounds", 200, "rounds of kills")
)

// TestKilledAnywhere: an owner that dies at any append, before or after it is
// stored, is followed by one that goes on: no request and no write is made
// twice, no rule is broken, every input comes to its end.
func TestKilledAnywhere(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	w := newWorld(t, nil)
	for n := range *rounds {
		w.killRound(fmt.Sprintf("r%d", n), rand.New(rand.NewPCG(seed, uint64(n))))
		if t.Failed() {
			t.Fatalf("round %d of seed %d", n, seed)
		}
	}
	w.audit()
}

// steerMidway makes the provider get an input in the middle of its first
// answer.
func (w *world) steerMidway(session string, p *provider, answer loop.SteerAnswer) {
	var once sync.Once
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		once.Do(func() {
			if _, err := w.log.SubmitPlain(w.ctx, session, "midway", body(event.Input{InputID: "midway", Kind: event.KindSteer, Text: "call write"})); err != nil {
				w.t.Error(err)
			}
		})
		return p.converse(req, out)
	}
	p.steer = func(context.Context, string, event.Input) loop.SteerAnswer { return answer }
}

// script is what a round sends: each is a user's message unless it says more.
var script = []event.Input{
	{Text: "hello"}, {Text: "call look"}, {Text: "call write"}, {Text: "call look, write, look"}, {Text: "cut"},
	{Text: "call job"}, {Text: "call write, job"}, {Text: "call ask"}, {Text: "call ask, write, look"}, {Kind: event.KindSteer, Text: "so"}, {Kind: event.KindService, Source: "clock", Text: "noon"},
	{Kind: event.KindInterrupt}, {Kind: event.KindWithdraw, Target: "i0"}, {Kind: event.KindUser, Text: " "},
}

func (w *world) killRound(session string, rnd *rand.Rand) {
	w.t.Helper()
	p, s := newProvider(), newWorkshop()
	kills, n := 1+rnd.IntN(3), 1+rnd.IntN(3)
	sent := uint64(0)
	for i := range n {
		in := script[rnd.IntN(len(script))]
		in.InputID = fmt.Sprintf("i%d", i)
		if in.Kind == "" {
			in.Kind = event.KindUser
		}
		sent = w.send(session, in)
	}
	native := rnd.IntN(2) == 0
	w.steerMidway(session, p, loop.SteerAnswer(rnd.IntN(3)))
	for range kills {
		k := &killer{at: 1 + rnd.IntN(12), way: rnd.IntN(3), done: make(chan struct{})}
		g := w.prepareFor(session, p, s, k, native)
		k.kill = g.r.Kill
		g.start(true)
		w.poll("the kill, or the end", func() bool { return k.dead() || g.r.Noticed() >= sent && g.r.Settled() })
		if k.way == killNever { // the next one takes the session over from a living owner
			defer g.kill()
		} else {
			g.kill()
		}
	}
	g := w.prepareFor(session, p, s, nil, native)
	g.start(true)
	w.reconcile(session, g, sent)
	w.send(session, event.Input{InputID: "end", Kind: event.KindStop})
	all := w.awaitN(session, event.TypeSessionClosed, 1)
	g.close()
	if id, times := p.mostAsked(); times > 1 {
		w.t.Errorf("operation %s was requested %d times\n%s", id, times, outline(all))
	}
	if twice := s.repeated(); len(twice) > 0 {
		w.t.Errorf("writes ran again: %v\n%s", twice, outline(all))
	}
	for i := range n {
		id := fmt.Sprintf("i%d", i)
		answers := 0
		for _, a := range payloads[event.InputAccepted](all) {
			answers += strings.Count(a.InputID, id)
		}
		for _, r := range payloads[event.InputRejected](all) {
			answers += strings.Count(r.InputID, id)
		}
		if answers != 1 {
			w.t.Errorf("input %s is answered %d times\n%s", id, answers, outline(all))
		}
	}
}

// reconcile waits until nothing is open, and decides what waits for a person
// on the way.
func (w *world) reconcile(session string, g *rig, sent uint64) {
	w.t.Helper()
	decided := map[string]bool{}
	decide := func(prefix string, in event.Input) {
		in.InputID, in.Kind = prefix+in.Target, event.KindDecision
		if !decided[in.InputID] {
			decided[in.InputID] = true
			sent = w.send(session, in)
		}
	}
	w.poll("rest", func() bool {
		if g.r.Noticed() < sent || !g.r.Settled() {
			return false
		}
		before, open, jobs := sent, 0, 0
		for _, e := range w.stored(session) {
			switch f := e.Payload.(type) {
			case event.GenerationStarted:
				open++
			case event.GenerationFinished, event.GenerationFailed, event.GenerationDetached:
				open--
			case event.JobQueued:
				jobs++
			case event.JobReturned, event.JobFailed, event.JobCancelled, event.JobRecovered:
				jobs--
			case event.InvocationUncertain:
				decide("d-", event.Input{Target: f.InvocationID, Verdict: event.VerdictReconciled, Text: "as it is"})
			case event.InvocationAwaitingApproval:
				decide("a-", event.Input{Target: f.InvocationID, Verdict: event.VerdictApprove, InputDigest: f.InputDigest})
			}
		}
		return open == 0 && jobs == 0 && sent == before
	})
}

// killer kills its runner at the n-th append.
type killer struct {
	at   int
	way  int // one of the kill constants
	kill func()
	done chan struct{}
	once sync.Once

	mu sync.Mutex
	n  int
}

// When an owner is killed: before its append is stored, after it, or not at all,
// but followed.
const (
	killBefore = iota
	killAfter
	killNever
)

func (k *killer) dead() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// now counts an append and tells whether it is the one.
func (k *killer) now() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	return k.n == k.at
}

func (k *killer) strike() error {
	k.once.Do(func() {
		if k.way != killNever {
			k.kill()
		}
		close(k.done)
	})
	return errors.New("killed")
}

type mortal struct {
	runner.Appender
	killer *killer
}

func (m mortal) Append(ctx context.Context, e event.Event) (uint64, error) {
	now := m.killer.now()
	if now && m.killer.way == killBefore {
		return 0, m.killer.strike()
	}
	seq, err := m.Appender.Append(ctx, e)
	if now {
		if died := m.killer.strike(); m.killer.way == killAfter {
			return 0, died
		}
	}
	return seq, err
}

// prepareFor is a runner that knows one session of the log alone.
func (w *world) prepareFor(session string, p *provider, s *workshop, k *killer, native bool) *rig {
	w.t.Helper()
	return w.prepare(p, func(c *runner.Config) {
		c.Tools, c.Log = s, onlySession{c.Log, session}
		c.Loop.Timeouts.PollMin = time.Millisecond
		if native {
			c.Loop.Steering = event.SteeringModeNative
		}
		if k != nil {
			writer := c.Writer
			c.Writer = func(session string, last uint64) runner.Appender { return mortal{writer(session, last), k} }
		}
	})
}

// onlySession is the log as if it held one session.
type onlySession struct {
	runner.Log
	session string
}

func (l onlySession) Sessions(ctx context.Context) ([]string, error) {
	all, err := l.Log.Sessions(ctx)
	return slices.DeleteFunc(all, func(id string) bool { return id != l.session }), err
}

func (l onlySession) WatchInputs(ctx context.Context, notify func(string, uint64)) error {
	return l.Log.WatchInputs(ctx, func(session string, seq uint64) {
		if session == l.session {
			notify(session, seq)
		}
	})
}

// TestFencedOwnerStops: another owner takes a session over while an operation
// runs. The old one's call ends, it appends nothing more there, and its other
// sessions go on.
func TestFencedOwnerStops(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	begun, ended := make(chan struct{}), make(chan error, 1)
	p.answer = func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		if lastHeard(req).Text != "hang" {
			return p.converse(req, out)
		}
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return loop.Uncertain{Reason: event.UnknownCancelled}
	}
	p.inspect = func(context.Context, loop.Request) loop.Inspection {
		return loop.Inspection{Observed: event.ObservedMissing}
	}
	w.run(p, func(c *runner.Config) { c.Owner = "old" })
	w.say("s", "i1", "hang")
	w.say("other", "o1", "hello")
	receive(t, "the request", begun)
	w.awaitIdle("other", 1)
	taker := w.prepare(p, func(c *runner.Config) { c.Owner = "new" })
	taker.start(false)
	if err := taker.r.Claim(w.ctx, "s"); err != nil {
		t.Fatal(err)
	}
	all := w.awaitIdle("s", 1)
	if d := last[event.GenerationDetached](t, all); d.Reason != event.DetachedOwnerLost {
		t.Errorf("detached: %+v", d)
	}
	// The old owner meets the fence at its next append.
	w.say("s", "i2", "hello")
	receive(t, "the end of the old owner's call", ended)
	w.awaitN("s", event.TypeGenerationFinished, 1)
	w.say("other", "o2", "still here?")
	w.awaitIdle("other", 2)
	w.awaitIdle("s", 2)
	if _, times := p.mostAsked(); times != 1 {
		t.Errorf("an operation was requested %d times", times)
	}
	if !w.notes.has("another owner has taken the session over") {
		t.Error("the old owner does not say why it stops")
	}
	w.audit()
}

// TestClaimAgainAfterALostRace: whoever lost the race for an epoch can claim
// the session anew, with what the other one appended.
func TestClaimAgainAfterALostRace(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	a, b := w.prepare(p, nil), w.prepare(p, nil)
	a.start(false)
	b.start(false)
	for i := range 4 { // each claim makes the other's state stale
		for _, g := range []*rig{a, b} {
			err := g.r.Claim(w.ctx, "s")
			if errors.Is(err, event.ErrFenced) {
				err = g.r.Claim(w.ctx, "s")
			}
			if err != nil {
				t.Fatalf("claim %d: %v", i, err)
			}
		}
	}
	if n := count(w.awaitN("s", event.TypeSessionClaimed, 8), event.TypeSessionClaimed); n != 8 {
		t.Errorf("%d claims are stored", n)
	}
	w.audit()
}

// TestSuccessorThatLostARace: a process that was started before its
// predecessor closed, and knows an old state, serves the session afterwards.
func TestSuccessorThatLostARace(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	old := w.run(p, nil)
	sent := w.say("s", "i1", "hello")
	w.awaitIdle("s", 1)
	gate := make(chan struct{})
	successor := w.run(p, func(c *runner.Config) {
		writer := c.Writer
		c.Writer = func(session string, last uint64) runner.Appender { return gated{writer(session, last), gate} }
	})
	successor.settled(sent)
	w.say("s", "i2", "hello again")
	w.awaitIdle("s", 2)
	old.close()
	close(gate)
	w.poll("the successor has lost the race", func() bool { return w.notes.has("another owner was faster") })
	w.say("s", "i3", "and now?")
	all := w.awaitIdle("s", 3)
	if f := last[event.GenerationFinished](t, all); f.Text != "re: and now?" || all[len(all)-1].Epoch != 2 {
		t.Errorf("finished: %+v", f)
	}
	w.audit()
}

// gated appends nothing before its gate opens.
type gated struct {
	runner.Appender
	gate chan struct{}
}

func (g gated) Append(ctx context.Context, e event.Event) (uint64, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return g.Appender.Append(ctx, e)
}

// TestRestartWithNothingToDo appends nothing, not even a claim.
func TestRestartWithNothingToDo(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	g := w.run(p, nil)
	w.say("idle", "i1", "hello")
	w.say("closed", "i1", "hello")
	w.awaitIdle("idle", 1)
	w.awaitIdle("closed", 1)
	sent := w.send("closed", event.Input{InputID: "i2", Kind: event.KindStop})
	w.awaitN("closed", event.TypeSessionClosed, 1)
	g.close()
	before := w.head()
	g = w.run(p, nil)
	g.settled(sent)
	// The same inputs again, and one that was refused before, change nothing.
	w.say("idle", "i1", "hello")
	w.say("closed", "i1", "hello")
	sent = w.send("closed", event.Input{InputID: "i2", Kind: event.KindStop})
	g.settled(sent)
	if head := w.head(); head != before {
		t.Errorf("%d events are new:\n%s\n%s", head-before, outline(w.events("idle")), outline(w.events("closed")))
	}
	w.say("closed", "i3", "too late")
	all := w.awaitN("closed", event.TypeInputRejected, 1)
	if r := last[event.InputRejected](t, all); r.Reason != event.RejectSessionClosed || r.Hint == "" {
		t.Errorf("rejected: %+v", r)
	}
	before = w.head()
	g.settled(w.say("closed", "i3", "too late"))
	if head := w.head(); head != before {
		t.Errorf("a refused input again appends %d events", head-before)
	}
	w.audit()
}

// TestManySessions run side by side.
func TestManySessions(t *testing.T) {
	w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
	g := w.run(p, func(c *runner.Config) { c.Tools = s })
	const sessions, inputs = 200, 3
	name := func(n int) string { return fmt.Sprintf("s%d", n) }
	for i := range inputs {
		for n := range sessions {
			w.say(name(n), fmt.Sprintf("i%d", i), []string{"hello", "call look, write", "cut"}[(i+n)%3])
		}
	}
	for n := range sessions {
		all := w.await(name(n), "answers", func(all []event.Event) bool {
			delivered := count(all, event.TypeInputDelivered)
			return delivered == inputs && all[len(all)-1].Type == event.TypeSessionIdle
		})
		if epoch := all[len(all)-1].Epoch; epoch != 1 {
			t.Errorf("session %s is in epoch %d", name(n), epoch)
		}
	}
	g.close()
	if _, times := p.mostAsked(); times != 1 || len(s.repeated()) != 0 {
		t.Errorf("an operation was requested %d times; repeated: %s", times, strings.Join(s.repeated(), ", "))
	}
	w.audit()
}
