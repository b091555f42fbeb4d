package replay

import "github.com/loopd/loopd/event"

// invocation returns the ledger's entry, adopting one that nobody proposed.
func (s *session) invocation(id string) *invocation {
	v := s.invocations[id]
	if v == nil {
		s.proposals++
		v = &invocation{id: id, order: s.proposals}
		if s.open != nil {
			v.generation, v.task = s.open.id, s.open.task
		}
		s.invocations[id] = v
	}
	return v
}

func (s *session) foldInvocation(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.InvocationProposed:
		s.propose(p)
	case event.InvocationWithheld:
		if o := s.operations[p.OperationID]; o != nil {
			if i := o.find(p.ToolCallID, p.Tool); i >= 0 {
				o.calls[i].withheld = true
			}
		}
	case event.InvocationAwaitingApproval:
		s.invocation(p.InvocationID)
	case event.InvocationApproved:
		v := s.invocation(p.InvocationID)
		v.decided, v.approved = true, true
		s.decide(p.DecidedBy)
		t := s.task(v.task)
		t.approvals = append(t.approvals, approval{v.id, p.DecidedBy, e.Sequence})
	case event.InvocationDenied:
		v := s.invocation(p.InvocationID)
		v.decided, v.denied = true, true
		s.decide(p.DecidedBy)
	case event.InvocationWithdrawn:
		s.invocation(p.InvocationID).withdrawn = true
	case event.InvocationDispatched:
		v := s.invocation(p.InvocationID)
		s.proposals++
		v.dispatches++
		v.epoch, v.dispatchOrder = e.Epoch, s.proposals
	case event.InvocationCompleted:
		s.receipt(e, p.InvocationID, p.Late)
	case event.InvocationFailed:
		v := s.invocation(p.InvocationID)
		v.failed = true
		if p.Late || s.ended(v.generation) {
			s.late[e.ID] = true
		}
	case event.InvocationUncertain:
		s.invocation(p.InvocationID).uncertain = true
	case event.InvocationReconciled:
		v := s.invocation(p.InvocationID)
		switch p.Verdict {
		case event.VerdictStillUnknown:
		case event.VerdictAbandon:
			v.abandoned = true
		default:
			v.reconciled = true
		}
		s.decide(p.DecidedBy)
	}
}

func (s *session) decide(inputID string) {
	if inputID == "" {
		return
	}
	in := s.input(inputID)
	in.settled, in.counted = true, true
}

func (s *session) propose(p event.InvocationProposed) {
	if s.invocations[p.InvocationID] != nil {
		return // the first one stands
	}
	v := s.invocation(p.InvocationID)
	v.operation, v.tool, v.digest, v.effect, v.repeats = p.OperationID, p.Tool, p.InputDigest, p.Effect, p.Repeats
	v.required = p.Approval == event.ApprovalRequired
	if v.generation == "" {
		v.generation = p.GenerationID
		if g := s.generations[p.GenerationID]; g != nil {
			v.task = g.task
		}
	}
	if p.Effect == event.EffectWrite {
		t := s.task(v.task)
		t.writes = append(t.writes, v)
	}
	o := s.operations[p.OperationID]
	if o == nil {
		return
	}
	if o.state == running { // its ending is missing
		s.finish(o.id, completed, false)
		o.guess(event.FinishToolCalls)
	}
	if i := o.find(p.ToolCallID, p.Tool); i >= 0 {
		o.calls[i].proposed = true
	}
}

func (s *session) receipt(e *event.Event, id string, marked bool) {
	v := s.invocation(id)
	if marked || s.ended(v.generation) {
		s.late[e.ID] = true
	}
	if v.completed {
		return
	}
	v.completed = true
	t := s.task(v.task)
	t.completed = append(t.completed[:len(t.completed):len(t.completed)], id)
	t.receipts = append(t.receipts, receipt{id, e.Sequence})
}
