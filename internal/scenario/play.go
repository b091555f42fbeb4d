package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	providerscript "github.com/loopd/loopd/internal/provider/scripted"
	toolscript "github.com/loopd/loopd/internal/tool/scripted"
	"github.com/loopd/loopd/loop"
)

// A play is one performance of a scenario on a log.
type play struct {
	sc      *Scenario
	session string // the file's; another one in a round of crashes
	config  loop.Config
	log     *eventlog.Log
	logger  *slog.Logger

	ctx      context.Context // ends with the play
	end      context.CancelFunc
	stage    *stage
	clock    *clock
	names    *Names
	tail     *tail
	provider *providerscript.Provider
	tools    *toolscript.Tools
	views    *views

	cursor int  // events up to here were awaited; the host's alone
	rough  bool // a round of crashes: what the host cannot do is skipped
	sent   []submitted

	mu       sync.Mutex
	owners   []*owner
	holder   *owner // who claimed the session last
	head     uint64 // stream sequence of the last append that was acknowledged
	appends  []event.Type
	looks    map[string]int // look-ups of each operation that arrived
	crashAt  *crashAt
	crashes  []Point
	holds    []Hold
	reviving chan struct{} // closed when the owner that a round crashed runs again; nil = none crashed
	failures []Failure
}

// submitted is an input that the inbox holds.
type submitted struct {
	identity
	inboxSeq uint64
}

// crashAt is one crash of a round: at the n-th append, counted from 0.
type crashAt struct {
	number int
	when   string
}

func newPlay(ctx context.Context, sc *Scenario, log *eventlog.Log, session string, logger *slog.Logger) *play {
	p := &play{sc: sc, session: session, log: log, logger: logger, stage: newStage(), names: &Names{}, views: &views{}, looks: map[string]int{}}
	p.ctx, p.end = context.WithCancel(ctx)
	p.clock = newClock(p.stage)
	p.provider = providerscript.New(providerscript.Config{
		Entries: sc.Provider, Native: sc.Loop.Service.Native, Gates: p.stage,
		OnAsk: func(n int, req loop.Request) {
			for _, wrong := range sc.Requests[n].Check(req, sc.inputs, p.names) {
				p.fail(sc.Requests[n].Line, "request %d: %s", n+1, wrong)
			}
		},
		OnExcess: func(loop.Request) {
			p.fail(sc.ProviderLine, "a request beyond the last of the %d provider entries", len(sc.Provider))
		},
	})
	p.tools = toolscript.New(toolscript.Config{
		Entries: sc.Tools, Gates: p.stage,
		OnExcess: func(req loop.ToolRequest) {
			p.fail(sc.ToolLines[req.Tool], "tools: a call of %s beyond the last of its %d entries", req.Tool, len(sc.Tools[req.Tool]))
		},
	})
	p.config = sc.Loop
	p.config.Service = p.provider.Service()
	p.tail = newTail(session, sc.Session, p.config)
	return p
}

// newRound is a play of a round of crashes: what the file did not foresee is
// answered plainly, and only what the contract says must hold.
func newRound(ctx context.Context, sc *Scenario, log *eventlog.Log, session string, logger *slog.Logger, at crashAt) *play {
	p := newPlay(ctx, sc, log, session, logger)
	p.rough, p.crashAt = true, &at
	p.provider = providerscript.New(providerscript.Config{
		Entries: sc.Provider, Native: sc.Loop.Service.Native, Gates: p.stage,
		Excess: &providerscript.Entry{Frames: []providerscript.Frame{providerscript.Finish{Reason: "stop"}}},
	})
	p.tools = toolscript.New(toolscript.Config{Entries: sc.Tools, Gates: p.stage, Excess: &toolscript.Entry{Result: "ok"}})
	return p
}

// fail notes what did not hold.
func (p *play) fail(line int, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, Failure{Line: line, Msg: fmt.Sprintf(format, args...)})
}

// perform runs the host to its last step and waits until nothing moves without
// it. The events are those of the log then.
func (p *play) perform() []seen {
	var following sync.WaitGroup
	following.Go(func() { p.tail.follow(p.ctx, p.log, p.session) })
	defer following.Wait()
	defer p.leave()
	if err := p.start(defaultOwner, true); err != nil {
		p.fail(0, "start %s: %v", defaultOwner, err)
		return nil
	}
	for _, step := range p.sc.Host {
		err := p.do(step.Do)
		if err == nil {
			err = p.catchUp()
		}
		if err == nil || p.rough && p.ctx.Err() == nil {
			continue
		}
		p.fail(step.Line, "%v", err)
		break
	}
	if p.rough {
		p.replace()
	}
	if err := p.settle(); err != nil {
		p.fail(0, "the end: %v", err)
	}
	if p.rough {
		p.outwait()
	}
	log, _, err := p.tail.events()
	if err != nil {
		p.fail(0, "%v", err)
	}
	return log
}

