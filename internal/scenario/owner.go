package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// An owner is one runner of the play, and the points that its appends pass.
type owner struct {
	name   string
	claims bool // it claims what it needs
	runner *runner.Runner
	ctx    context.Context // ends when the owner does
	end    context.CancelFunc
	gone   chan struct{} // closed when its Run has returned

	appends sync.WaitGroup // under way

	// Guarded by play.mu.
	dead   bool
	fenced bool // another one has the session; what it still does for it is nobody's
	held   int  // holds that it stands at
}

var errDead = errors.New("scenario: the owner is dead")

// start runs a new owner; claims = it claims what it needs, and first of all
// the session, if there is one.
func (p *play) start(name string, claims bool) error {
	p.mu.Lock()
	opened := p.head > 0
	p.mu.Unlock()
	if claims && opened {
		// Before Run, which would claim by itself what has work, and once only.
		return p.takeOver(name, claims)
	}
	o, err := p.newOwner(name, claims)
	if err != nil {
		return err
	}
	p.run(o)
	return nil
}

// takeOver makes a new owner that begins with a claim. Whoever loses the race
// for an epoch has lost the session; it comes back and tries again, as a
// process does that is started again.
func (p *play) takeOver(name string, claims bool) error {
	for attempt := 1; ; attempt++ {
		o, err := p.newOwner(name, claims)
		if err != nil {
			return err
		}
		err = p.claim(o)
		if err == nil || !errors.Is(err, event.ErrFenced) || attempt == maxClaims {
			p.run(o)
			return err
		}
		p.kill(o)
		close(o.gone)
	}
}

// maxClaims bounds how often a claim is tried against others' appends.
const maxClaims = 20

func (p *play) newOwner(name string, claims bool) (*owner, error) {
	o := &owner{name: name, claims: claims, gone: make(chan struct{})}
	o.ctx, o.end = context.WithCancel(p.ctx)
	set, err := loadSchemas()
	if err != nil {
		return nil, err
	}
	r, err := runner.New(runner.Config{
		Owner: name, Validate: set.Input, Loop: p.config, Log: onlySession{p.log, p.session}, Clock: p.clock, Logger: p.logger,
		Writer:   func(session string, last uint64) runner.Appender { return appender{p.log.Writer(session, last), p, o} },
		Provider: p.connect(), Tools: tools{p},
	})
	if err != nil {
		return nil, err
	}
	o.runner = r
	p.mu.Lock()
	p.owners = append(p.owners, o)
	p.mu.Unlock()
	return o, nil
}

func (p *play) run(o *owner) {
	go func() {
		defer close(o.gone)
		if err := o.runner.Run(o.ctx, o.claims); err != nil && o.ctx.Err() == nil {
			p.logger.Warn("an owner ended", "owner", o.name, "error", err)
		}
	}()
}

// claim makes an owner take the session over.
func (p *play) claim(o *owner) error {
	p.stage.enter()
	defer p.stage.exit()
	if err := o.runner.Claim(o.ctx, p.session); err != nil {
		return fmt.Errorf("owner %s does not get the session: %w", o.name, err)
	}
	return nil
}

// kill ends an owner as kill -9 does. It may be called from within one of its
// appends.
func (p *play) kill(o *owner) {
	p.mu.Lock()
	o.dead = true
	p.mu.Unlock()
	o.runner.Kill()
	o.end()
}

// owner is the living owner of that name, nil if there is none.
func (p *play) owner(name string) *owner {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.owners {
		if o.name == name && !o.dead {
			return o
		}
	}
	return nil
}

// appender lets a session's appends pass the points of the play.
type appender struct {
	runner.Appender
	play  *play
	owner *owner
}

