package loop

import (
	"github.com/loopd/loopd/event"
)

func (s *State) foldOperation(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.OperationAdmitted:
		return s.foldAdmitted(p)
	case event.OperationDispatched:
		op := s.operation(p.OperationID)
		if op == nil || op.Phase != OperationAdmitted {
			return "the operation is not admitted, or was dispatched before"
		}
		op.Phase, op.Epoch = OperationDispatched, e.Epoch
	case event.OperationCompleted:
		return s.foldCompleted(e, p)
	case event.OperationFailed:
		if op := s.operation(p.OperationID); op != nil {
			op.Phase, op.Failed, op.EndID = OperationFailed, p, e.ID
		}
		s.dropStray(p.OperationID)
	case event.OperationUnknown:
		if op := s.operation(p.OperationID); op != nil {
			op.Phase, op.Reason, op.EndID = OperationUnknown, p.Reason, e.ID
			if p.Reason != event.UnknownOwnerLost {
				op.Look = Look{} // what was seen while it ran says nothing now
			}
		}
	case event.OperationCancelled:
		if op := s.operation(p.OperationID); op != nil {
			op.Phase, op.EndID = OperationCancelled, e.ID
		}
	case event.OperationInspected:
		if op := s.operation(p.OperationID); op != nil {
			op.Look = op.Look.next(e, p.Observed)
		}
		s.dropCommand(e.Cause)
	}
	return ""
}

func (l Look) next(e event.Event, observed event.Observed) Look {
	times := 0
	if observed == event.ObservedPending {
		times = l.Times + 1
	}
	return Look{Observed: observed, Times: times, At: e.Time}
}

func (s *State) foldAdmitted(p event.OperationAdmitted) string {
	if reason := s.mustBeOpen(p.GenerationID); reason != "" {
		return reason
	}
	g := s.Generation
	if op := g.Operation; op != nil && op.Phase < OperationCompleted {
		return "operation " + op.ID + " has not ended"
	}
	if p.Segment == 1 {
		g.Chain = Chain{Segment: 1}
	} else {
		g.Chain.Segment, g.Chain.before = p.Segment, g.Chain.Text
	}
	g.Operation = &Operation{
		ID: p.OperationID, GenerationID: p.GenerationID, Segment: p.Segment, ParentID: p.ParentOperationID,
		CheckpointID: p.CheckpointID, ServiceID: p.ServiceID, Revision: p.DescriptorRevision, RequestDigest: p.RequestDigest,
	}
	g.OperationIDs = append(g.OperationIDs, p.OperationID)
	g.Taken, g.Fresh = false, false
	g.Cutoff, g.Claim, g.Final = nil, nil, ""
	if p.Segment == 1 {
		g.Halt = nil // of another chain, whose stop is told
	}
	return ""
}

func (s *State) foldCompleted(e event.Event, p event.OperationCompleted) string {
	op := s.operation(p.OperationID)
	s.dropStray(p.OperationID)
	g := s.Generation
	if op == nil || g == nil || op != g.Operation || p.Late {
		return ""
	}
	if op.Phase != OperationDispatched && op.Phase != OperationUnknown {
		return "the operation is not in flight"
	}
	op.Phase, op.Completed, op.EndID = OperationCompleted, p, e.ID
	g.LeadID = e.ID
	before := g.Chain.before
	g.Chain.Text = MergeText(before, p.Text)
	if op.Segment > 1 {
		g.Chain.Stagnant++
		if len(g.Chain.Text) > len(before) {
			g.Chain.Stagnant = 0
		}
	}
	if t := s.task(g.TaskID); t != nil && p.Usage != nil {
		t.Tokens += p.Usage.Input + p.Usage.Output
		t.Cost += p.Usage.Cost
	}
	return ""
}

func (s *State) dropStray(id string) {
	for i := range s.Strays {
		if s.Strays[i].ID == id {
			s.Strays = append(s.Strays[:i], s.Strays[i+1:]...)
			return
		}
	}
}

func (s *State) foldContinuation(e event.Event) string {
	g := s.Generation
	if g == nil {
		return "no generation is open"
	}
	switch p := e.Payload.(type) {
	case event.CheckpointSaved:
		if p.Kind == event.CheckpointFinal {
			g.Final = p.CheckpointID
			return ""
		}
		g.Cutoff = &Checkpoint{ID: p.CheckpointID, EventID: e.ID}
	case event.ContinuationStarted:
		if g.Cutoff == nil || g.Cutoff.ID != p.CheckpointID || g.Claim != nil {
			return "the checkpoint is not there, or was claimed before"
		}
		g.Claim = &Claim{CheckpointID: p.CheckpointID, ParentID: p.ParentOperationID, OperationID: p.OperationID, Segment: p.Segment}
		g.LeadID = e.ID
	case event.ContinuationStopped:
		s.foldStopped(g, p)
	}
	return ""
}

func (s *State) foldStopped(g *Generation, p event.ContinuationStopped) {
	g.Halt = &event.Continuation{
		State: event.ContinuationStateStopped, Reason: p.Reason, Action: p.Action, CheckpointID: p.CheckpointID,
	}
	op := g.Operation
	if g.Cutoff == nil || g.Cutoff.ID != p.CheckpointID || op == nil || p.Reason == event.StopCancelled {
		return
	}
	s.Stopped = append(s.Stopped, Stopped{
		CheckpointID: p.CheckpointID, OperationID: op.ID, TaskID: g.TaskID, ServiceID: op.ServiceID,
		Revision: op.Revision, Segment: op.Segment, Text: g.Chain.Text, Bounds: g.Bounds,
	})
}

