package loop

import (
	"cmp"

	"github.com/loopd/loopd/event"
)

// end says how the open generation ends, and why.
type end struct {
	kind   event.Type // the terminal event
	reason string     // error_type, or the reason of generation.detached
	stage  string
	next   string // next_action
	cause  string
}

// ending reports whether the open generation has come to its end, from the
// facts alone. Everything that asks "is it closing?" asks here.
func (s *State) ending() (end, bool) {
	g := s.Generation
	switch {
	case g == nil:
		return end{}, false
	case g.Interrupt != "":
		return end{kind: event.TypeGenerationDetached, reason: event.DetachedInterrupted, cause: g.Interrupt}, true
	case s.Stop != nil:
		return end{kind: event.TypeGenerationDetached, reason: event.DetachedStopped, cause: s.Stop.InputID}, true
	case g.Abandon != "":
		return end{kind: event.TypeGenerationDetached, reason: g.Operation.uncertainty(), cause: g.Abandon}, true
	case len(g.OperationIDs) == 0:
		if g.Halt == nil {
			return end{}, false
		}
		return end{kind: event.TypeGenerationFailed, reason: g.Halt.Reason, stage: "admission", next: g.Halt.Action}, true
	}
	if g.Halt != nil && g.Halt.Reason == event.StopAuthorityEnded && s.yields() {
		// What users said since is not answered under an authority that ended,
		// and a finish would say that it was.
		return end{kind: event.TypeGenerationFailed, reason: g.Halt.Reason, stage: "admission", next: g.Halt.Action}, true
	}
	return s.operationEnding(g.Operation)
}

func (s *State) operationEnding(op *Operation) (end, bool) {
	switch op.Phase {
	case OperationFailed:
		return end{kind: event.TypeGenerationFailed, reason: cmp.Or(op.Failed.Code, codeUnnamed), stage: "provider_request", next: op.Failed.NextAction, cause: op.EndID}, true
	case OperationUnknown:
		if !op.Look.final() {
			return end{}, false
		}
		return end{kind: event.TypeGenerationDetached, reason: op.uncertainty(), cause: op.EndID}, true
	case OperationCompleted:
		return s.completedEnding(op)
	}
	return end{}, false
}

// uncertainty is the reason of the generation.detached that an operation of
// unknown outcome leads to.
func (o *Operation) uncertainty() string {
	if o.Phase == OperationDispatched || o.Reason == event.UnknownOwnerLost {
		return event.DetachedOwnerLost
	}
	return event.DetachedOperationUncertain
}

func (s *State) completedEnding(op *Operation) (end, bool) {
	g := s.Generation
	if op.Handled < len(op.Completed.ToolCalls) {
		return end{}, false
	}
	failed := func(reason string) (end, bool) {
		return end{kind: event.TypeGenerationFailed, reason: reason, stage: "manager_turn", cause: op.EndID}, true
	}
	concluded := g.Final != "" && !s.yields()
	switch op.Completed.Finish {
	case event.FinishStop:
	case event.FinishToolCalls:
		if op.Proposed == 0 {
			return failed("calls_withheld")
		}
		concluded = concluded && g.Halt != nil
	case event.FinishOutputBudget, event.FinishContextWindow:
		concluded = concluded && g.Halt != nil
	default:
		return failed(string(op.Completed.Finish))
	}
	return end{kind: event.TypeGenerationFinished, cause: op.EndID}, concluded
}

// closing reports whether the open generation takes no more steering: it ends,
// and not by the finish before which it yields once.
func (s *State) closing() bool {
	e, ok := s.ending()
	return ok && e.kind != event.TypeGenerationFinished
}

// end records what an ending causes, then the terminal event (contract 5.4:
// what an end causes stands before its terminal event).
func (s *State) end(e end, t Tick) step {
	g := s.Generation
	cancelled := g.Interrupt != "" || s.Stop != nil
	if st := s.enterRest(); !st.empty() {
		return st
	}
	if st := s.endOperation(cancelled, e, t); !st.empty() {
		return st
	}
	if st, waits := s.endSteering(cancelled, e); waits || !st.empty() {
		return st
	}
	if st := s.endInvocations(e); !st.empty() {
		return st
	}
	if st := s.endChain(cancelled, e); !st.empty() {
		return st
	}
	if st := s.holdInputs(e); !st.empty() {
		return st
	}
	return s.terminal(e)
}

// enterRest completes the pair of facts that a delivery began.
func (s *State) enterRest() step {
	if g := s.Generation; g.Observation != nil || g.Applied != "" {
		return s.enter()
	}
	return step{}
}

