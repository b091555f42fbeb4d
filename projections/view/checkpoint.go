package view

import "github.com/loopd/loopd/event"

// Checkpoint is the row of a saved place.
type Checkpoint struct {
	Stamp
	CheckpointID       string          `json:"checkpoint_id"`
	State              State           `json:"state"`
	Kind               string          `json:"kind"`
	GenerationID       string          `json:"generation_id"`
	TaskID             string          `json:"task_id"`
	OperationID        string          `json:"operation_id"` // whose answer it saved
	ServiceID          string          `json:"service_id"`
	DescriptorRevision string          `json:"descriptor_revision"`
	Finish             event.Finish    `json:"finish"`
	Delivered          event.Delivered `json:"delivered"`
	Invocations        []string        `json:"invocations"`
	Segment            int             `json:"segment"`
	Spent              event.Spent     `json:"spent"`
	ContinuedBy        string          `json:"continued_by,omitzero"` // the operation that continues it
	Reason             string          `json:"reason,omitzero"`       // of continuation.stopped
	Action             string          `json:"action,omitzero"`       // of continuation.stopped
	SavedSequence      event.Seq       `json:"saved_sequence"`
}

// View implements Row.
func (*Checkpoint) View() Name { return ViewCheckpoint }

// CurrentState implements Row.
func (r *Checkpoint) CurrentState() State { return r.State }

func routeCheckpoint(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.CheckpointSaved:
		return about(p.CheckpointID)
	case event.ContinuationStarted:
		return about(p.CheckpointID)
	case event.ContinuationStopped:
		return maybe(p.CheckpointID)
	}
	return nil
}

// Fold implements Row.
func (r *Checkpoint) Fold(e event.Event) (Row, bool) {
	next := *r
	switch p := e.Payload.(type) {
	case event.CheckpointSaved:
		next.save(p, e.Sequence)
	case event.ContinuationStarted:
		next.State, next.ContinuedBy = StateContinued, p.OperationID
	case event.ContinuationStopped:
		next.State, next.Reason, next.Action = StateStopped, p.Reason, p.Action
	default:
		return r, false
	}
	next.touch(e)
	return &next, true
}

func (r *Checkpoint) save(p event.CheckpointSaved, seq event.Seq) {
	r.State, r.Kind, r.GenerationID, r.TaskID = StateSaved, p.Kind, p.GenerationID, p.TaskID
	r.OperationID, r.ServiceID, r.DescriptorRevision = p.OperationID, p.ServiceID, p.DescriptorRevision
	r.Finish, r.Delivered, r.Invocations = p.Finish, p.Delivered, p.Invocations
	r.Segment, r.Spent, r.SavedSequence = p.Segment, p.Spent, seq
}
