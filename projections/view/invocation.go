package view

import "github.com/loopd/loopd/event"

// Invocation is the row of one tool call that may be run.
type Invocation struct {
	Stamp
	InvocationID       string         `json:"invocation_id"`
	State              State          `json:"state"`
	ToolCallID         string         `json:"tool_call_id"`
	OperationID        string         `json:"operation_id"`
	GenerationID       string         `json:"generation_id"`
	Tool               string         `json:"tool"`
	InputDigest        string         `json:"input_digest"`
	Arguments          string         `json:"arguments"`
	Effect             string         `json:"effect"`
	Approval           string         `json:"approval"`
	Repeats            string         `json:"repeats,omitzero"`
	DecidedBy          string         `json:"decided_by,omitzero"` // the last decision on it
	Verdict            string         `json:"verdict,omitzero"`    // of invocation.reconciled
	Result             string         `json:"result,omitzero"`
	Error              string         `json:"error,omitzero"`
	Late               bool           `json:"late,omitzero"`
	Reason             string         `json:"reason,omitzero"` // of .uncertain, .withdrawn
	NextAction         string         `json:"next_action,omitzero"`
	Observed           event.Observed `json:"observed,omitzero"` // of the last look-up
	Dispatches         int            `json:"dispatches,omitzero"`
	ProposedSequence   event.Seq      `json:"proposed_sequence"`
	DispatchedSequence event.Seq      `json:"dispatched_sequence,omitzero"` // the last dispatch
}

// View implements Row.
func (*Invocation) View() Name { return ViewInvocation }

// CurrentState implements Row.
func (r *Invocation) CurrentState() State { return r.State }

func routeInvocation(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.InvocationProposed:
		return about(p.InvocationID)
	case event.InvocationAwaitingApproval:
		return about(p.InvocationID)
	case event.InvocationApproved:
		return about(p.InvocationID)
	case event.InvocationDenied:
		return about(p.InvocationID)
	case event.InvocationWithdrawn:
		return about(p.InvocationID)
	case event.InvocationDispatched:
		return about(p.InvocationID)
	case event.InvocationCompleted:
		return about(p.InvocationID)
	case event.InvocationFailed:
		return about(p.InvocationID)
	case event.InvocationUncertain:
		return about(p.InvocationID)
	case event.InvocationInspected:
		return about(p.InvocationID)
	case event.InvocationReconciled:
		return about(p.InvocationID)
	}
	return nil
}

// Fold implements Row.
func (r *Invocation) Fold(e event.Event) (Row, bool) {
	next := *r
	if !next.decide(e) && !next.run(e) {
		return r, false
	}
	next.touch(e)
	return &next, true
}

// decide folds what happens to the call before and around its run.
func (r *Invocation) decide(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.InvocationProposed:
		r.propose(p, e.Sequence)
	case event.InvocationAwaitingApproval:
		r.State = StateAwaitingApproval
	case event.InvocationApproved:
		r.State, r.DecidedBy = StateApproved, p.DecidedBy
	case event.InvocationDenied:
		r.State, r.DecidedBy = StateDenied, p.DecidedBy
	case event.InvocationWithdrawn:
		r.State, r.Reason = StateWithdrawn, p.Reason
	case event.InvocationReconciled:
		r.reconcile(p)
	default:
		return false
	}
	return true
}

func (r *Invocation) propose(p event.InvocationProposed, seq event.Seq) {
	r.State, r.ToolCallID, r.OperationID, r.GenerationID = StateProposed, p.ToolCallID, p.OperationID, p.GenerationID
	r.Tool, r.InputDigest, r.Arguments = p.Tool, p.InputDigest, p.Arguments
	r.Effect, r.Approval, r.Repeats, r.ProposedSequence = p.Effect, p.Approval, p.Repeats, seq
}

func (r *Invocation) reconcile(p event.InvocationReconciled) {
	r.Verdict = p.Verdict
	if p.DecidedBy != "" {
		r.DecidedBy = p.DecidedBy
	}
	if p.Verdict == event.VerdictStillUnknown {
		return
	}
	r.State, r.Result, r.NextAction = StateReconciled, p.Result, ""
}

// run folds the call's run and its receipts.
func (r *Invocation) run(e event.Event) bool {
	settled := r.State == StateReconciled || r.State == StateWithdrawn
	switch p := e.Payload.(type) {
	case event.InvocationDispatched:
		r.State, r.DispatchedSequence = StateDispatched, e.Sequence
		r.Dispatches++
	case event.InvocationCompleted:
		r.Late = p.Late
		if !settled {
			r.State, r.Result, r.NextAction = StateCompleted, p.Result, ""
		}
	case event.InvocationFailed:
		r.Late = p.Late
		if !settled {
			r.State, r.Error, r.NextAction = StateFailed, p.Error, ""
		}
	case event.InvocationUncertain:
		r.State, r.Reason, r.NextAction = StateUncertain, p.Reason, p.NextAction
	case event.InvocationInspected:
		r.Observed = p.Observed
	default:
		return false
	}
	return true
}
