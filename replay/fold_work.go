package replay

import (
	"slices"

	"github.com/loopd/loopd/event"
)

// openOr is the open generation, or else the named one if the log knows it.
func (s *session) openOr(id string) *generation {
	if s.open != nil {
		return s.open
	}
	return s.generations[id]
}

// adoptGeneration opens a generation whose start is missing.
func (s *session) adoptGeneration(p event.Payload) {
	if s.open != nil || s.closed {
		return
	}
	g := &generation{}
	switch p := p.(type) {
	case event.InputDelivered:
		g.id, g.initial = p.GenerationID, p.InputID
	case event.OperationAdmitted:
		g.id = p.GenerationID
	}
	if g.id != "" && s.generations[g.id] == nil {
		s.generations[g.id], s.open = g, g
	}
}

// lose ends a generation that the log forgot to end.
func (s *session) lose(g *generation) {
	g.lost = true
	s.end(g)
}

// end closes a generation and drops what only an open one needs.
func (s *session) end(g *generation) {
	g.ended = true
	g.bounds, g.fences = event.Bounds{}, nil
	s.barrier = 0
	for _, o := range g.operations {
		if o.calls = nil; !o.resumable {
			o.merged = ""
		}
	}
	if s.open == g {
		s.open = nil
	}
}

func (s *session) foldGeneration(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.GenerationStarted:
		if s.isOpen(p.GenerationID) {
			return
		}
		if s.open != nil {
			s.lose(s.open)
		}
		g := &generation{id: p.GenerationID, task: p.TaskID, initial: p.InitialInputID, bounds: p.Bounds}
		if in := s.input(p.InitialInputID); in.kind == event.KindDecision && in.verdict == event.VerdictContinue && !in.refusedCommand {
			in.settled = true
			g.grant = s.checkpoints[in.target]
		}
		s.generations[g.id], s.open = g, g
	case event.AssistantMessage:
		s.adoptLists(p.Correlation)
	case event.GenerationFinished:
		if s.open != nil && p.Continuation == nil {
			s.forget(func(in *input) bool { return in.order <= s.open.finalOrder && in.kind != event.KindService })
		}
		s.terminal(p.Correlation)
	case event.GenerationFailed:
		s.terminal(p.Correlation)
	case event.GenerationDetached:
		g := s.openOr(p.GenerationID)
		if g != nil {
			for _, in := range g.fences {
				in.settled = true
			}
		}
		s.terminal(p.Correlation)
	}
}

// terminal ends the generation it names; one that nobody knows is taken for
// the open one, which it most likely means.
func (s *session) terminal(c event.Correlation) {
	g := s.generations[c.GenerationID]
	switch {
	case g == nil && s.open == nil:
		s.generations[c.GenerationID] = &generation{id: c.GenerationID, ended: true}
	case g == nil:
		s.adoptLists(c)
		s.end(s.open)
	case !g.ended:
		s.adoptLists(c)
		s.end(g)
	}
}

// adoptLists takes the log's word for the lists of 5.6, so that a wrong one is
// one finding.
func (s *session) adoptLists(c event.Correlation) {
	g := s.openOr(c.GenerationID)
	if g == nil || g.ended {
		return
	}
	if slices.Equal(g.inputs, c.InputIDs) && slices.Equal(g.accepted, c.AcceptedInputIDs) {
		return
	}
	for _, id := range c.InputIDs {
		if in := s.inputs[id]; in != nil && !slices.Contains(g.inputs, id) {
			in.listed = true
		}
	}
	g.inputs, g.accepted = c.InputIDs, c.AcceptedInputIDs
}

func (s *session) operation(id string) *operation {
	o := s.operations[id]
	if o == nil {
		o = &operation{id: id, segment: 1}
		if g := s.open; g != nil {
			o.generation, o.task = g.id, g.task
			g.operations = append(g.operations, o)
		}
		if claim, ok := s.continuations[id]; ok { // its admission may be missing
			o.segment, o.parent = claim.Segment, s.operations[claim.ParentOperationID]
		}
		s.operations[id] = o
	}
	return o
}

func (s *session) foldOperation(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.OperationAdmitted:
		s.admit(p)
	case event.OperationDispatched:
		o := s.operation(p.OperationID)
		if s.flight != nil && s.flight != o && s.flight.state == running {
			s.flight.guess("")
		}
		o.dispatched = true
		if o.state == running {
			s.flight = o
		}
	case event.OperationCompleted:
		s.complete(e, p)
	case event.OperationFailed:
		s.finish(p.OperationID, failed, s.isLate(e, p.OperationID, p.Late))
	case event.OperationUnknown:
		s.finish(p.OperationID, uncertain, false)
	case event.OperationCancelled:
		s.finish(p.OperationID, cancelled, false)
	case event.OperationInspected:
		s.operation(p.OperationID).inspected = true
	}
}

