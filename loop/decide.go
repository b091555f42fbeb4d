package loop

import (
	"github.com/loopd/loopd/event"
)

// Command is something that happened, or is wanted, and may become one fact.
// The commands are the types of this package with a decide method.
type Command interface {
	decide(s State) (Fact, error)
}

// RejectedError says that a command is not legal now; nothing happened.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string { return "loop: rejected: " + e.Reason }

func rejected(reason string) error { return &RejectedError{Reason: reason} }

// Decide is the one place where a fact is made: one command, one fact. An
// error is always a *RejectedError, and the state is as it was.
func Decide(s State, c Command) (Fact, error) {
	switch s.Phase {
	case PhaseBroken:
		return Fact{}, rejected("the session is broken: " + s.Broken)
	case PhaseNew, PhaseUnclaimed:
		switch c.(type) {
		case Open, ClaimSession:
		default:
			return Fact{}, rejected("the session is not claimed")
		}
	}
	return c.decide(s)
}

// Open is the first fact of a session.
type Open struct{}

func (Open) decide(s State) (Fact, error) {
	if s.Phase != PhaseNew {
		return Fact{}, rejected("the session is open")
	}
	return Fact{Payload: event.SessionOpened{
		Mode: event.SessionModeLoop, Steering: s.Config.Steering, Provider: s.Config.Service.ID, Tools: s.Config.toolNames(),
	}}, nil
}

// ClaimSession begins an owner's epoch.
type ClaimSession struct{ Owner string }

func (c ClaimSession) decide(s State) (Fact, error) {
	if s.Phase == PhaseNew {
		return Fact{}, rejected("the session is not open")
	}
	return Fact{Payload: event.SessionClaimed{Owner: c.Owner, ResumedFrom: s.Seq}}, nil
}

// Advance records what the loop itself does next: what Next called Record.
type Advance struct{ Tick Tick }

func (c Advance) decide(s State) (Fact, error) {
	if _, due := s.dueCommand(); s.Phase == PhaseOpen && !due {
		if st := s.advance(c.Tick); st.fact != nil {
			return *st.fact, nil
		}
	}
	return Fact{}, rejected("nothing is due")
}

// AdmitRequest admits the operation that Next asked to admit.
type AdmitRequest struct {
	Tick          Tick
	OperationID   string
	RequestDigest string
}

func (c AdmitRequest) decide(s State) (Fact, error) {
	if !s.due(c.Tick, Admit{OperationID: c.OperationID}) {
		return Fact{}, rejected("no operation is due")
	}
	g := s.Generation
	a := event.OperationAdmitted{
		OperationID: c.OperationID, GenerationID: g.ID, Segment: 1, ServiceID: s.Config.Service.ID,
		DescriptorRevision: s.Config.Service.Revision, RequestDigest: c.RequestDigest, OutputBudget: s.Config.OutputBudget,
	}
	if claim := g.Claim; claim != nil {
		a.Segment, a.ParentOperationID, a.CheckpointID = claim.Segment, claim.ParentID, claim.CheckpointID
		a.ServiceID, a.DescriptorRevision = g.Operation.ServiceID, g.Operation.Revision
	}
	return Fact{Payload: a, Cause: g.LeadID}, nil
}

// DispatchRequest stands right before the first byte may leave. RequestDigest
// is that of the request about to be sent.
type DispatchRequest struct {
	Tick          Tick
	OperationID   string
	RequestDigest string
}

// codeRequestChanged is the failure of an operation whose request is no longer
// the admitted one: settings changed between two owners.
const codeRequestChanged = "request_changed"

func (c DispatchRequest) decide(s State) (Fact, error) {
	if !s.due(c.Tick, Dispatch{OperationID: c.OperationID}) {
		return Fact{}, rejected("the operation is not to be dispatched")
	}
	op := s.Generation.Operation
	if op.RequestDigest != c.RequestDigest || op.ServiceID != s.Config.Service.ID || op.Revision != s.Config.Service.Revision {
		return Fact{Payload: event.OperationFailed{
			OperationID: op.ID, Dispatch: event.DispatchNotDispatched, Code: codeRequestChanged,
			NextAction: "the service or its settings changed between two owners; send the input again, or restore them",
		}}, nil
	}
	return Fact{Payload: event.OperationDispatched{OperationID: op.ID}}, nil
}

// due reports whether the state wants this inline effect now.
func (s *State) due(t Tick, e Effect) bool {
	if _, due := s.dueCommand(); due || s.Generation == nil {
		return false
	}
	st := s.advance(t)
	return st.inline != nil && st.inline.Key() == e.Key()
}
