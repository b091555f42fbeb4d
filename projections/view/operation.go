package view

import "github.com/loopd/loopd/event"

// Operation is the row of one model request.
type Operation struct {
	Stamp
	OperationID        string         `json:"operation_id"`
	State              State          `json:"state"`
	GenerationID       string         `json:"generation_id"`
	Segment            int            `json:"segment"`
	ParentOperationID  string         `json:"parent_operation_id,omitzero"`
	CheckpointID       string         `json:"checkpoint_id,omitzero"` // that it continues
	ServiceID          string         `json:"service_id"`
	DescriptorRevision string         `json:"descriptor_revision"`
	RequestDigest      string         `json:"request_digest"`
	OutputBudget       int64          `json:"output_budget,omitzero"`
	Finish             event.Finish   `json:"finish,omitzero"`
	FinishReason       string         `json:"finish_reason,omitzero"`
	Text               string         `json:"text,omitzero"`
	Calls              int            `json:"calls,omitzero"`    // tool calls of the answer
	Withheld           int            `json:"withheld,omitzero"` // of them, shown and never run
	WithheldReason     string         `json:"withheld_reason,omitzero"`
	Veto               string         `json:"veto,omitzero"`
	Usage              *event.Usage   `json:"usage,omitzero"`
	ResponseDigest     string         `json:"response_digest,omitzero"`
	ResponseBytes      int64          `json:"response_bytes,omitzero"`
	Recovered          bool           `json:"recovered,omitzero"` // the answer came by a look-up
	Late               bool           `json:"late,omitzero"`      // the answer is evidence only
	Dispatch           string         `json:"dispatch,omitzero"`  // of operation.failed, .cancelled
	Code               string         `json:"code,omitzero"`
	HTTPStatus         int            `json:"http_status,omitzero"`
	Reason             string         `json:"reason,omitzero"` // of operation.unknown
	NextAction         string         `json:"next_action,omitzero"`
	Observed           event.Observed `json:"observed,omitzero"` // of the last look-up
	Inspections        int            `json:"inspections,omitzero"`
	StopReason         string         `json:"stop_reason,omitzero"` // of continuation.stopped
	StopAction         string         `json:"stop_action,omitzero"`
	AdmittedSequence   event.Seq      `json:"admitted_sequence"`
	DispatchedSequence event.Seq      `json:"dispatched_sequence,omitzero"`
	EndedSequence      event.Seq      `json:"ended_sequence,omitzero"` // completed, failed or cancelled
}

// View implements Row.
func (*Operation) View() Name { return ViewOperation }

// CurrentState implements Row.
func (r *Operation) CurrentState() State { return r.State }

func routeOperation(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.OperationAdmitted:
		return about(p.OperationID)
	case event.OperationDispatched:
		return about(p.OperationID)
	case event.OperationCompleted:
		return about(p.OperationID)
	case event.OperationFailed:
		return about(p.OperationID)
	case event.OperationUnknown:
		return about(p.OperationID)
	case event.OperationCancelled:
		return about(p.OperationID)
	case event.OperationInspected:
		return about(p.OperationID)
	case event.InvocationWithheld:
		return about(p.OperationID)
	case event.ContinuationStopped:
		return maybe(p.OperationID)
	}
	return nil
}

// Fold implements Row.
func (r *Operation) Fold(e event.Event) (Row, bool) {
	next := *r
	switch p := e.Payload.(type) {
	case event.OperationAdmitted:
		next.admit(p, e.Sequence)
	case event.OperationDispatched:
		next.State, next.DispatchedSequence = StateDispatched, e.Sequence
	case event.OperationCompleted:
		next.complete(p)
		next.EndedSequence = e.Sequence
	case event.OperationFailed:
		next.State, next.Dispatch, next.Code = StateFailed, p.Dispatch, p.Code
		next.HTTPStatus, next.NextAction, next.Late = p.HTTPStatus, p.NextAction, p.Late
		next.EndedSequence = e.Sequence
	case event.OperationUnknown:
		next.State, next.Reason, next.NextAction = StateUnknown, p.Reason, p.NextAction
	case event.OperationCancelled:
		next.State, next.Dispatch = StateCancelled, p.Dispatch
		next.EndedSequence = e.Sequence
	case event.OperationInspected:
		next.Observed = p.Observed
		next.Inspections++
	case event.InvocationWithheld:
		next.Withheld++
		next.WithheldReason = p.Reason
	case event.ContinuationStopped:
		next.StopReason, next.StopAction = p.Reason, p.Action
	default:
		return r, false
	}
	next.touch(e)
	return &next, true
}

func (r *Operation) admit(p event.OperationAdmitted, seq event.Seq) {
	r.State, r.GenerationID, r.Segment = StateAdmitted, p.GenerationID, p.Segment
	r.ParentOperationID, r.CheckpointID = p.ParentOperationID, p.CheckpointID
	r.ServiceID, r.DescriptorRevision = p.ServiceID, p.DescriptorRevision
	r.RequestDigest, r.OutputBudget, r.AdmittedSequence = p.RequestDigest, p.OutputBudget, seq
}

// complete keeps the reason of an earlier unknown, and drops what it asked for.
func (r *Operation) complete(p event.OperationCompleted) {
	r.State, r.Finish, r.FinishReason, r.Text = StateCompleted, p.Finish, p.FinishReason, p.Text
	r.Calls, r.Veto, r.Usage = len(p.ToolCalls), p.Veto, p.Usage
	r.ResponseDigest, r.ResponseBytes = p.ResponseDigest, p.ResponseBytes
	r.Recovered, r.Late, r.NextAction = p.Recovered, p.Late, ""
}