func (s *State) endOperation(cancelled bool, e end, t Tick) step {
	op := s.Generation.Operation
	if op != nil && op.Phase == OperationDispatched && s.Generation.Abandon != "" && !cancelled {
		return s.unknownOperation(event.UnknownOwnerLost, e.cause)
	}
	if op == nil || !cancelled {
		return step{}
	}
	switch op.Phase {
	case OperationAdmitted:
		return record(event.OperationCancelled{OperationID: op.ID, Dispatch: event.DispatchNotDispatched}, e.cause)
	case OperationDispatched:
		return s.unknownOperation(event.UnknownCancelled, e.cause)
	case OperationCompleted:
		return s.handleCalls(t)
	}
	return step{}
}

// endSteering settles native attempts: a cancelled generation declares them
// unknown; otherwise their answers are awaited (each has its time-out).
func (s *State) endSteering(cancelled bool, e end) (st step, waits bool) {
	for _, in := range s.Inputs {
		if in.Phase != InputSent {
			continue
		}
		if !cancelled {
			return step{}, true
		}
		return s.unknownInput(in, e.cause), false
	}
	return step{}, false
}

func (s *State) endInvocations(e end) step {
	reason := e.reason
	if reason == "" {
		reason = "generation_ended"
	}
	for _, inv := range s.Generation.Invocations {
		switch {
		case inv.open():
			return record(event.InvocationWithdrawn{InvocationID: inv.InvocationID, Reason: reason}, e.cause)
		case inv.Phase == InvocationDispatched && inv.JobID != "":
			return s.receipt(inv)
		case inv.Phase == InvocationDispatched:
			return s.uncertain(inv, reason, e.cause)
		}
	}
	return step{}
}

// endChain says that a chain on its way stops here (contract 6.1, last row).
func (s *State) endChain(cancelled bool, e end) step {
	g := s.Generation
	if g.Halt != nil || e.kind != event.TypeGenerationDetached {
		return step{}
	}
	op := g.Operation
	switch {
	case cancelled && g.Cutoff != nil:
		return s.halt(event.StopCancelled, e.cause)
	case cancelled && op != nil && op.Segment > 1 && op.Phase != OperationCompleted:
		return s.halt(event.StopCancelled, e.cause)
	case op != nil && op.Look.Observed == event.ObservedExpired:
		return s.halt(event.StopResponseExpired, e.cause)
	case !cancelled && op != nil && op.Segment > 1:
		return s.halt(event.StopOperationUncertain, e.cause)
	}
	return step{}
}

// holdInputs holds what can never be delivered: anchored inputs of this
// generation, and everything pending when the session stops.
func (s *State) holdInputs(e end) step {
	g := s.Generation
	for _, in := range s.pendingInputs() {
		if !in.Anchored() && s.Stop == nil {
			continue
		}
		reason := e.holdReason()
		if in.Anchored() && in.Phase == InputWaiting {
			return s.acceptAnchored(in)
		}
		if in.Anchored() && g.accepts(in.InputID) {
			return record(event.SteeringHeld{InputID: in.InputID, TargetGenerationID: g.ID, Reason: reason}, e.cause)
		}
		return record(event.InputHeld{InputID: in.InputID, Reason: reason, GenerationID: g.ID}, e.cause)
	}
	if g.Initial != nil {
		return record(event.InputHeld{InputID: g.Initial.InputID, Reason: e.holdReason(), GenerationID: g.ID}, e.cause)
	}
	return step{}
}

func (g *Generation) accepts(id string) bool {
	for _, a := range g.AcceptedIDs {
		if a == id {
			return true
		}
	}
	return false
}

func (e end) holdReason() string {
	switch e.kind {
	case event.TypeGenerationFailed:
		return "generation_failed"
	case event.TypeGenerationFinished:
		return "generation_finished"
	}
	return e.reason
}

// terminal is the one terminal event of the generation.
func (s *State) terminal(e end) step {
	g := s.Generation
	operation := ""
	if g.Operation != nil && len(g.OperationIDs) > 0 {
		operation = g.Operation.ID
	}
	switch e.kind {
	case event.TypeGenerationFailed:
		return record(event.GenerationFailed{
			Correlation: g.correlation(), ErrorType: e.reason, Stage: e.stage, OperationID: operation, NextAction: e.next,
		}, e.cause)
	case event.TypeGenerationDetached:
		return record(event.GenerationDetached{
			Correlation: g.correlation(), Cancellation: event.CancellationUnconfirmed, Reason: e.reason, OperationID: operation,
		}, e.cause)
	}
	return record(event.GenerationFinished{
		Correlation: g.correlation(), Text: g.Chain.Text, ActiveJobIDs: s.activeJobs(),
		Disposition: event.DispositionFinished, OperationIDs: append([]string{}, g.OperationIDs...), Continuation: g.Halt,
	}, e.cause).atBoundary()
}
