package view

import "github.com/loopd/loopd/event"

// Input is the row of an input: content or command.
type Input struct {
	Stamp
	InputID            string     `json:"input_id"`
	State              State      `json:"state"`
	Kind               event.Kind `json:"kind,omitzero"`
	Source             string     `json:"source,omitzero"`
	Target             string     `json:"target,omitzero"`
	TargetGenerationID string     `json:"target_generation_id,omitzero"` // of the input: it is anchored
	Verdict            string     `json:"verdict,omitzero"`              // of a decision
	Digest             string     `json:"digest"`
	InboxSeq           uint64     `json:"inbox_seq"`
	AcceptedSequence   event.Seq  `json:"accepted_sequence,omitzero"`
	GenerationID       string     `json:"generation_id,omitzero"` // the last event about it named this one
	Delivery           string     `json:"delivery,omitzero"`      // the route it took: new_turn, request_boundary, native
	DeliveredSequence  event.Seq  `json:"delivered_sequence,omitzero"`
	Applied            bool       `json:"applied,omitzero"` // steering.applied confirmed it
	Refused            bool       `json:"refused,omitzero"` // steer_live said a definite no
	Reason             string     `json:"reason,omitzero"`  // why it is held, unknown or rejected
	Hint               string     `json:"hint,omitzero"`    // of input.rejected
	By                 string     `json:"by,omitzero"`      // the withdraw command
	Effect             event.Type `json:"effect,omitzero"`  // of a command: the last event that it caused
	EffectSequence     event.Seq  `json:"effect_sequence,omitzero"`
	Conflicts          int        `json:"conflicts,omitzero"` // other contents refused under this id
}

// View implements Row.
func (*Input) View() Name { return ViewInput }

// CurrentState implements Row.
func (r *Input) CurrentState() State { return r.State }

// routeInput sends an event to the input that it is about, and to the command
// that it carries out.
func routeInput(e event.Event) []string {
	if id, ok := inputOf(e.Payload); ok {
		return append(about(id), maybe(commandsOf(e)...)...)
	}
	return maybe(commandsOf(e)...)
}

// inputOf is the input that a fact is about.
func inputOf(p event.Payload) (id string, ok bool) {
	switch p := p.(type) {
	case event.InputAccepted:
		return p.InputID, true
	case event.InputRejected:
		return p.InputID, true
	case event.InputQueued:
		return p.InputID, true
	case event.InputDelivered:
		return p.InputID, true
	case event.InputHeld:
		return p.InputID, true
	case event.InputWithdrawn:
		return p.InputID, true
	case event.InputUnknown:
		return p.InputID, true
	case event.CommandRejected:
		return p.InputID, true
	case event.ObservationReceived:
		return p.InputID, true
	case event.SteeringSent:
		return p.InputID, true
	case event.SteeringAccepted:
		return p.InputID, true
	case event.SteeringApplied:
		return p.InputID, true
	case event.SteeringRefused:
		return p.InputID, true
	case event.SteeringHeld:
		return p.InputID, true
	case event.SteeringUnknown:
		return p.InputID, true
	}
	return "", false
}

// commandsOf are the ids, some empty, that may name the command whose effect
// e is: what a command causes names it as its cause (contract, section 2).
func commandsOf(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.InputWithdrawn:
		return []string{p.By, e.Cause}
	case event.GenerationStarted:
		return []string{p.InitialInputID, e.Cause}
	case event.InvocationApproved:
		return []string{p.DecidedBy, e.Cause}
	case event.InvocationDenied:
		return []string{p.DecidedBy, e.Cause}
	case event.InvocationReconciled:
		return []string{p.DecidedBy, e.Cause}
	case event.SessionClosed, event.InputHeld, event.InputUnknown, event.SteeringHeld,
		event.GenerationFinished, event.GenerationFailed, event.GenerationDetached,
		event.OperationCompleted, event.OperationFailed, event.OperationUnknown, event.OperationCancelled, event.OperationInspected,
		event.ContinuationStarted, event.ContinuationStopped, event.InvocationWithdrawn,
		event.InvocationInspected, event.JobCancelRequested, event.JobCancelled, event.JobRecovered:
		return []string{e.Cause}
	}
	return nil
}

