package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/loop"
	"github.com/loopd/loopd/replay"
	"github.com/loopd/loopd/schemas"
)

// Options say how scenarios are run; the zero value is usable.
type Options struct {
	Jsonl      io.Writer    // gets every event of the log, a line each; nil = nobody does
	Table      io.Writer    // gets the log as a person reads it; nil = nobody does
	EveryCrash bool         // play again with a crash at each append
	KeepDir    string       // keep the server's data here; "" = a directory that is removed
	Log        *slog.Logger // nil = discarded
}

// A Report is what a run found. It passed if there are no failures.
type Report struct {
	Failures []Failure
	Events   int // of the log
	Crashes  int // plays with a crash
}

// Run plays a scenario and checks it. What does not hold is in the report; an
// error means that it could not be played.
func Run(ctx context.Context, sc *Scenario, o Options) (Report, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	judge, err := newJudge()
	if err != nil {
		return Report{}, err
	}
	h, err := openHouse(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer h.close()
	p := newPlay(ctx, sc, h.log, sc.Session, o.Log)
	log := p.perform()
	defer func() { _ = p.views.close() }() // it lies in memory
	report := Report{Events: len(log), Failures: append(p.failures, p.check(log)...)}
	report.Failures = append(report.Failures, judge.audit(log)...)
	if err := show(o, sc, log, p.names); err != nil {
		return report, err
	}
	if !o.EveryCrash {
		return report, ctx.Err()
	}
	found := rounds(ctx, h.log, sc, judge, o, p.appends)
	report.Crashes = 3 * len(p.appends)
	report.Failures = append(report.Failures, found...)
	return report, ctx.Err()
}

// rounds plays the scenario once for each append and each of its three points,
// several at a time: they share a server and nothing else.
func rounds(ctx context.Context, log *eventlog.Log, sc *Scenario, judge *judge, o Options, appends []event.Type) []Failure {
	whens := []string{Before, After, Stored}
	found := make([][]Failure, len(appends)*len(whens))
	var playing sync.WaitGroup
	free := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for i := range found {
		free <- struct{}{}
		playing.Go(func() {
			defer func() { <-free }()
			if ctx.Err() == nil {
				number := i / len(whens)
				found[i] = round(ctx, log, sc, judge, o, crashAt{number, whens[i%len(whens)]}, appends[number])
			}
		})
	}
	playing.Wait()
	return slices.Concat(found...)
}

// round plays a scenario once with a crash, in a session of its own.
func round(ctx context.Context, log *eventlog.Log, sc *Scenario, judge *judge, o Options, at crashAt, t event.Type) []Failure {
	session := fmt.Sprintf("%s-%d-%s", sc.Session, at.number, at.when)
	p := newRound(ctx, sc, log, session, o.Log, at)
	events := p.perform()
	found := append(p.failures, judge.audit(events)...)
	found = append(found, p.upper()...)
	if why := p.stuck(); why != "" {
		found = append(found, Failure{Msg: "the session is stuck: " + why})
	}
	for i := range found {
		found[i].Msg = fmt.Sprintf("crash %s:%s (append %d, kept as session %s): %s", at.when, t, at.number+1, session, found[i].Msg)
	}
	return found
}

// check is everything that the file expects of the end.
func (p *play) check(log []seen) []Failure {
	out := p.sc.check(log, p.names)
	ran := p.tools.Effects()
	for _, e := range p.sc.Effects {
		if ran[e.Tool] != e.N {
			out = append(out, Failure{Line: e.Line, Msg: fmt.Sprintf("effects: %s ran %d times, not %d", e.Tool, ran[e.Tool], e.N)})
		}
	}
	if asked := p.provider.Requests(); p.sc.Asked != nil && asked != p.sc.Asked.N {
		out = append(out, Failure{Line: p.sc.Asked.Line, Msg: fmt.Sprintf("requests: the provider was asked %d times, not %d", asked, p.sc.Asked.N)})
	}
	return append(out, p.checkRows(log)...)
}

// upper holds what a round of crashes may not exceed: a write runs at most as
// often as without a crash.
func (p *play) upper() []Failure {
	var out []Failure
	ran := p.tools.Effects()
	for _, e := range p.sc.Effects {
		effect := p.sc.Loop.Tools[e.Tool].Effect
		if (effect == "" || effect == event.EffectWrite) && ran[e.Tool] > e.N {
			out = append(out, Failure{Line: e.Line, Msg: fmt.Sprintf("effects: %s ran %d times, at most %d are right", e.Tool, ran[e.Tool], e.N)})
		}
	}
	return out
}

// stuck says why a session that has come to rest will never go on, or "". It
// may wait for a person, for time, or at a gate that the host does not open.
func (p *play) stuck() string {
	state, _ := p.tail.folded()
	switch {
	case state.Phase == loop.PhaseBroken:
		return "it is broken: " + state.Broken
	case state.Phase == loop.PhaseNew && len(p.sent) == 0, state.Phase == loop.PhaseClosed:
		return ""
	case state.Phase != loop.PhaseOpen:
		return "it is " + state.Phase.String()
	case len(state.Commands) > 0:
		return "command " + state.Commands[0].InputID + " has no effect"
	}
	plan := loop.Next(state, p.tick())
	if plan.Record {
		return "a fact is not recorded"
	}
	if g := state.Generation; g != nil {
		waits := !plan.WakeAt.IsZero() || len(plan.Effects) > 0
		for _, v := range g.Invocations {
			waits = waits || v.Phase == loop.InvocationAwaiting || v.Phase == loop.InvocationUncertain
		}
		if !waits {
			return "generation " + g.ID + " is open and waits for nothing"
		}
		return ""
	}
	for _, in := range state.Inputs {
		if in.Pending() {
			return "input " + in.InputID + " waits, and no generation is open"
		}
	}
	return ""
}

// house is a server with an empty log.
type house struct {
	server *natsembed.Server
	log    *eventlog.Log
	remove string // the directory to remove; "" = it is kept
}

func openHouse(ctx context.Context, o Options) (*house, error) {
	h := &house{}
	dir := o.KeepDir
	if dir == "" {
		temp, err := os.MkdirTemp("", "loopd-scenario-")
		if err != nil {
			return nil, fmt.Errorf("scenario: make a directory for the log: %w", err)
		}
		dir, h.remove = temp, temp
	}
	var err error
	if h.server, err = natsembed.Start(natsembed.Config{Dir: filepath.Join(dir, "nats"), Logger: o.Log}); err != nil {
		h.close()
		return nil, err
	}
	h.log, err = eventlog.Open(ctx, eventlog.Config{InProcess: h.server, URL: h.server.ClientURL(), Logger: o.Log})
	if err != nil {
		h.close()
		return nil, err
	}
	head, err := h.log.Head(ctx)
	if err == nil && head > 0 {
		err = fmt.Errorf("scenario: %s holds a log of %d events; a scenario begins with an empty one: choose another directory", dir, head)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *house) close() {
	if h.log != nil {
		h.log.Close()
	}
	if h.server != nil {
		h.server.Shutdown()
	}
	if h.remove != "" {
		_ = os.RemoveAll(h.remove) // a leftover in the system's temporary directory harms nobody
	}
}

// judge audits logs; compiling the schemas takes its time, once.
type judge struct{ schemas *schemas.Set }

var loadSchemas = sync.OnceValues(schemas.Load)

func newJudge() (*judge, error) {
	set, err := loadSchemas()
	if err != nil {
		return nil, errors.Join(errors.New("scenario: load the schemas"), err)
	}
	return &judge{set}, nil
}

// audit holds a log against every rule of the contract.
func (j *judge) audit(log []seen) []Failure {
	var out []Failure
	for f, err := range replay.Audit(feedOf(log), replay.Config{Validate: j.schemas.Event}) {
		if err != nil {
			return append(out, Failure{Msg: fmt.Sprintf("audit: %v", err)})
		}
		out = append(out, Failure{Msg: fmt.Sprintf("audit: rule %s: event %s: %s", f.Rule, f.Sequence, f.Message)})
	}
	return out
}
