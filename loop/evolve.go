package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/loopd/loopd/event"
)

// Evolve folds one stored event. It is total: a fact that cannot follow gives
// PhaseBroken, which says which one and why; a type that this version does not
// know changes nothing but the place in the session.
func Evolve(s State, e event.Event) State {
	if s.Phase == PhaseBroken {
		return s
	}
	s = s.clone()
	if reason := s.misplaced(e); reason != "" {
		return s.broken(e, reason)
	}
	s.Seq, s.Prev = e.Sequence, event.Digest(e.Stored())
	var reason string
	switch family := e.Type.Family(); family {
	case "session":
		reason = s.foldSession(e)
	case "input", "command", "observation":
		reason = s.foldInput(e)
	case "steering":
		reason = s.foldSteering(e)
	case "generation", "assistant":
		reason = s.foldGeneration(e)
	case "operation":
		reason = s.foldOperation(e)
	case "checkpoint", "continuation":
		reason = s.foldContinuation(e)
	case "invocation":
		reason = s.foldInvocation(e)
	case "job":
		reason = s.foldJob(e)
	}
	if reason != "" {
		return s.broken(e, reason)
	}
	return s
}

func (s State) broken(e event.Event, reason string) State {
	s.Phase = PhaseBroken
	s.Broken = fmt.Sprintf("%s at sequence %d: %s", e.Type, e.Sequence, reason)
	return s
}

// misplaced says why an event cannot stand here, whatever it tells.
func (s *State) misplaced(e event.Event) string {
	switch {
	case e.SessionID != s.SessionID:
		return "of session " + e.SessionID
	case e.Sequence != s.Seq+1:
		return fmt.Sprintf("sequence %d expected: events are missing or out of order", s.Seq+1)
	case e.Prev != s.Prev:
		return "prev does not match the stored event before it: the log was damaged or changed"
	case s.Phase == PhaseNew && e.Type != event.TypeSessionOpened:
		return "session.opened must come first"
	case e.Type != event.TypeSessionClaimed && s.Phase > PhaseUnclaimed && e.Epoch != s.Epoch:
		return fmt.Sprintf("epoch %d expected", s.Epoch)
	}
	return ""
}

func (s *State) foldSession(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.SessionOpened:
		if s.Phase != PhaseNew {
			return "opened twice"
		}
		s.Phase = PhaseUnclaimed
	case event.SessionClaimed:
		if want := s.NextEpoch(); e.Epoch != want {
			return fmt.Sprintf("claims epoch %d, expected %d", e.Epoch, want)
		}
		s.Epoch = e.Epoch
		if s.Phase == PhaseUnclaimed {
			s.Phase = PhaseOpen
		}
		s.forgetLooks()
	case event.SessionIdle:
		s.Busy = false
	case event.SessionClosed:
		s.Phase, s.Jobs, s.Commands = PhaseClosed, nil, nil
		_ = p
	}
	return ""
}

// NextEpoch is the term that a claim would begin.
func (s *State) NextEpoch() event.Epoch {
	if s.Phase <= PhaseUnclaimed {
		return 1
	}
	return s.Epoch + 1
}

// forgetLooks makes a new owner look at originals itself.
func (s *State) forgetLooks() {
	if g := s.Generation; g != nil {
		if g.Operation != nil && g.Operation.Look.Observed == event.ObservedPending {
			g.Operation.Look = Look{}
		}
		for i := range g.Invocations {
			g.Invocations[i].Look = Look{}
		}
	}
}

func (s *State) foldInput(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		return s.foldAccepted(e, p)
	case event.InputRejected:
		s.InboxSeq = max(s.InboxSeq, p.InboxSeq)
		s.resultTaken(p.InputID)
	case event.InputQueued:
		in := s.input(p.InputID)
		if in == nil || !in.Pending() {
			return "the input is not pending"
		}
		in.Phase = InputQueued
	case event.InputDelivered:
		return s.foldDelivered(e, p)
	case event.InputHeld:
		s.dropInput(p.InputID)
		s.unaccept(p.InputID)
		if g := s.Generation; g != nil && g.Initial != nil && g.Initial.InputID == p.InputID {
			g.Initial = nil
		}
	case event.InputWithdrawn:
		s.dropInput(p.InputID)
		s.unaccept(p.InputID)
		s.dropCommand(p.By)
	case event.InputUnknown:
		if in := s.input(p.InputID); in != nil {
			in.Phase = InputUnknown
		}
		s.unaccept(p.InputID)
	case event.CommandRejected:
		s.dropCommand(p.InputID)
	case event.ObservationReceived:
		if s.Generation != nil {
			s.Generation.Observation = nil
		}
	}
	return ""
}

