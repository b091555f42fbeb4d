package loop

import (
	"slices"

	"github.com/loopd/loopd/event"
)

// Past is what State no longer holds and Decide still asks: which inputs were
// ever seen, what else has an id, and the conversation. It is a fold too, and
// grows with the session; nothing in it is ever evicted (contract, section 3).
// Unlike State it is changed in place, by its one owner.
type Past struct {
	inputs   map[string]InputPast
	targets  map[string]TargetPast
	texts    map[string]event.Input // accepted content until it is delivered or over
	entries  []entry
	calls    map[string]*call // by invocation id
	pieces   []string         // messages of the running operation since its last steering boundary
	system   string
	segment  int    // of the last operation
	parent   string // of the last operation
	sequence event.Seq

	task       string                // of the last generation
	generation string                // the last one
	kept       map[string]event.Kept // by task: what a summary must name
}

// InputPast is what is known of an input id.
type InputPast struct {
	Accepted bool
	Kind     event.Kind
	Digest   string   // of the accepted content
	Refused  []string // digests that were refused
	Over     bool     // held, withdrawn or unknown
}

// TargetPast is what is known of an id that is not an input's.
type TargetPast struct {
	Kind    string // "invocation", "operation", "checkpoint", "job"; "" = never seen
	Decided bool
	Ended   bool // its generation has ended
	owner   string
}

// NewPast is the past of a session without events.
func NewPast(config Config) *Past {
	return &Past{
		inputs: map[string]InputPast{}, targets: map[string]TargetPast{}, texts: map[string]event.Input{},
		calls: map[string]*call{}, kept: map[string]event.Kept{}, system: config.withDefaults().System,
	}
}

// Input is what is known of an input id.
func (p *Past) Input(id string) InputPast { return p.inputs[id] }

// Target is what is known of any other id.
func (p *Past) Target(id string) TargetPast { return p.targets[id] }

// Fold takes one stored event up.
func (p *Past) Fold(e event.Event) {
	p.sequence = e.Sequence
	p.foldInputs(e)
	p.foldTargets(e)
	p.keep(e)
	p.foldContext(e)
}

func (p *Past) foldInputs(e event.Event) {
	switch f := e.Payload.(type) {
	case event.InputAccepted:
		in := p.inputs[f.InputID]
		in.Accepted, in.Kind, in.Digest = true, f.Kind, f.Digest
		p.inputs[f.InputID] = in
	case event.InputRejected:
		in := p.inputs[f.InputID]
		in.Refused = append(slices.Clip(in.Refused), f.Digest)
		p.inputs[f.InputID] = in
	case event.InputHeld:
		p.over(f.InputID)
	case event.InputUnknown:
		in := p.inputs[f.InputID]
		in.Over = true
		p.inputs[f.InputID] = in
	case event.InputWithdrawn:
		p.over(f.InputID)
	}
}

func (p *Past) over(id string) {
	in := p.inputs[id]
	in.Over = true
	p.inputs[id] = in
	delete(p.texts, id)
}

func (p *Past) foldTargets(e event.Event) {
	switch f := e.Payload.(type) {
	case event.InvocationProposed:
		p.targets[f.InvocationID] = TargetPast{Kind: "invocation", owner: f.GenerationID}
	case event.InvocationApproved:
		p.decided(f.InvocationID)
	case event.InvocationDenied:
		p.decided(f.InvocationID)
	case event.InvocationCompleted:
		p.decided(f.InvocationID)
	case event.InvocationFailed:
		p.decided(f.InvocationID)
	case event.InvocationReconciled:
		if f.Verdict != event.VerdictStillUnknown {
			p.decided(f.InvocationID)
		}
	case event.OperationAdmitted:
		p.targets[f.OperationID] = TargetPast{Kind: "operation", owner: f.GenerationID}
	case event.CheckpointSaved:
		p.targets[f.CheckpointID] = TargetPast{Kind: "checkpoint", owner: f.GenerationID}
	case event.ContinuationStarted:
		p.decided(f.CheckpointID)
	case event.GenerationFinished:
		p.ended(f.GenerationID)
	case event.GenerationFailed:
		p.ended(f.GenerationID)
	case event.GenerationDetached:
		p.ended(f.GenerationID)
	}
}

func (p *Past) decided(id string) {
	t := p.targets[id]
	t.Decided = true
	p.targets[id] = t
}

func (p *Past) ended(generation string) {
	for id, t := range p.targets {
		if t.owner == generation {
			t.Ended, t.owner = true, ""
			p.targets[id] = t
		}
	}
}
