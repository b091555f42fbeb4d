package loop

import (
	"cmp"

	"github.com/loopd/loopd/event"
)

// Say brings a content block that ended while its operation runs.
type Say struct {
	OperationID string
	Text        string
}

func (c Say) decide(s State) (Fact, error) {
	op, err := s.running(c.OperationID)
	if err != nil {
		return Fact{}, err
	}
	return Fact{Payload: event.AssistantMessage{
		Correlation: s.Generation.correlation(), OperationID: op.ID, Text: c.Text,
	}}, nil
}

// running is the operation if this epoch dispatched it and it has not ended.
// A late answer of an older generation dies here.
func (s *State) running(id string) (*Operation, error) {
	g := s.Generation
	if g == nil || !g.Operation.inFlight() || g.Operation.ID != id || g.Operation.Epoch != s.Epoch {
		return nil, rejected("the operation does not run here")
	}
	return g.Operation, nil
}

// EndOperation brings the outcome of a call.
type EndOperation struct {
	OperationID string
	Outcome     Outcome
}

func (c EndOperation) decide(s State) (Fact, error) {
	op, err := s.running(c.OperationID)
	if err != nil {
		return Fact{}, err
	}
	switch o := c.Outcome.(type) {
	case Completion:
		return Fact{Payload: completed(op.ID, o, false, false)}, nil
	case Failure:
		return Fact{Payload: failed(op.ID, o, false)}, nil
	case Uncertain:
		return Fact{Payload: event.OperationUnknown{
			OperationID: op.ID, Reason: o.Reason, NextAction: event.ActionInspectOriginal,
		}}, nil
	}
	return Fact{}, rejected("an outcome of unknown kind")
}

func completed(id string, c Completion, recovered, late bool) event.OperationCompleted {
	calls := c.ToolCalls
	if calls == nil {
		calls = []event.ToolCall{}
	}
	return event.OperationCompleted{
		OperationID: id, FinishReason: c.FinishReason, Finish: c.Finish, Text: c.Text, ToolCalls: calls,
		Usage: c.Usage, ResponseDigest: c.ResponseDigest, ResponseBytes: c.ResponseBytes,
		Recovered: recovered, Late: late, Veto: c.Veto,
	}
}

func failed(id string, f Failure, late bool) event.OperationFailed {
	return event.OperationFailed{
		OperationID: id, Dispatch: f.Dispatch, Code: cmp.Or(f.Code, codeUnnamed), HTTPStatus: f.HTTPStatus,
		NextAction: cmp.Or(f.NextAction, "see the provider's status; send the input again if it is still wanted"), Late: late,
	}
}

// codeUnnamed is the code of a failure that the provider gives no name.
const codeUnnamed = "provider_error"

// SawOperation brings a read-only look-up of an operation that has not ended,
// or whose end is unknown.
type SawOperation struct {
	OperationID string
	Observed    event.Observed
	By          string // input id of the decision that asked, "" if the loop did
}

func (c SawOperation) decide(s State) (Fact, error) {
	if _, _, err := s.inspectable(c.OperationID); err != nil {
		return Fact{}, err
	}
	return Fact{Payload: event.OperationInspected{OperationID: c.OperationID, Observed: c.Observed}, Cause: c.By}, nil
}

// inspectable finds an operation whose original is worth a look; late tells
// that its generation has ended.
func (s *State) inspectable(id string) (op *Operation, late bool, err error) {
	op = s.operation(id)
	if op == nil || op.Phase != OperationDispatched && op.Phase != OperationUnknown {
		return nil, false, rejected("the operation is not open: there is nothing to inspect")
	}
	late = s.Generation == nil || s.Generation.Operation == nil || s.Generation.Operation.ID != id
	if !late && s.closing() {
		return nil, false, rejected("its generation is ending: what the original says is late evidence then")
	}
	return op, late, nil
}