// Fold implements Row.
func (r *Input) Fold(e event.Event) (Row, bool) {
	next := *r
	id, ok := inputOf(e.Payload)
	changed := false
	switch {
	case !ok || id != r.InputID:
		changed = next.effect(e)
	default:
		changed = next.admit(e) || next.deliver(e.Payload, e.Sequence) || next.steer(e.Payload)
	}
	if changed {
		next.touch(e)
	}
	return &next, changed
}

// effect notes that the command was carried out; content has no effects.
func (r *Input) effect(e event.Event) bool {
	if !r.Kind.Command() || r.State == StateRejected {
		return false
	}
	r.State, r.Effect, r.EffectSequence = StateEffected, e.Type, e.Sequence
	return true
}

func (r *Input) admit(e event.Event) bool {
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		return r.accept(p, e.Sequence)
	case event.InputRejected:
		return r.reject(p)
	case event.CommandRejected:
		r.State, r.Reason = StateRejected, p.Reason
		return true
	}
	return false
}

// accept begins the row. One that was begun stands, but for a refusal of other
// content: that concerned its own digest alone (rule I3).
func (r *Input) accept(p event.InputAccepted, seq event.Seq) bool {
	if r.State != "" && r.Reason != event.RejectIdentityConflict {
		return false
	}
	r.State, r.Reason, r.Hint = StateAccepted, "", ""
	r.Kind, r.Source, r.Target, r.Digest = p.Kind, p.Source, p.Target, p.Digest
	r.InboxSeq, r.AcceptedSequence, r.GenerationID = p.InboxSeq, seq, p.GenerationID
	if in, err := event.ParseInput(p.Input); err == nil {
		r.TargetGenerationID, r.Verdict = in.TargetGenerationID, in.Verdict
	}
	return true
}

// reject begins the row, or, of an id that has one, counts the conflict and
// leaves all else as the first content made it.
func (r *Input) reject(p event.InputRejected) bool {
	conflict := p.Reason == event.RejectIdentityConflict
	if conflict {
		r.Conflicts++
	}
	if r.State != "" {
		return conflict
	}
	r.State, r.Digest, r.InboxSeq, r.Reason, r.Hint = StateRejected, p.Digest, p.InboxSeq, p.Reason, p.Hint
	return true
}

func (r *Input) deliver(p event.Payload, seq event.Seq) bool {
	switch p := p.(type) {
	case event.InputQueued:
		r.State, r.Delivery = StateQueued, p.Delivery
		r.name(p.GenerationID)
	case event.InputDelivered:
		r.State, r.Delivery, r.DeliveredSequence = StateDelivered, p.Delivery, seq
		r.name(p.GenerationID)
	case event.InputHeld:
		r.State, r.Reason = StateHeld, p.Reason
		r.name(p.GenerationID)
	case event.InputUnknown:
		r.State, r.Delivery = StateUnknown, p.Route
		r.name(p.GenerationID)
	case event.InputWithdrawn:
		r.State, r.By = StateWithdrawn, p.By
	default:
		return false
	}
	return true
}

func (r *Input) steer(p event.Payload) bool {
	switch p := p.(type) {
	case event.SteeringSent:
		r.State, r.Delivery = StateSent, p.Route
		r.name(p.TargetGenerationID)
	case event.SteeringAccepted:
		r.State, r.Delivery = StateQueued, p.Delivery
		if p.Delivery == event.DeliveryNative {
			r.State = StateOwned
		}
		r.name(p.TargetGenerationID)
	case event.SteeringApplied:
		r.State, r.Delivery, r.Applied = StateDelivered, p.Delivery, true
		if p.Delivery == event.DeliveryNative {
			r.State, r.Reason = StateApplied, "" // the provider's own confirmation may end an unknown
		}
		r.name(p.TargetGenerationID)
	case event.SteeringRefused:
		r.State, r.Delivery, r.Refused = StateAccepted, "", true
		r.name(p.TargetGenerationID)
	case event.SteeringHeld:
		r.State, r.Reason = StateHeld, p.Reason
		r.name(p.TargetGenerationID)
	case event.SteeringUnknown:
		r.State, r.Reason = StateUnknown, p.Reason
		r.name(p.TargetGenerationID)
	default:
		return false
	}
	return true
}

// name keeps the generation that an event about the input names.
func (r *Input) name(generation string) {
	if generation != "" {
		r.GenerationID = generation
	}
}
