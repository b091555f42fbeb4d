package loop

import (
	"strings"
	"time"

	"github.com/loopd/loopd/event"
)

// Tick is what Next and Decide may not find out for themselves: the time, and
// two ids that nobody has used.
type Tick struct {
	Now time.Time
	IDs [2]string
}

// Plan is what the world should do now. Either the loop itself moves on
// (Record), or the effects are wanted: all of them, for as long as the state
// asks for them.
type Plan struct {
	Record   bool // Decide(state, Advance{Tick}) is the next fact
	Boundary bool // before Record or the first effect: take what the inbox holds, then ask Next again
	Effects  []Effect
	WakeAt   time.Time // ask Next again then; zero = only after an event
}

// Effect is something that the world does. Inline effects (Carry, Admit,
// Dispatch, Submit) are done at once and come alone; the others run beside
// each other, at most one for a Key.
type Effect interface{ Key() string }

// The effects.
type (
	// Carry asks for the effect of an accepted command: look Target up in the
	// past, then Decide(CarryOut).
	Carry struct{ InputID, Target string }
	// Admit asks for the request of a new operation, then Decide(AdmitRequest).
	Admit struct{ OperationID string }
	// Dispatch asks to check the request of an admitted operation against its
	// digest, then Decide(DispatchRequest).
	Dispatch struct{ OperationID string }
	// Submit asks to publish a job's result as a service input.
	Submit struct {
		JobID, InputID string
		Body           []byte
	}

	// Call is a dispatched operation: send its request, read its answer.
	Call struct{ OperationID string }
	// Inspect is a read-only look-up of an operation; By is the decision that
	// asked for it, "" if the loop does.
	Inspect struct{ OperationID, By string }
	// Steer hands an input to the provider while an operation runs.
	Steer struct {
		OperationID string
		Input       event.Input
	}
	// Invoke runs a dispatched invocation.
	Invoke struct{ Request ToolRequest }
	// InspectInvocation is a read-only look-up of an invocation.
	InspectInvocation struct{ Request ToolRequest }
	// RunJob runs a job; Cancel asks it to end.
	RunJob struct {
		JobID   string
		Request ToolRequest
		Cancel  bool
	}
	// InspectJob is a read-only look-up of a job that another owner ran.
	InspectJob struct {
		JobID   string
		Request ToolRequest
	}
)

func (e Carry) Key() string             { return "carry " + e.InputID }
func (e Admit) Key() string             { return "admit" }
func (e Dispatch) Key() string          { return "dispatch " + e.OperationID }
func (e Submit) Key() string            { return "submit " + e.InputID }
func (e Call) Key() string              { return "call " + e.OperationID }
func (e Inspect) Key() string           { return strings.TrimSuffix("inspect "+e.OperationID+" "+e.By, " ") }
func (e Steer) Key() string             { return "steer " + e.Input.InputID }
func (e Invoke) Key() string            { return "invoke " + e.Request.InvocationID }
func (e InspectInvocation) Key() string { return "inspect " + e.Request.InvocationID }
func (e RunJob) Key() string            { return "job " + e.JobID }
func (e InspectJob) Key() string        { return "inspect " + e.JobID }

// Wanted reports whether an owner that claimed the session would have anything
// to do, but for inputs that it has not taken yet.
func Wanted(s State, t Tick) bool {
	if s.Phase == PhaseNew || s.Phase == PhaseBroken {
		return false
	}
	if s.Phase == PhaseUnclaimed {
		return true
	}
	s = s.clone()
	s.Epoch = s.NextEpoch()
	s.forgetLooks()
	p := Next(s, t)
	return p.Record || len(p.Effects) > 0 || !p.WakeAt.IsZero()
}

