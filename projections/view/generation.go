package view

import "github.com/loopd/loopd/event"

// Generation is the row of a generation.
type Generation struct {
	Stamp
	GenerationID     string              `json:"generation_id"`
	State            State               `json:"state"`
	InitialInputID   string              `json:"initial_input_id"`
	CallID           string              `json:"call_id,omitzero"`
	TaskID           string              `json:"task_id"`
	Bounds           event.Bounds        `json:"bounds"`
	InputIDs         []string            `json:"input_ids"`
	AcceptedInputIDs []string            `json:"accepted_input_ids"`
	OperationIDs     []string            `json:"operation_ids"`
	JobIDs           []string            `json:"job_ids"`                 // the jobs it began
	ActiveJobIDs     []string            `json:"active_job_ids"`          // of generation.finished
	CheckpointID     string              `json:"checkpoint_id,omitzero"`  // the last one saved
	OperationID      string              `json:"operation_id,omitzero"`   // that it failed or was detached at
	Text             string              `json:"text,omitzero"`           // of generation.finished
	Disposition      string              `json:"disposition,omitzero"`    // of generation.finished
	Reason           string              `json:"reason,omitzero"`         // of generation.detached
	Cancellation     string              `json:"cancellation,omitzero"`   // of generation.detached
	ErrorType        string              `json:"error_type,omitzero"`     // of generation.failed
	Stage            string              `json:"stage,omitzero"`          // of generation.failed
	NextAction       string              `json:"next_action,omitzero"`    // of generation.failed
	Continuation     *event.Continuation `json:"continuation,omitzero"`   // of generation.finished
	StartedSequence  event.Seq           `json:"started_sequence"`        // generation.started
	EndedSequence    event.Seq           `json:"ended_sequence,omitzero"` // the terminal event
	StartedAt        string              `json:"started_at"`              // for people
}

// View implements Row.
func (*Generation) View() Name { return ViewGeneration }

// CurrentState implements Row.
func (r *Generation) CurrentState() State { return r.State }

func routeGeneration(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.GenerationStarted:
		return about(p.GenerationID)
	case event.AssistantMessage:
		return about(p.GenerationID)
	case event.GenerationFinished:
		return about(p.GenerationID)
	case event.GenerationFailed:
		return about(p.GenerationID)
	case event.GenerationDetached:
		return about(p.GenerationID)
	case event.InputDelivered:
		return about(p.GenerationID)
	case event.InputHeld:
		return maybe(p.GenerationID)
	case event.InputUnknown:
		return maybe(p.GenerationID)
	case event.SteeringAccepted:
		return about(p.TargetGenerationID)
	case event.SteeringApplied:
		return about(p.TargetGenerationID)
	case event.SteeringHeld:
		return about(p.TargetGenerationID)
	case event.SteeringUnknown:
		return about(p.TargetGenerationID)
	case event.OperationAdmitted:
		return about(p.GenerationID)
	case event.CheckpointSaved:
		return about(p.GenerationID)
	case event.JobQueued:
		return about(p.GenerationID)
	}
	return nil
}

// Fold implements Row. A terminal event is the last word.
func (r *Generation) Fold(e event.Event) (Row, bool) {
	next := *r
	if r.State != "" && r.State != StateOpen {
		return &next, false
	}
	if !next.open(e) && !next.correlate(e.Payload) && !next.work(e.Payload) && !next.end(e.Payload) {
		return &next, false
	}
	next.touch(e)
	if next.State != StateOpen {
		next.EndedSequence = e.Sequence
	}
	return &next, true
}

func (r *Generation) open(e event.Event) bool {
	p, ok := e.Payload.(event.GenerationStarted)
	if !ok || r.State != "" {
		return false
	}
	r.State, r.InitialInputID, r.CallID = StateOpen, p.InitialInputID, p.CallID
	r.TaskID, r.Bounds = p.TaskID, p.Bounds
	r.StartedSequence, r.StartedAt = e.Sequence, e.Time.Format(timeLayout)
	return true
}

// correlate follows contract 5.6 while the generation is open.
func (r *Generation) correlate(p event.Payload) bool {
	switch p := p.(type) {
	case event.InputDelivered:
		r.take(p.InputID)
	case event.SteeringApplied:
		r.take(p.InputID)
	case event.SteeringAccepted:
		r.AcceptedInputIDs = with(r.AcceptedInputIDs, p.InputID)
	case event.InputHeld:
		r.AcceptedInputIDs = without(r.AcceptedInputIDs, p.InputID)
	case event.SteeringHeld:
		r.AcceptedInputIDs = without(r.AcceptedInputIDs, p.InputID)
	case event.InputUnknown:
		r.AcceptedInputIDs = without(r.AcceptedInputIDs, p.InputID)
	case event.SteeringUnknown:
		r.AcceptedInputIDs = without(r.AcceptedInputIDs, p.InputID)
	case event.AssistantMessage:
		r.InputIDs, r.AcceptedInputIDs = p.InputIDs, p.AcceptedInputIDs
	default:
		return false
	}
	return true
}

func (r *Generation) take(input string) {
	r.InputIDs = with(r.InputIDs, input)
	r.AcceptedInputIDs = without(r.AcceptedInputIDs, input)
}

func (r *Generation) work(p event.Payload) bool {
	switch p := p.(type) {
	case event.OperationAdmitted:
		r.OperationIDs = with(r.OperationIDs, p.OperationID)
	case event.CheckpointSaved:
		r.CheckpointID = p.CheckpointID
	case event.JobQueued:
		r.JobIDs = with(r.JobIDs, p.JobID)
	default:
		return false
	}
	return true
}

func (r *Generation) end(p event.Payload) bool {
	switch p := p.(type) {
	case event.GenerationFinished:
		r.State, r.Text, r.Disposition = StateFinished, p.Text, p.Disposition
		r.ActiveJobIDs, r.OperationIDs, r.Continuation = p.ActiveJobIDs, p.OperationIDs, p.Continuation
		r.InputIDs, r.AcceptedInputIDs = p.InputIDs, p.AcceptedInputIDs
	case event.GenerationFailed:
		r.State, r.ErrorType, r.Stage = StateFailed, p.ErrorType, p.Stage
		r.OperationID, r.NextAction = p.OperationID, p.NextAction
		r.InputIDs, r.AcceptedInputIDs = p.InputIDs, p.AcceptedInputIDs
	case event.GenerationDetached:
		r.State, r.Reason, r.Cancellation = StateDetached, p.Reason, p.Cancellation
		r.OperationID = p.OperationID
		r.InputIDs, r.AcceptedInputIDs = p.InputIDs, p.AcceptedInputIDs
	default:
		return false
	}
	return true
}
