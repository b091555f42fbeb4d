package replay

import "github.com/loopd/loopd/event"

// Operations.
var rulesO = []Rule{
	{ID: "O1", Sentence: "admitted before dispatched; dispatched at most once; one terminal (an `unknown` may become `completed` or `failed` by inspection)", judge: judgeO1,
		types: []event.Type{event.TypeOperationAdmitted, event.TypeOperationDispatched, event.TypeOperationCompleted, event.TypeOperationFailed,
			event.TypeOperationUnknown, event.TypeOperationCancelled, event.TypeOperationInspected, event.TypeCheckpointSaved}},
	{ID: "O2", Sentence: "at most one operation of a session is in flight (from `dispatched` to its ending)", judge: judgeO2,
		types: []event.Type{event.TypeOperationDispatched}},
	{ID: "O3", Sentence: "`segment > 1` has a `parent_operation_id`, completed with `finish: output_budget`, and a `continuation.started` that names both", judge: judgeO3,
		types: []event.Type{event.TypeOperationAdmitted, event.TypeContinuationStarted}},
	{ID: "O4", Sentence: "no new operation in a generation whose last operation is unknown", judge: judgeO4,
		types: []event.Type{event.TypeOperationAdmitted}},
}

func judgeO1(l *look) {
	switch p := l.e.Payload.(type) {
	case event.OperationAdmitted:
		if l.s.operations[p.OperationID] != nil {
			l.say("operation %s was admitted before", p.OperationID)
		}
	case event.OperationDispatched:
		o := admitted(l, p.OperationID)
		switch {
		case o == nil:
		case o.dispatched:
			l.say("operation %s was dispatched before; no id ever is twice", o.id)
		case o.state != running:
			l.say("operation %s is dispatched, but it has ended (%s)", o.id, o.state)
		}
	case event.OperationCompleted:
		judgeEnding(l, p.OperationID, true, p.Recovered || p.Late)
		if o := l.s.operations[p.OperationID]; o != nil && p.Late && o.dispatched && o.state == running && l.s.ended(o.generation) {
			l.sayMissing("operation %s was in flight when generation %s ended, and was not said to be unknown", o.id, o.generation)
		}
	case event.OperationFailed:
		judgeEnding(l, p.OperationID, p.Dispatch != event.DispatchNotDispatched, p.Late)
	case event.OperationUnknown:
		if o := admitted(l, p.OperationID); o != nil && o.state != running {
			l.say("operation %s has ended (%s), and is now unknown", o.id, o.state)
		} else if o != nil && !o.dispatched {
			l.sayMissing("operation %s is unknown, but was never dispatched", o.id)
		}
	case event.OperationCancelled:
		if o := admitted(l, p.OperationID); o != nil && o.state != running {
			l.say("operation %s has ended (%s), and is now cancelled", o.id, o.state)
		} else if o != nil && o.dispatched {
			l.say("operation %s was dispatched; only one that was not is cancelled", o.id)
		}
	case event.OperationInspected:
		admitted(l, p.OperationID)
	case event.CheckpointSaved:
		if o := l.s.operations[p.OperationID]; o != nil && o.state == running {
			l.sayMissing("operation %s has no ending, and checkpoint %s stands on it", o.id, p.CheckpointID)
		}
	}
}

func admitted(l *look, id string) *operation {
	o := l.s.operations[id]
	if o == nil {
		l.sayMissing("operation %q was never admitted", id)
	}
	return o
}

// judgeEnding: ran says that a byte had left; inspected, that the event itself
// tells of a look-up of the original.
func judgeEnding(l *look, id string, ran, inspected bool) {
	o := admitted(l, id)
	switch {
	case o == nil:
	case o.state == uncertain && !inspected && !o.inspected:
		l.sayMissing("operation %s was unknown and has ended without an inspection", id)
	case o.state != running && o.state != uncertain:
		l.say("operation %s has ended before (%s)", id, o.state)
	case ran && !o.dispatched:
		l.sayMissing("operation %s has ended, but was never dispatched", id)
	}
}

func judgeO2(l *look) {
	p := l.e.Payload.(event.OperationDispatched)
	if o := l.s.flight; o != nil && o.id != p.OperationID {
		l.sayMissing("operation %s is dispatched while %s is in flight", p.OperationID, o.id)
	}
}

func judgeO3(l *look) {
	switch p := l.e.Payload.(type) {
	case event.ContinuationStarted:
		c := l.s.checkpoints[p.CheckpointID]
		switch {
		case c == nil: // C1
		case c.operation != p.ParentOperationID:
			l.say("parent_operation_id %q, but checkpoint %s stands on %q", p.ParentOperationID, c.id, c.operation)
		case c.segment+1 != p.Segment:
			l.say("segment %d, but checkpoint %s stands at %d", p.Segment, c.id, c.segment)
		}
	case event.OperationAdmitted:
		judgeSegment(l, p)
	}
}

func judgeSegment(l *look, p event.OperationAdmitted) {
	claim, claimed := l.s.continuations[p.OperationID]
	if p.Segment <= 1 && !claimed || l.s.operations[p.OperationID] != nil {
		return
	}
	parent := l.s.operations[p.ParentOperationID]
	switch {
	case !claimed:
		l.sayMissing("segment %d, but no continuation.started names operation %s", p.Segment, p.OperationID)
	case p.ParentOperationID != claim.ParentOperationID:
		l.say("parent_operation_id %q, but the continuation names %q", p.ParentOperationID, claim.ParentOperationID)
	case p.CheckpointID != "" && p.CheckpointID != claim.CheckpointID:
		l.say("checkpoint_id %q, but the continuation claimed %q", p.CheckpointID, claim.CheckpointID)
	case p.Segment != claim.Segment:
		l.say("segment %d, but the continuation names %d", p.Segment, claim.Segment)
	case parent == nil:
		l.sayMissing("parent operation %q was never admitted", p.ParentOperationID)
	case parent.state != completed || parent.finish != event.FinishOutputBudget:
		l.sayMissing("parent operation %s is %s (finish %q): only one cut off by its output budget continues", parent.id, parent.state, parent.finish)
	}
}

func judgeO4(l *look) {
	p := l.e.Payload.(event.OperationAdmitted)
	g := l.s.generations[p.GenerationID]
	if g == nil || g.last() == nil || l.s.operations[p.OperationID] != nil {
		return
	}
	if o := g.last(); o.state == uncertain {
		l.sayMissing("operation %s is new in generation %s, whose last operation %s is unknown: inspect that one", p.OperationID, g.id, o.id)
	}
}
