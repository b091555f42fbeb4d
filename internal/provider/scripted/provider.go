// Package scripted is a provider that answers from a script: one [Entry] a
// model request, in the order in which requests arrive. It serves the scenario
// player and tests that need a provider that behaves badly on demand.
//
// Invariants
//
//  1. The script lives outside of the owners: an owner that dies loses its
//     connection, and the provider still knows every operation it was asked
//     for and what it saved of it.
//  2. Requests counts those that arrived; an operation that never arrived is
//     missing to a look-up, whatever the script says.
//  3. Each frame's bytes go to Stream.Raw before anything is done with it.
//  4. A native finish reason is mapped by name and by nothing else.
//  5. It waits at gates only, so that whoever owns the gates knows when
//     nothing moves without a host; a look-up waits at none.
//
// It speaks no wire protocol, keeps nothing on disk and knows no time.
package scripted

import (
	"context"
	"sync"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Gates are where a script waits. Names that the script does not use belong to
// the provider: they begin with a NUL.
type Gates interface {
	// Wait returns nil once the gate is open, or ctx's error.
	Wait(ctx context.Context, gate string) error
	// Open opens a gate for good.
	Open(gate string)
}

// codeExhausted refuses a request that the script has no entry for.
const codeExhausted = "script_exhausted"

// Config is a provider's script. Gates is required.
type Config struct {
	Entries  []Entry
	Excess   *Entry // answers requests beyond the last entry; nil = they are refused
	Native   bool   // it takes steering while an operation runs
	Gates    Gates
	OnAsk    func(entry int, req loop.Request) // sees each request; nil = nobody does
	OnExcess func(req loop.Request)            // sees each request beyond the last entry
}

// Provider answers from its script; it is safe for concurrent use.
type Provider struct {
	cfg Config

	mu         sync.Mutex
	requests   int
	operations map[string]*operation
}

// New returns a provider at the start of its script.
func New(cfg Config) *Provider {
	return &Provider{cfg: cfg, operations: map[string]*operation{}}
}

// Requests is how often the provider was really asked.
func (p *Provider) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Service says that the provider is scripted.
func (p *Provider) Service() loop.Service {
	return loop.Service{ID: "scripted", Revision: "1", Native: p.cfg.Native}
}

// Generate plays the next entry. It ends early, uncertain, when ctx does.
func (p *Provider) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	if ctx.Err() != nil {
		return loop.Uncertain{Reason: event.UnknownCancelled, Detail: "no connection"}
	}
	op := p.arrive(req)
	defer p.hangUp(op)
	if op.entry == nil {
		return *failed(Error{Code: codeExhausted}, event.DispatchRejected)
	}
	return p.play(ctx, op, out)
}

// Inspect looks an operation up; it changes nothing but the place in a list of
// look-ups.
func (p *Provider) Inspect(_ context.Context, req loop.Request) loop.Inspection {
	p.mu.Lock()
	defer p.mu.Unlock()
	op := p.operations[req.OperationID]
	if op == nil || !op.arrived {
		return loop.Inspection{Observed: event.ObservedMissing}
	}
	if op.entry == nil {
		failure := failed(Error{Code: codeExhausted}, event.DispatchRejected)
		return loop.Inspection{Observed: event.ObservedComplete, Failure: failure}
	}
	observed := event.ObservedUnsupported
	if n := len(op.entry.Lookup); n > 0 {
		observed = op.entry.Lookup[min(op.lookups, n-1)]
	}
	op.lookups++
	if observed != event.ObservedComplete {
		return loop.Inspection{Observed: observed}
	}
	return saved(op.entry, op.budget)
}

// arrive takes the next entry for the request.
func (p *Provider) arrive(req loop.Request) *operation {
	p.mu.Lock()
	op := p.operation(req.OperationID)
	op.arrived, op.budget, op.connected = true, req.OutputBudget, true
	n := p.requests
	p.requests++
	excess := n >= len(p.cfg.Entries)
	if excess {
		op.entry = p.cfg.Excess
	} else {
		op.entry = &p.cfg.Entries[n]
	}
	if op.entry != nil {
		op.expectSteering()
	}
	p.mu.Unlock()

	switch {
	case excess && p.cfg.OnExcess != nil:
		p.cfg.OnExcess(req)
	case !excess && p.cfg.OnAsk != nil:
		p.cfg.OnAsk(n, req)
	}
	p.cfg.Gates.Open(op.gate("up"))
	return op
}

// operation is the record of an id; the lock is held.
func (p *Provider) operation(id string) *operation {
	op := p.operations[id]
	if op == nil {
		op = &operation{id: id, steers: map[string]*steer{}}
		p.operations[id] = op
	}
	return op
}

// play sends the entry's frames until one of them, or ctx, ends the request.
func (p *Provider) play(ctx context.Context, op *operation, out loop.Stream) loop.Outcome {
	a := newAnswer()
	for _, f := range op.entry.Frames {
		if ctx.Err() != nil {
			return lost(ctx)
		}
		first := a.bytes == 0
		if b := wire(f, op.entry.Usage); b != nil {
			if err := out.Raw(b); err != nil {
				return loop.Uncertain{Reason: event.UnknownTransport, Detail: "raw bytes not saved: " + err.Error()}
			}
			a.saw(b)
		}
		switch f := f.(type) {
		case Text:
			out.Delta("text", f.Text)
		case Reasoning:
			out.Delta("reasoning", f.Text)
		case BlockEnd:
			if f.Kind == "text" {
				out.Message(a.block.String())
			}
		case Applied:
			out.Applied(f.InputIDs)
		case Wait:
			if p.cfg.Gates.Wait(ctx, f.Gate) != nil {
				return lost(ctx)
			}
		case Steer:
			if p.answerSteering(ctx, op, f) != nil {
				return lost(ctx)
			}
		case Finish:
			return a.completion(f.Reason, op.entry.Usage, op.budget)
		case Drop:
			return loop.Uncertain{Reason: event.UnknownNoTerminal, Detail: "the connection dropped"}
		case Error:
			if first {
				return *failed(f, event.DispatchRejected)
			}
			return loop.Uncertain{Reason: event.UnknownTransport, Detail: "broke off with " + f.Code}
		}
		a.add(f)
	}
	return loop.Uncertain{Reason: event.UnknownNoTerminal, Detail: "the stream ended without its terminal frame"}
}

func lost(ctx context.Context) loop.Outcome {
	return loop.Uncertain{Reason: event.UnknownCancelled, Detail: ctx.Err().Error()}
}