func (s *State) foldAccepted(e event.Event, p event.InputAccepted) string {
	parsed, err := event.ParseInput(p.Input)
	if err != nil {
		return "its input does not parse"
	}
	s.InboxSeq = max(s.InboxSeq, p.InboxSeq)
	in := Input{Input: parsed, Seq: e.Sequence}
	in.Source = p.Source
	s.resultTaken(p.InputID)
	s.Busy = s.Busy || p.Kind.Content()
	switch {
	case p.Kind.Content():
		s.Inputs = append(s.Inputs, in)
	case p.Kind == event.KindStop:
		if s.Stop != nil {
			return "stopped twice"
		}
		s.Stop, s.StopActive = &in, s.Generation != nil
	case p.Kind == event.KindInterrupt && s.interruptible():
		s.Generation.Interrupt = in.InputID
	case s.abandons(in.Input):
		s.Generation.Abandon = in.InputID
	default:
		s.Commands = append(s.Commands, in)
	}
	return ""
}

// interruptible reports whether an interrupt accepted now ends the generation.
func (s *State) interruptible() bool {
	g := s.Generation
	return g != nil && g.Interrupt == "" && !s.closing()
}

func (s *State) foldDelivered(e event.Event, p event.InputDelivered) string {
	g := s.Generation
	if g == nil || g.ID != p.GenerationID {
		return "delivered outside of its generation"
	}
	in := g.Initial
	if in == nil || in.InputID != p.InputID {
		if in = s.input(p.InputID); in == nil || !in.Pending() {
			return "the input is not pending"
		}
	}
	delivered := *in
	if g.Initial == in {
		g.Initial = nil
	} else {
		g.take(s.pendingInputs())
		g.Batch = slices.DeleteFunc(g.Batch, func(id string) bool { return id == p.InputID })
		s.dropInput(p.InputID)
	}
	s.unaccept(p.InputID)
	g.InputIDs = append(g.InputIDs, p.InputID)
	g.LeadID = e.ID
	g.Fresh = g.Fresh || delivered.steers()
	if delivered.Kind == event.KindService {
		g.Observation = &delivered
	}
	if delivered.Anchored() {
		g.Applied = p.InputID
	}
	return ""
}

// take fixes the batch of the coming boundary, once.
func (g *Generation) take(pending []Input) {
	if g.Taken {
		return
	}
	g.Taken = true
	for _, in := range pending {
		g.Batch = append(g.Batch, in.InputID)
	}
}

// unaccept takes an input out of accepted_input_ids (contract 5.6).
func (s *State) unaccept(id string) {
	if g := s.Generation; g != nil {
		g.AcceptedIDs = slices.DeleteFunc(g.AcceptedIDs, func(a string) bool { return a == id })
	}
}

func (s *State) foldSteering(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.SteeringSent:
		in := s.input(p.InputID)
		if in == nil {
			return "the input is not open"
		}
		in.Phase, in.GenerationID, in.Epoch = InputSent, p.TargetGenerationID, e.Epoch
	case event.SteeringAccepted:
		in := s.input(p.InputID)
		if in == nil {
			return "the input is not open"
		}
		in.Phase, in.GenerationID = InputAnchored, p.TargetGenerationID
		if p.Delivery == event.DeliveryNative {
			in.Phase = InputOwned
		}
		if g := s.Generation; g != nil && g.ID == p.TargetGenerationID {
			g.AcceptedIDs = append(g.AcceptedIDs, p.InputID)
			s.sortAccepted()
		}
	case event.SteeringRefused:
		if in := s.input(p.InputID); in != nil {
			in.Phase, in.Refused = InputWaiting, true
		}
	case event.SteeringApplied:
		s.foldApplied(p)
	case event.SteeringHeld:
		s.unaccept(p.InputID)
	}
	return ""
}

// sortAccepted keeps accepted_input_ids in the order of acceptance.
func (s *State) sortAccepted() {
	order := map[string]event.Seq{}
	for _, in := range s.Inputs {
		order[in.InputID] = in.Seq
	}
	slices.SortStableFunc(s.Generation.AcceptedIDs, func(a, b string) int { return int(order[a]) - int(order[b]) })
}

func (s *State) foldApplied(p event.SteeringApplied) {
	g := s.Generation
	if g == nil || g.ID != p.TargetGenerationID {
		return // late: the provider's own confirmation after the terminal event
	}
	if p.Delivery != event.DeliveryNative {
		g.Applied = ""
		return
	}
	s.dropInput(p.InputID)
	s.unaccept(p.InputID)
	g.InputIDs = append(g.InputIDs, p.InputID)
}