// replace starts an owner where none is left: a crash of the file's own may
// have come later than in the file, after the start that was meant for it.
func (p *play) replace() {
	if err := p.settle(); err != nil {
		p.fail(0, "the end: %v", err)
		return
	}
	p.mu.Lock()
	p.crashes, p.holds = nil, nil
	left := slices.ContainsFunc(p.living(), func(o *owner) bool { return (o.claims || o == p.holder) && !o.fenced })
	p.mu.Unlock()
	if left {
		return
	}
	if err := p.start(defaultOwner, true); err != nil {
		p.fail(0, "start %s: %v", defaultOwner, err)
	}
}

// outwait lets time pass while an original is pending: the look-ups that are
// due then must not be forgotten.
func (p *play) outwait() {
	for range 3 {
		state, _ := p.tail.folded()
		if loop.Next(state, p.tick()).WakeAt.IsZero() {
			return
		}
		if err := p.clock.advance(2*time.Minute, p.settle); err != nil {
			p.fail(0, "the end: %v", err)
			return
		}
	}
}

// leave ends every owner, and the play.
func (p *play) leave() {
	p.mu.Lock()
	owners, reviving := p.owners, p.reviving
	p.mu.Unlock()
	if reviving != nil {
		<-reviving
		p.mu.Lock()
		owners = p.owners
		p.mu.Unlock()
	}
	for _, o := range owners {
		p.kill(o)
	}
	p.end()
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for _, o := range owners {
		select {
		case <-o.gone:
		case <-timeout.C:
			p.fail(0, "owner %s does not end within %v after it was killed", o.name, leaveTimeout)
			return
		}
	}
}

// Bounds of what a play waits for, in real time.
const (
	settleTimeout = 10 * time.Second
	leaveTimeout  = 5 * time.Second
)

// tick is the loop's time in this play; the ids are never used.
func (p *play) tick() loop.Tick {
	return loop.Tick{Now: p.clock.Now(), IDs: [2]string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"}}
}

// settle waits until nothing moves without the host.
func (p *play) settle() error {
	deadline := time.NewTimer(settleTimeout)
	defer deadline.Stop()
	for {
		why := p.unsettled()
		if why == "" {
			return nil
		}
		if err := p.pause(deadline.C); err != nil {
			return fmt.Errorf("it does not come to rest within %v: %s", settleTimeout, why)
		}
	}
}

// pollInterval is how often a play looks whether something has come to rest
// that cannot tell so itself.
const pollInterval = 500 * time.Microsecond

// pause waits for the next event, or a moment.
func (p *play) pause(deadline <-chan time.Time) error {
	_, more, err := p.tail.events()
	if err != nil {
		return err
	}
	moment := time.NewTimer(pollInterval)
	defer moment.Stop()
	select {
	case <-more:
	case <-moment.C:
	case <-deadline:
		return context.DeadlineExceeded
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	return nil
}

// unsettled says what still moves, or "". Whether something moves follows from
// the log: what the loop would do next, and whether each effect that it wants
// already waits at a gate. The stage and the owners add what is on its way.
func (p *play) unsettled() string {
	moves, still := p.stage.still()
	if !still {
		return "a call is under way"
	}
	state, last := p.tail.folded()
	p.mu.Lock()
	head, holder := p.head, p.holder
	held := holder != nil && holder.held > 0
	alive := holder != nil && !holder.dead
	claiming := alive
	var working []*owner
	for _, o := range p.living() {
		held = held || o.held > 0
		if !o.fenced {
			claiming = claiming || o.claims
			working = append(working, o)
		}
	}
	p.mu.Unlock()
	switch {
	case last < head:
		return "the log is not read to its end"
	case held || !claiming:
		return ""
	}
	for _, s := range p.sent {
		if s.inboxSeq > state.InboxSeq && !p.tail.answered(s.id, s.digest) {
			return fmt.Sprintf("input %s is not taken from the inbox", s.id)
		}
	}
	if why := p.wanted(state, alive); why != "" {
		return why
	}
	for _, o := range working {
		if !o.runner.Settled() {
			return "owner " + o.name + " works"
		}
	}
	if again, still := p.stage.still(); !still || again != moves {
		return "a call has begun"
	}
	if _, now := p.tail.folded(); now != last {
		return "an event has come"
	}
	return ""
}

// wanted says what the loop wants done that nobody waits with.
func (p *play) wanted(state loop.State, alive bool) string {
	if !alive {
		return ""
	}
	plan := loop.Next(state, p.tick())
	if plan.Record {
		return "the loop has a fact to record"
	}
	for _, e := range plan.Effects {
		name := e.Key()
		if job, ok := e.(loop.RunJob); ok {
			name = loop.Invoke{Request: job.Request}.Key()
		}
		if !p.stage.rests(name) {
			return "the loop wants: " + e.Key()
		}
	}
	return ""
}

// living are the owners that are not dead; p.mu is held.
func (p *play) living() []*owner {
	var alive []*owner
	for _, o := range p.owners {
		if !o.dead {
			alive = append(alive, o)
		}
	}
	return alive
}
