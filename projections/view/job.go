package view

import "github.com/loopd/loopd/event"

// Job is the row of delegated work.
type Job struct {
	Stamp
	JobID          string    `json:"job_id"`
	State          State     `json:"state"`
	CallID         string    `json:"call_id"`
	Tool           string    `json:"tool,omitzero"`
	GenerationID   string    `json:"generation_id,omitzero"` // that began it
	InvocationID   string    `json:"invocation_id,omitzero"`
	Outcome        string    `json:"outcome,omitzero"`
	Status         string    `json:"status,omitzero"` // of job.recovered
	Recovered      bool      `json:"recovered,omitzero"`
	Result         string    `json:"result,omitzero"`
	Effects        string    `json:"effects,omitzero"`
	QueuedSequence event.Seq `json:"queued_sequence,omitzero"`
	EndedSequence  event.Seq `json:"ended_sequence,omitzero"`
}

// View implements Row.
func (*Job) View() Name { return ViewJob }

// CurrentState implements Row.
func (r *Job) CurrentState() State { return r.State }

func routeJob(e event.Event) []string {
	switch p := e.Payload.(type) {
	case event.JobQueued:
		return about(p.JobID)
	case event.JobReturned:
		return about(p.JobID)
	case event.JobFailed:
		return about(p.JobID)
	case event.JobCancelled:
		return about(p.JobID)
	case event.JobCancelRequested:
		return about(p.JobID)
	case event.JobRecovered:
		return about(p.JobID)
	}
	return nil
}

// Fold implements Row.
func (r *Job) Fold(e event.Event) (Row, bool) {
	next := *r
	switch p := e.Payload.(type) {
	case event.JobQueued:
		next.State, next.CallID, next.Tool = StateQueued, p.CallID, p.Tool
		next.GenerationID, next.InvocationID = p.GenerationID, p.InvocationID
		next.QueuedSequence = e.Sequence
	case event.JobCancelRequested:
		if next.EndedSequence != 0 {
			return r, false
		}
		next.State, next.CallID, next.Outcome, next.Effects = StateCancelRequested, p.CallID, p.Outcome, p.Effects
	case event.JobReturned:
		next.end(StateReturned, p.CallID, p.Outcome, p.Result, p.Effects, e.Sequence)
	case event.JobFailed:
		next.end(StateFailed, p.CallID, p.Outcome, p.Result, p.Effects, e.Sequence)
	case event.JobCancelled:
		next.end(StateCancelled, p.CallID, p.Outcome, "", p.Effects, e.Sequence)
	case event.JobRecovered:
		next.recover(p, e.Sequence)
	default:
		return r, false
	}
	next.touch(e)
	return &next, true
}

func (r *Job) end(s State, call, outcome, result, effects string, seq event.Seq) {
	r.State, r.CallID, r.Outcome, r.Result, r.Effects = s, call, outcome, result, effects
	r.EndedSequence = seq
}

// recover is an ending of its own, or evidence beside one (rule J1).
func (r *Job) recover(p event.JobRecovered, seq event.Seq) {
	r.Recovered, r.Status, r.Result = true, p.Status, p.Result
	if r.EndedSequence == 0 {
		r.end(StateRecovered, p.CallID, p.Outcome, p.Result, r.Effects, seq)
	}
}