func (s *State) foldGeneration(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.GenerationStarted:
		return s.foldStarted(e, p)
	case event.AssistantMessage:
		return s.mustBeOpen(p.GenerationID)
	case event.GenerationFinished:
		s.LastText = p.Text
		return s.endGeneration(p.GenerationID)
	case event.GenerationFailed:
		s.LastText = ""
		return s.endGeneration(p.GenerationID)
	case event.GenerationDetached:
		s.LastText = ""
		return s.endGeneration(p.GenerationID)
	}
	return ""
}

func (s *State) mustBeOpen(generation string) string {
	if s.Generation == nil || s.Generation.ID != generation {
		return "generation " + generation + " is not open"
	}
	return ""
}

func (s *State) foldStarted(e event.Event, p event.GenerationStarted) string {
	if s.Generation != nil {
		return "generation " + s.Generation.ID + " is still open"
	}
	g := &Generation{ID: p.GenerationID, InitialInputID: p.InitialInputID, TaskID: p.TaskID, Bounds: p.Bounds, LeadID: e.ID}
	if in := s.input(p.InitialInputID); in != nil {
		initial := *in
		g.Initial = &initial
		s.dropInput(p.InitialInputID)
	} else if !s.continues(g, p.InitialInputID, e.Time) {
		return "its initial input is neither pending nor a decision to continue"
	}
	g.take(s.pendingInputs())
	if s.task(p.TaskID) == nil {
		named := g.Initial != nil && g.Initial.Task != nil && g.Initial.Task.ID != ""
		s.Tasks = append(s.Tasks, Task{ID: p.TaskID, Named: named, Started: e.Time})
	}
	s.task(p.TaskID).Bounds = p.Bounds
	s.Generation, s.Busy = g, true
	return ""
}

// continues takes up the stopped chain that an accepted decision names.
func (s *State) continues(g *Generation, decision string, now time.Time) bool {
	for _, c := range s.Commands {
		if c.InputID != decision {
			continue
		}
		found := s.stopped(c.Target)
		if found == nil {
			return false
		}
		chain := *found // the list below changes
		g.Chain = Chain{Text: chain.Text, Segment: chain.Segment, Base: chain.Segment}
		g.Cutoff = &Checkpoint{ID: chain.CheckpointID, EventID: g.LeadID}
		g.Operation = &Operation{
			ID: chain.OperationID, GenerationID: g.ID, Segment: chain.Segment, Phase: OperationCompleted,
			ServiceID: chain.ServiceID, Revision: chain.Revision,
			Completed: event.OperationCompleted{OperationID: chain.OperationID, Finish: event.FinishOutputBudget},
		}
		s.Stopped = slices.DeleteFunc(s.Stopped, func(c Stopped) bool { return c.CheckpointID == chain.CheckpointID })
		s.dropCommand(decision)
		if t := s.task(chain.TaskID); t != nil {
			t.Granted = Granted{At: now, Tokens: t.Tokens, Cost: t.Cost}
		}
		return true
	}
	return false
}

// strayLimit bounds what is kept of ended generations.
const strayLimit = 64

func (s *State) endGeneration(id string) string {
	if reason := s.mustBeOpen(id); reason != "" {
		return reason
	}
	g := s.Generation
	if op := g.Operation; op != nil && op.Phase == OperationUnknown {
		s.Strays = append(s.Strays, *op)
		s.Strays = s.Strays[max(0, len(s.Strays)-strayLimit):]
	}
	for _, inv := range g.Invocations {
		if inv.Phase == InvocationUncertain {
			s.Loose = append(s.Loose, inv)
		}
	}
	s.Loose = s.Loose[max(0, len(s.Loose)-strayLimit):]
	s.Inputs = slices.DeleteFunc(s.Inputs, func(in Input) bool { return !in.Pending() })
	s.Generation = nil
	s.Tasks = slices.DeleteFunc(s.Tasks, func(t Task) bool {
		return !t.Named && !slices.ContainsFunc(s.Stopped, func(c Stopped) bool { return c.TaskID == t.ID })
	})
	return ""
}

// resultTaken ends the job whose result is this input.
func (s *State) resultTaken(inputID string) {
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j Job) bool { return j.Phase == JobReported && j.resultID() == inputID })
}

// since is when the bounds in force began to count: with the task's first
// generation.started, or when a decision granted a further set.
func (t *Task) since() time.Time {
	if t.Granted.At.IsZero() {
		return t.Started
	}
	return t.Granted.At
}
