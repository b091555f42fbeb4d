// Package scripted runs tools from a script: for each tool one [Entry] a call,
// in the order in which calls arrive. It serves the scenario player and tests
// that need a tool that loses its receipts on demand.
//
// Invariants
//
//  1. The script lives outside of the owners: an owner that dies loses its
//     connection, and the tool still knows what it ran.
//  2. Effects counts the calls that arrived, and nothing else.
//  3. An invocation that never arrived is missing to a look-up, whatever the
//     script says; a look-up waits for no gate and runs nothing.
package scripted

import (
	"context"
	"maps"
	"sync"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// An Entry answers one call of a tool.
type Entry struct {
	Gate   string // the call waits until it is open; "" = it does not wait
	Result string
	Failed bool             // Result is the tool's own error
	Lost   bool             // it runs, the connection ends at once, no receipt comes
	Lookup []event.Observed // one for each look-up, the last repeats; empty = unsupported
}

// Gates are where a script waits.
type Gates interface {
	// Wait returns nil once the gate is open, or ctx's error.
	Wait(ctx context.Context, gate string) error
}

// Config is the script of all tools. Gates is required.
type Config struct {
	Entries  map[string][]Entry
	Excess   *Entry // answers calls beyond the last entry; nil = they fail
	Gates    Gates
	OnExcess func(req loop.ToolRequest) // sees each call beyond the last entry
}

// Tools answer from their script; they are safe for concurrent use.
type Tools struct {
	cfg Config

	mu      sync.Mutex
	effects map[string]int
	calls   map[string]*call // by invocation id: the last that arrived
}

type call struct {
	entry   Entry
	lookups int
}

// New returns tools at the start of their script.
func New(cfg Config) *Tools {
	return &Tools{cfg: cfg, effects: map[string]int{}, calls: map[string]*call{}}
}

// Effects is how often each tool really ran.
func (t *Tools) Effects() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.effects)
}

// Call runs the tool's next entry; without a receipt when ctx ends first.
func (t *Tools) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	if ctx.Err() != nil {
		return loop.ToolOutcome{Lost: true}
	}
	e, excess := t.arrive(req)
	if excess && t.cfg.OnExcess != nil {
		t.cfg.OnExcess(req)
	}
	if e.Gate != "" && t.cfg.Gates.Wait(ctx, e.Gate) != nil {
		return loop.ToolOutcome{Lost: true}
	}
	if e.Lost {
		return loop.ToolOutcome{Lost: true}
	}
	return loop.ToolOutcome{Result: e.Result, Failed: e.Failed}
}

// Inspect looks an invocation up.
func (t *Tools) Inspect(_ context.Context, req loop.ToolRequest) loop.ToolInspection {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[req.InvocationID]
	if c == nil {
		return loop.ToolInspection{Observed: event.ObservedMissing}
	}
	observed := event.ObservedUnsupported
	if n := len(c.entry.Lookup); n > 0 {
		observed = c.entry.Lookup[min(c.lookups, n-1)]
	}
	c.lookups++
	if observed != event.ObservedComplete {
		return loop.ToolInspection{Observed: observed}
	}
	return loop.ToolInspection{Observed: observed, Outcome: loop.ToolOutcome{Result: c.entry.Result, Failed: c.entry.Failed}}
}

func (t *Tools) arrive(req loop.ToolRequest) (e Entry, excess bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.effects[req.Tool]
	t.effects[req.Tool]++
	entries := t.cfg.Entries[req.Tool]
	switch {
	case n < len(entries):
		e = entries[n]
	case t.cfg.Excess != nil:
		e, excess = *t.cfg.Excess, true
	default:
		e, excess = Entry{Result: "the script has no entry for this call", Failed: true}, true
	}
	t.calls[req.InvocationID] = &call{entry: e}
	return e, excess
}