func (s *session) admit(p event.OperationAdmitted) {
	if s.operations[p.OperationID] != nil {
		return // the first one stands
	}
	o := s.operation(p.OperationID)
	if s.open == nil {
		o.generation = p.GenerationID
	}
	if g := s.generations[o.generation]; g != nil {
		g.final = false
		if n := len(g.operations); n > 1 {
			g.operations[n-2].calls = nil // judged now (V3, P8)
		}
	}
	o.segment, o.service, o.revision = p.Segment, p.ServiceID, p.DescriptorRevision
	if p.Segment > 1 && o.parent == nil {
		o.parent = s.operations[p.ParentOperationID]
	}
	delete(s.continuations, p.OperationID)
	s.barrier = 0
}

// isLate reports late evidence, and remembers its event (P7).
func (s *session) isLate(e *event.Event, operation string, marked bool) bool {
	o := s.operations[operation]
	late := marked || o != nil && s.ended(o.generation)
	if late {
		s.late[e.ID] = true
	}
	return late
}

func (s *session) finish(id string, state ending, late bool) {
	o := s.operation(id)
	if o.state != running && o.state != uncertain {
		return // the first one stands
	}
	if state == uncertain {
		o.inspected = false
	}
	o.state, o.late = state, late
	if state != cancelled {
		o.dispatched = true
	}
	if s.flight == o {
		s.flight = nil
	}
	if g := s.generations[o.generation]; g != nil && !late {
		g.final = false
	}
}

func (s *session) complete(e *event.Event, p event.OperationCompleted) {
	late := s.isLate(e, p.OperationID, p.Late)
	if o := s.operations[p.OperationID]; o != nil && o.state == completed {
		return
	}
	s.finish(p.OperationID, completed, late)
	o := s.operations[p.OperationID]
	o.finish, o.veto, o.completedAt = p.Finish, p.Veto, e.Sequence
	if late {
		return
	}
	t := s.task(o.task)
	t.operations = append(t.operations, o)
	o.merged = p.Text
	if o.parent != nil {
		before, known := o.parent.text()
		o.merged, o.guessed = Merge(before, p.Text), !known
		if len(o.merged) == len(before) {
			o.idle = o.parent.idle + 1
		}
		if g := s.generations[o.generation]; g != nil && g.grant != nil && g.grant.operation == o.parent.id {
			o.idle = min(o.idle, 1) // a grant begins a further set of bounds
		}
		o.parent.resumable = false
		o.parent.merged = ""
	}
	o.calls = make([]call, 0, len(p.ToolCalls))
	for _, c := range p.ToolCalls {
		o.calls = append(o.calls, call{id: c.ID, tool: c.Name, arguments: c.Arguments})
	}
}

func (s *session) foldContinuation(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.CheckpointSaved:
		c := &checkpoint{id: p.CheckpointID, kind: p.Kind, operation: p.OperationID, segment: p.Segment, spent: p.Spent, at: e.Time}
		s.checkpoints[c.id] = c
		if o := s.operations[p.OperationID]; o != nil {
			if o.state == running {
				o.guess(p.Finish)
			}
			if s.flight == o {
				s.flight = nil
			}
			o.resumable = o.resumable || p.Kind == event.CheckpointCutoff
		}
		g := s.openOr(p.GenerationID)
		if g == nil {
			return
		}
		if p.Kind == event.CheckpointFinal {
			g.final, g.finalOperation, g.finalOrder = true, p.OperationID, s.order
		}
		s.task(g.task).completed = p.Invocations
	case event.ContinuationStarted:
		c := s.checkpoints[p.CheckpointID]
		if c == nil {
			c = &checkpoint{id: p.CheckpointID, kind: event.CheckpointCutoff, operation: p.ParentOperationID, segment: p.Segment - 1}
			s.checkpoints[c.id] = c
		}
		c.started = true
		p.ParentOperationID, p.Segment = c.operation, c.segment+1
		s.continuations[p.OperationID] = p
	case event.ContinuationStopped:
		if c := s.checkpoints[p.CheckpointID]; c != nil {
			c.stopped = true
		}
	}
}

func (s *session) foldJob(p event.Payload) {
	switch p := p.(type) {
	case event.JobQueued:
		if s.jobs[p.JobID] == nil {
			s.jobs[p.JobID] = &job{id: p.JobID}
			s.openJobs = append(s.openJobs, p.JobID)
		}
	case event.JobReturned:
		s.endJob(p.JobID, "returned")
	case event.JobFailed:
		s.endJob(p.JobID, "failed")
	case event.JobCancelled:
		s.endJob(p.JobID, "cancelled")
		s.cancelAsked(p.JobID)
	case event.JobCancelRequested:
		s.cancelAsked(p.JobID)
	case event.JobRecovered:
		s.endJob(p.JobID, "recovered")
		s.jobs[p.JobID].recovered = true
	}
}

func (s *session) endJob(id, how string) {
	j := s.jobs[id]
	if j == nil {
		j = &job{id: id}
		s.jobs[id] = j
	}
	if j.ended == "" {
		j.ended = how
	}
	s.openJobs = remove(s.openJobs, id)
}

func (s *session) cancelAsked(jobID string) {
	for _, in := range s.commands {
		if in.kind == event.KindCancelJob && in.target == jobID {
			in.settled = true
		}
	}
}