// RecoverOperation brings the original's saved end (contract 6.1): after a
// SawOperation that observed it as complete. Of an ended generation it is late
// evidence, and nothing follows from it.
type RecoverOperation struct {
	OperationID string
	Found       Inspection
}

func (c RecoverOperation) decide(s State) (Fact, error) {
	op, late, err := s.inspectable(c.OperationID)
	if err != nil {
		return Fact{}, err
	}
	switch {
	case c.Found.Observed != event.ObservedComplete:
	case c.Found.Completion != nil:
		return Fact{Payload: completed(op.ID, *c.Found.Completion, true, late)}, nil
	case c.Found.Failure != nil:
		return Fact{Payload: failed(op.ID, *c.Found.Failure, late)}, nil
	}
	return Fact{}, rejected("the look-up holds no result")
}

// AnswerSteering brings the provider's answer to a steering.sent.
type AnswerSteering struct {
	InputID string
	Answer  SteerAnswer
}

func (c AnswerSteering) decide(s State) (Fact, error) {
	in := s.input(c.InputID)
	if in == nil || in.Phase != InputSent || in.Epoch != s.Epoch {
		return Fact{}, rejected("no answer is awaited for this input")
	}
	switch c.Answer {
	case SteerAccepted:
		return Fact{Payload: event.SteeringAccepted{
			InputID: in.InputID, TargetGenerationID: in.GenerationID, Delivery: event.DeliveryNative,
		}}, nil
	case SteerRefused:
		return Fact{Payload: event.SteeringRefused{InputID: in.InputID, TargetGenerationID: in.GenerationID}}, nil
	}
	return *s.unknownInput(*in, "").fact, nil
}

// ConfirmSteering brings the successor boundary that applied an input. An
// unanswered one is accepted first: send AnswerSteering before.
type ConfirmSteering struct{ InputID string }

func (c ConfirmSteering) decide(s State) (Fact, error) {
	in := s.input(c.InputID)
	if in == nil || in.Phase != InputOwned && in.Phase != InputUnknown {
		return Fact{}, rejected("the provider does not own this input")
	}
	return Fact{Payload: event.SteeringApplied{
		InputID: in.InputID, TargetGenerationID: in.GenerationID, Delivery: event.DeliveryNative,
	}}, nil
}

// EndInvocation brings a tool's receipt; a lost one is looked up instead.
type EndInvocation struct {
	InvocationID string
	Outcome      ToolOutcome
}

func (c EndInvocation) decide(s State) (Fact, error) {
	inv := s.invocation(c.InvocationID)
	if inv == nil || inv.Phase != InvocationDispatched && inv.Phase != InvocationUncertain || c.Outcome.Lost {
		return Fact{}, rejected("no receipt is awaited for this invocation")
	}
	late := inv.Phase == InvocationUncertain
	if late && s.Generation != nil && s.Generation.ID == inv.GenerationID {
		return Fact{}, rejected("the invocation waits for a decision")
	}
	if c.Outcome.Failed {
		return Fact{Payload: event.InvocationFailed{InvocationID: inv.InvocationID, Error: c.Outcome.Result, Late: late}}, nil
	}
	return Fact{Payload: event.InvocationCompleted{InvocationID: inv.InvocationID, Result: c.Outcome.Result, OK: true, Late: late}}, nil
}

// SawInvocation brings a read-only look-up of a dispatched invocation. It
// never consumes an approval, and dispatches nothing.
type SawInvocation struct {
	InvocationID string
	Observed     event.Observed
}

func (c SawInvocation) decide(s State) (Fact, error) {
	inv := s.invocation(c.InvocationID)
	if inv == nil || inv.Phase != InvocationDispatched && inv.Phase != InvocationUncertain {
		return Fact{}, rejected("the invocation is not open: there is nothing to inspect")
	}
	return Fact{Payload: event.InvocationInspected{InvocationID: inv.InvocationID, Observed: c.Observed}}, nil
}