// Append passes before, stores, and passes stored and after. Whoever is killed
// at one of them gets an error: what it appended it will never know.
func (a appender) Append(ctx context.Context, e event.Event) (uint64, error) {
	a.owner.appends.Add(1)
	defer a.owner.appends.Done()
	t := e.Payload.Type()
	number := a.play.number(t)
	if err := a.play.pass(a.owner, number, Point{Before, t}); err != nil {
		return 0, err
	}
	// What is on its way to the server arrives, whoever is killed meanwhile.
	seq, err := a.Appender.Append(context.WithoutCancel(ctx), e)
	if err != nil {
		a.play.lost(a.owner, err)
		return 0, err
	}
	a.play.stored(a.owner, t, seq)
	for _, when := range []string{Stored, After} {
		if err := a.play.pass(a.owner, number, Point{when, t}); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// number counts the appends of a play, and notes their types.
func (p *play) number(t event.Type) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.appends = append(p.appends, t)
	return len(p.appends) - 1
}

// stored notes how far the log must be read before anything is judged, and who
// has the session.
func (p *play) stored(o *owner, t event.Type, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.head = max(p.head, seq)
	if t == event.TypeSessionClaimed {
		p.holder, o.fenced = o, false
	}
}

// lost notes that an owner has met the fence.
func (p *play) lost(o *owner, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.fenced = o.fenced || errors.Is(err, event.ErrFenced)
}

// pass stops or kills an owner where the host, or the round of crashes, wants
// it.
func (p *play) pass(o *owner, number int, at Point) error {
	p.mu.Lock()
	if o.dead {
		p.mu.Unlock()
		return errDead
	}
	gate, held := p.takeHold(at)
	if held {
		o.held++
	}
	p.mu.Unlock()

	if held {
		p.stage.enter()
		err := p.stage.Wait(o.ctx, gate)
		p.stage.exit()
		p.mu.Lock()
		o.held--
		p.mu.Unlock()
		if err != nil {
			return errDead
		}
	}
	if die, again := p.takeCrash(number, at); die {
		if again {
			p.revive(o)
		} else {
			p.kill(o)
		}
		return errDead
	}
	return nil
}

// takeHold disarms the first hold at a point; p.mu is held.
func (p *play) takeHold(at Point) (gate string, ok bool) {
	for i, h := range p.holds {
		if h.At == at {
			p.holds = append(p.holds[:i:i], p.holds[i+1:]...)
			return h.Until, true
		}
	}
	return "", false
}

// takeCrash disarms the first crash at a point; again = the owner is started
// again at once, as a round of crashes does.
func (p *play) takeCrash(number int, at Point) (die, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.crashAt; c != nil && c.number == number && c.when == at.When {
		p.crashAt = nil
		return true, true
	}
	for i, armed := range p.crashes {
		if armed == at {
			p.crashes = append(p.crashes[:i:i], p.crashes[i+1:]...)
			return true, false
		}
	}
	return false, false
}

// revive kills an owner and starts it again. The stage is not still before it
// is done.
func (p *play) revive(o *owner) {
	p.stage.enter()
	p.kill(o)
	done := make(chan struct{})
	p.mu.Lock()
	p.reviving = done
	p.mu.Unlock()
	go func() {
		defer p.stage.exit()
		defer close(done)
		if err := p.start(o.name, true); err != nil && p.ctx.Err() == nil {
			p.fail(0, "start %s after its crash: %v", o.name, err)
		}
	}()
}

// onlySession is the log as if it held one session: the plays of a round of
// crashes share their streams and must not see each other.
type onlySession struct {
	*eventlog.Log
	session string
}

func (l onlySession) Sessions(ctx context.Context) ([]string, error) {
	ids, err := l.Log.Sessions(ctx)
	return slices.DeleteFunc(ids, func(id string) bool { return id != l.session }), err
}

func (l onlySession) WatchInputs(ctx context.Context, notify func(session string, inboxSeq uint64)) error {
	return l.Log.WatchInputs(ctx, func(session string, seq uint64) {
		if session == l.session {
			notify(session, seq)
		}
	})
}

// tracked is the scripted provider as an owner reaches it: every call of it is
// known to the stage.
type tracked struct{ p *play }

// native is tracked for a provider that takes steering.
type native struct{ tracked }

func (p *play) connect() runner.Provider {
	if p.provider.Service().Native {
		return native{tracked{p}}
	}
	return tracked{p}
}

func (t tracked) Service() loop.Service { return t.p.provider.Service() }

func (t tracked) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	t.p.stage.enter()
	defer t.p.stage.exit()
	return t.p.provider.Generate(named(ctx, loop.Call{OperationID: req.OperationID}.Key()), req, out)
}

// Inspect is under way until ctx ends, which a runner sees to when it has noted
// the answer: one that a person asked for is in no plan of the loop, and would
// otherwise be lost from sight on its way back.
func (t tracked) Inspect(ctx context.Context, req loop.Request) loop.Inspection {
	t.p.stage.enter()
	context.AfterFunc(ctx, t.p.stage.exit)
	found := t.p.provider.Inspect(ctx, req)
	t.p.mu.Lock()
	t.p.looks[req.OperationID]++
	t.p.mu.Unlock()
	return found
}

func (n native) Steer(ctx context.Context, operationID string, in event.Input) loop.SteerAnswer {
	n.p.stage.enter()
	defer n.p.stage.exit()
	return n.p.provider.Steer(named(ctx, loop.Steer{Input: in}.Key()), operationID, in)
}

// tools are the scripted tools as an owner reaches them.
type tools struct{ p *play }

func (t tools) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	t.p.stage.enter()
	defer t.p.stage.exit()
	return t.p.tools.Call(named(ctx, loop.Invoke{Request: req}.Key()), req)
}

func (t tools) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	t.p.stage.enter()
	defer t.p.stage.exit()
	return t.p.tools.Inspect(ctx, req)
}
