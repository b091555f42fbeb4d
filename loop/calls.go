package loop

import (
	"cmp"
	"fmt"

	"github.com/loopd/loopd/event"
)

// handleCalls proposes or withholds the next call of the last response
// (contract 6.3): all of them together, none is dropped.
func (s *State) handleCalls(t Tick) step {
	op := s.Generation.Operation
	calls := op.Completed.ToolCalls
	if op.Handled >= len(calls) {
		return step{}
	}
	call := calls[op.Handled]
	if reason := s.withholds(op.Completed, call); reason != "" {
		return record(event.InvocationWithheld{
			ToolCallID: call.ID, OperationID: op.ID, Tool: call.Name, Arguments: call.Arguments, Reason: reason,
		}, op.EndID)
	}
	return s.propose(call, t)
}

// withheldByFinish says why a finish that is not tool_calls authorises none.
var withheldByFinish = map[event.Finish]string{
	event.FinishOutputBudget:  event.WithheldTruncated,
	event.FinishContextWindow: event.WithheldTruncated,
	event.FinishContentFilter: event.WithheldFiltered,
	event.FinishUnrecognised:  event.WithheldUnrecognised,
	event.FinishError:         event.WithheldError,
}

// withholds says why a call may not run, "" if it may. One call of a response
// that may not withholds the others too.
func (s *State) withholds(c event.OperationCompleted, call event.ToolCall) string {
	if c.Finish != event.FinishToolCalls {
		if reason, ok := withheldByFinish[c.Finish]; ok {
			return reason
		}
		return event.WithheldNotAuthorised
	}
	if c.Veto != "" {
		return event.WithheldVetoed
	}
	if own := s.unrunnable(call); own != "" {
		return own
	}
	for _, other := range c.ToolCalls {
		if s.unrunnable(other) != "" {
			return event.WithheldNotAuthorised
		}
	}
	return ""
}

// unrunnable says what is wrong with a call by itself.
func (s *State) unrunnable(call event.ToolCall) string {
	if _, err := event.ArgumentsDigest(call.Arguments); err != nil || !call.Closed {
		return event.WithheldIncompleteArguments
	}
	if _, known := s.Config.tool(call.Name); !known {
		return event.WithheldUnknownTool
	}
	return ""
}

func (s *State) propose(call event.ToolCall, t Tick) step {
	g := s.Generation
	tool, _ := s.Config.tool(call.Name)
	digest, _ := event.ArgumentsDigest(call.Arguments) // checked by unrunnable
	p := event.InvocationProposed{
		InvocationID: t.IDs[0], ToolCallID: call.ID, OperationID: g.Operation.ID, GenerationID: g.ID,
		Tool: call.Name, InputDigest: digest, Arguments: call.Arguments, Effect: tool.Effect, Approval: tool.Approval,
	}
	if tool.Effect == event.EffectWrite {
		p.Repeats = s.repeats(call.Name, digest)
	}
	return record(p, g.Operation.EndID)
}

// repeats is the latest equal write of the task that was dispatched; where none
// was yet, the first that still may be.
func (s *State) repeats(tool, digest string) string {
	task := s.task(s.Generation.TaskID)
	if task == nil {
		return ""
	}
	dispatched, waiting := "", ""
	for _, w := range task.Writes {
		switch {
		case w.Tool != tool || w.Digest != digest:
		case w.Dispatched:
			dispatched = w.InvocationID
		case waiting == "" && w.Phase <= InvocationApproved:
			waiting = w.InvocationID
		}
	}
	return cmp.Or(dispatched, waiting)
}

// twins looks at the equal writes of the task before an invocation: whether
// one is not settled yet, uncertain, or took effect.
func (s *State) twins(inv Invocation) (open, uncertain, effective bool) {
	task := s.task(s.Generation.TaskID)
	if inv.Effect != event.EffectWrite || task == nil {
		return false, false, false
	}
	for _, w := range task.Writes {
		if w.InvocationID == inv.InvocationID {
			break
		}
		if w.Tool != inv.Tool || w.Digest != inv.InputDigest {
			continue
		}
		open = open || w.Phase <= InvocationDispatched
		uncertain = uncertain || w.Phase == InvocationUncertain
		effective = effective || w.Phase == InvocationCompleted || w.Phase == InvocationReconciled
	}
	return open, uncertain, effective
}

// invoke moves the proposed calls on; settled means that the model can be
// given all their results.
func (s *State) invoke(t Tick) (st step, settled bool) {
	settled = true
	for _, inv := range s.Generation.Invocations {
		if inv.OperationID != s.Generation.Operation.ID {
			continue
		}
		settled = settled && inv.Settled()
		if st := s.moveOn(inv, t); !st.empty() {
			return st, false
		}
	}
	return step{}, settled
}

func (s *State) moveOn(inv Invocation, t Tick) step {
	switch inv.Phase {
	case InvocationProposed:
		open, uncertain, effective := s.twins(inv)
		switch {
		case open, uncertain:
			return step{} // it waits until the earlier one is settled
		case inv.Approval == event.ApprovalRequired, effective:
			return record(event.InvocationAwaitingApproval{InvocationID: inv.InvocationID, InputDigest: inv.InputDigest}, "")
		}
		return record(event.InvocationDispatched{InvocationID: inv.InvocationID}, "")
	case InvocationApproved:
		return record(event.InvocationDispatched{InvocationID: inv.InvocationID}, "")
	case InvocationDispatched:
		return s.takeOver(inv, t)
	}
	return step{}
}

// takeOver goes on with a dispatched invocation: a background tool becomes a
// job; what an older owner dispatched follows contract 6.4.
func (s *State) takeOver(inv Invocation, t Tick) step {
	tool, _ := s.Config.tool(inv.Tool)
	switch {
	case inv.JobID != "":
		return s.receipt(inv)
	case tool.Background:
		return record(event.JobQueued{
			JobID: t.IDs[0], CallID: inv.ToolCallID, Tool: inv.Tool, GenerationID: inv.GenerationID, InvocationID: inv.InvocationID,
		}, inv.InvocationID)
	case inv.Epoch != s.Epoch && inv.Effect != event.EffectWrite:
		return record(event.InvocationDispatched{InvocationID: inv.InvocationID}, "")
	case inv.Look.final() && inv.Epoch != s.Epoch:
		return s.uncertain(inv, event.UnknownOwnerLost, "")
	case inv.Look.final():
		return s.uncertain(inv, "no_receipt", "")
	}
	return step{}
}

// receipt is what the model is told of a job at once.
func (s *State) receipt(inv Invocation) step {
	return record(event.InvocationCompleted{
		InvocationID: inv.InvocationID, OK: true,
		Result: fmt.Sprintf(`{"status":"queued","job_id":%q,"instruction":"The work goes on in the background. Its result comes later as an observation; do not call again for it."}`, inv.JobID),
	}, "")
}

func (s *State) uncertain(inv Invocation, reason, cause string) step {
	return record(event.InvocationUncertain{
		InvocationID: inv.InvocationID, Reason: reason, NextAction: event.ActionReconcile,
	}, cause)
}