// Next says what should happen now, from the folded state alone.
func Next(s State, t Tick) Plan {
	if s.Phase != PhaseOpen {
		return Plan{}
	}
	if c, ok := s.dueCommand(); ok {
		if s.asksLook(c.Input) {
			p := Plan{Effects: s.jobEffects()}
			s.generationEffects(t, &p)
			p.Effects = append(p.Effects, Inspect{OperationID: c.Target, By: c.InputID})
			return p
		}
		return Plan{Effects: []Effect{Carry{InputID: c.InputID, Target: c.Target}}}
	}
	step := s.advance(t)
	if step.fact != nil {
		return Plan{Record: true, Boundary: step.boundary}
	}
	if step.inline != nil {
		return Plan{Effects: []Effect{step.inline}, Boundary: step.boundary}
	}
	for _, j := range s.Jobs {
		if j.Phase == JobReported && s.Stop == nil {
			return Plan{Effects: []Effect{Submit{JobID: j.JobID, InputID: j.resultID(), Body: j.resultInput()}}}
		}
	}
	p := Plan{Effects: s.jobEffects()}
	s.generationEffects(t, &p)
	return p
}

func (s *State) jobEffects() []Effect {
	var effects []Effect
	for _, j := range s.Jobs {
		req := ToolRequest{SessionID: s.SessionID, InvocationID: j.InvocationID, ToolCallID: j.CallID, Tool: j.Tool, Arguments: j.Arguments}
		switch {
		case !j.running():
		case j.Epoch == s.Epoch:
			effects = append(effects, RunJob{JobID: j.JobID, Request: req, Cancel: j.Phase == JobCancelRequested})
		default:
			effects = append(effects, InspectJob{JobID: j.JobID, Request: req})
		}
	}
	return effects
}

func (s *State) generationEffects(t Tick, p *Plan) {
	g := s.Generation
	if g == nil {
		return
	}
	for _, in := range s.Inputs {
		if in.Phase == InputSent && in.Epoch == s.Epoch && g.Operation != nil {
			p.Effects = append(p.Effects, Steer{OperationID: g.Operation.ID, Input: in.Input})
		}
	}
	if op := g.Operation; op != nil {
		switch {
		case op.inFlight() && op.Epoch == s.Epoch:
			p.Effects = append(p.Effects, Call{OperationID: op.ID})
		case op.inFlight(), op.Phase == OperationUnknown:
			s.look(t, p, op.Look, Inspect{OperationID: op.ID})
		}
	}
	for _, inv := range g.Invocations {
		if !inv.Settled() && inv.Phase != InvocationDispatched {
			p.wakeAt(s.deadline())
		}
		if inv.Phase != InvocationDispatched {
			continue
		}
		req := s.toolRequest(inv)
		if inv.Epoch == s.Epoch && inv.Look.Observed == "" {
			p.Effects = append(p.Effects, Invoke{Request: req})
		} else {
			s.look(t, p, inv.Look, InspectInvocation{Request: req})
		}
	}
}

// look adds a look-up, or the time for the next one while an original is
// pending (contract 6.1: look again with back-off).
func (s *State) look(t Tick, p *Plan, l Look, e Effect) {
	if l.Observed == event.ObservedPending {
		wait := s.Config.Timeouts.PollMax
		if shift := l.Times - 1; shift < 30 {
			wait = min(wait, s.Config.Timeouts.PollMin<<shift)
		}
		if at := l.At.Add(wait); at.After(t.Now) {
			p.wakeAt(at)
			return
		}
	}
	p.Effects = append(p.Effects, e)
}

// wakeAt asks for a look no later than at; zero asks for nothing.
func (p *Plan) wakeAt(at time.Time) {
	if !at.IsZero() && (p.WakeAt.IsZero() || at.Before(p.WakeAt)) {
		p.WakeAt = at
	}
}

func (s *State) toolRequest(inv Invocation) ToolRequest {
	return ToolRequest{
		SessionID: s.SessionID, InvocationID: inv.InvocationID, ToolCallID: inv.ToolCallID,
		Tool: inv.Tool, Arguments: inv.Arguments,
	}
}