func (s *State) foldInvocation(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.InvocationProposed:
		return s.foldProposed(p)
	case event.InvocationWithheld:
		if g := s.Generation; g != nil && g.Operation != nil && g.Operation.ID == p.OperationID {
			g.Operation.Handled++
		}
	case event.InvocationAwaitingApproval:
		s.moveInvocation(p.InvocationID, InvocationAwaiting, "")
	case event.InvocationApproved:
		s.dropCommand(p.DecidedBy)
		s.moveInvocation(p.InvocationID, InvocationApproved, "")
	case event.InvocationDenied:
		s.dropCommand(p.DecidedBy)
		s.moveInvocation(p.InvocationID, InvocationDenied, e.ID)
	case event.InvocationWithdrawn:
		s.moveInvocation(p.InvocationID, InvocationWithdrawn, "")
	case event.InvocationDispatched:
		if inv := s.moveInvocation(p.InvocationID, InvocationDispatched, ""); inv != nil {
			inv.Epoch, inv.Look = e.Epoch, Look{}
		}
	case event.InvocationCompleted:
		if inv := s.moveInvocation(p.InvocationID, InvocationCompleted, e.ID); inv != nil {
			s.countCompleted(p.InvocationID)
		}
	case event.InvocationFailed:
		s.moveInvocation(p.InvocationID, InvocationFailed, e.ID)
	case event.InvocationUncertain:
		s.moveInvocation(p.InvocationID, InvocationUncertain, "")
	case event.InvocationInspected:
		if inv := s.invocation(p.InvocationID); inv != nil {
			inv.Look = inv.Look.next(e, p.Observed)
		}
	case event.InvocationReconciled:
		s.dropCommand(p.DecidedBy)
		if p.Verdict != event.VerdictStillUnknown {
			s.moveInvocation(p.InvocationID, InvocationReconciled, e.ID)
		}
	}
	return ""
}

func (s *State) foldProposed(p event.InvocationProposed) string {
	if reason := s.mustBeOpen(p.GenerationID); reason != "" {
		return reason
	}
	g := s.Generation
	if g.Operation == nil || g.Operation.ID != p.OperationID {
		return "its operation is not the generation's last"
	}
	if len(g.Invocations) > 0 && g.Invocations[0].OperationID != p.OperationID {
		g.Invocations = nil
	}
	g.Operation.Handled++
	g.Operation.Proposed++
	g.Invocations = append(g.Invocations, Invocation{InvocationProposed: p})
	if t := s.task(g.TaskID); t != nil && p.Effect == event.EffectWrite {
		t.Writes = append(t.Writes[:len(t.Writes):len(t.Writes)], Write{InvocationID: p.InvocationID, Tool: p.Tool, Digest: p.InputDigest})
	}
	return ""
}

// moveInvocation changes an invocation's phase; lead names the event that the
// next operation follows from, if this was a result for the model.
func (s *State) moveInvocation(id string, to InvocationPhase, lead string) *Invocation {
	s.moveWrite(id, to)
	inv := s.invocation(id)
	if inv == nil {
		return nil
	}
	inv.Phase = to
	if g := s.Generation; lead != "" && g != nil && g.Operation != nil && inv.GenerationID == g.ID {
		g.LeadID = lead
	}
	if to >= InvocationCompleted {
		s.dropLoose(id)
	}
	return s.invocation(id)
}

func (s *State) dropLoose(id string) {
	for i := range s.Loose {
		if s.Loose[i].InvocationID == id {
			s.Loose = append(s.Loose[:i], s.Loose[i+1:]...)
			return
		}
	}
}

func (s *State) moveWrite(id string, to InvocationPhase) {
	for i := range s.Tasks {
		for j := range s.Tasks[i].Writes {
			if s.Tasks[i].Writes[j].InvocationID != id {
				continue
			}
			writes := append([]Write(nil), s.Tasks[i].Writes...)
			writes[j].Phase = to
			writes[j].Dispatched = writes[j].Dispatched || to == InvocationDispatched
			s.Tasks[i].Writes = writes
			return
		}
	}
}

func (s *State) countCompleted(id string) {
	if g := s.Generation; g != nil {
		if t := s.task(g.TaskID); t != nil {
			t.Completed = append(t.Completed[:len(t.Completed):len(t.Completed)], id)
		}
	}
}

func (s *State) foldJob(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.JobQueued:
		job := Job{JobQueued: p, Epoch: e.Epoch}
		if inv := s.invocation(p.InvocationID); inv != nil {
			inv.JobID, job.Arguments = p.JobID, inv.Arguments
		}
		s.Jobs = append(s.Jobs, job)
	case event.JobReturned:
		s.report(e, p.JobID, p.Result, false)
	case event.JobFailed:
		s.report(e, p.JobID, p.Result, true)
	case event.JobCancelRequested:
		if j := s.job(p.JobID); j != nil && j.running() {
			j.Phase, j.CancelBy = JobCancelRequested, e.Cause
		}
		s.dropCommand(e.Cause)
	case event.JobCancelled:
		s.dropJob(p.JobID)
		s.dropCommand(e.Cause)
	case event.JobRecovered:
		if p.Status == event.StatusUnknown {
			s.dropJob(p.JobID)
		} else {
			s.report(e, p.JobID, p.Result, p.Status == event.StatusFailed)
		}
	}
	return ""
}

// report keeps a job until its result is an accepted service input.
func (s *State) report(e event.Event, id, result string, failed bool) {
	if j := s.job(id); j != nil {
		j.Phase, j.Result, j.Failed, j.EndID = JobReported, result, failed, e.ID
	}
	s.Busy = true
}
