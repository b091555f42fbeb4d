package loop

import (
	"github.com/loopd/loopd/event"
)

// step is how the loop itself moves on: a fact, or an inline effect, or
// neither while it waits.
type step struct {
	fact     *Fact
	inline   Effect
	boundary bool
}

// Fact is what Decide says: a payload, and the id of the event or input that
// led to it (the envelope's cause).
type Fact struct {
	Payload event.Payload
	Cause   string
}

func record(p event.Payload, cause string) step { return step{fact: &Fact{Payload: p, Cause: cause}} }

func (st step) atBoundary() step {
	st.boundary = true
	return st
}

func (st step) empty() bool { return st.fact == nil && st.inline == nil }

// advance is the whole order of precedence of a session.
func (s *State) advance(t Tick) step {
	if st := s.loseSteering(); !st.empty() {
		return st
	}
	if s.Generation != nil {
		return s.advanceGeneration(t)
	}
	if s.Stop != nil {
		return s.close()
	}
	if pending := s.pendingInputs(); len(pending) > 0 {
		return s.start(pending[0], t)
	}
	if s.Busy && !s.reporting() {
		return record(event.SessionIdle{Text: s.LastText}, "")
	}
	return step{}
}

// reporting reports whether a job's result is on its way back.
func (s *State) reporting() bool {
	for _, j := range s.Jobs {
		if !j.running() {
			return true
		}
	}
	return false
}

// loseSteering declares unknown what an older owner sent and nobody answered
// (contract 6.4).
func (s *State) loseSteering() step {
	for _, in := range s.Inputs {
		if in.Phase == InputSent && in.Epoch != s.Epoch {
			return s.unknownInput(in, "")
		}
	}
	return step{}
}

func (s *State) unknownInput(in Input, cause string) step {
	return record(event.InputUnknown{InputID: in.InputID, Route: event.DeliveryNative, GenerationID: in.GenerationID}, cause)
}

// start opens a generation with the first pending input (contract 5.1).
func (s *State) start(in Input, t Tick) step {
	task := t.IDs[1]
	if in.Task != nil && in.Task.ID != "" {
		task = in.Task.ID
	}
	bounds := s.Config.bounds(in.Task)
	if before := s.task(task); before != nil {
		bounds = within(bounds, before.Bounds)
	}
	return record(event.GenerationStarted{
		GenerationID: t.IDs[0], InitialInputID: in.InputID, CallID: in.CallID, TaskID: task, Bounds: bounds,
	}, in.InputID)
}

// close ends a stopped session once its generation has ended.
func (s *State) close() step {
	cause := s.Stop.InputID
	for _, in := range s.pendingInputs() {
		return record(event.InputHeld{InputID: in.InputID, Reason: event.DetachedStopped}, cause)
	}
	for _, j := range s.Jobs {
		if j.running() {
			return record(j.cancelled(), cause)
		}
	}
	status := event.StatusCompleted
	if s.StopActive || s.Stop.Target == event.TargetCancel {
		status = event.StatusCancelled
	}
	return record(event.SessionClosed{Status: status}, cause)
}

// advanceGeneration moves the open generation on.
func (s *State) advanceGeneration(t Tick) step {
	g := s.Generation
	if e, ok := s.ending(); ok {
		return s.end(e, t)
	}
	if st := s.enter(); !st.empty() {
		return st
	}
	if st := s.route(); !st.empty() {
		return st
	}
	op := g.Operation
	switch {
	case op == nil:
		return s.request(t)
	case op.Phase == OperationAdmitted:
		return step{inline: Dispatch{OperationID: op.ID}}
	case op.Phase == OperationDispatched:
		if op.Epoch != s.Epoch && op.Look.final() {
			return s.unknownOperation(event.UnknownOwnerLost, "")
		}
	case op.Phase == OperationCompleted && !s.unanswered():
		return s.work(t)
	}
	return step{}
}

// final reports whether another look-up would be no permission either.
func (l Look) final() bool {
	return l.Observed != "" && l.Observed != event.ObservedPending && l.Observed != event.ObservedComplete
}

// unanswered reports whether the provider still owes an answer to steering.
func (s *State) unanswered() bool {
	for _, in := range s.Inputs {
		if in.Phase == InputSent {
			return true
		}
	}
	return false
}

func (s *State) unknownOperation(reason, cause string) step {
	return record(event.OperationUnknown{
		OperationID: s.Generation.Operation.ID, Reason: reason, NextAction: event.ActionInspectOriginal,
	}, cause)
}

// enter delivers what this boundary has taken, one input after another, and
// what stands beside each delivery.
func (s *State) enter() step {
	g := s.Generation
	if o := g.Observation; o != nil {
		return record(event.ObservationReceived{InputID: o.InputID, Source: o.Source, Text: o.Text}, o.InputID)
	}
	if g.Applied != "" {
		return record(event.SteeringApplied{
			InputID: g.Applied, TargetGenerationID: g.ID, Delivery: event.DeliveryRequestBoundary,
		}, g.Applied)
	}
	if g.Initial != nil {
		return s.deliver(*g.Initial, event.DeliveryNewTurn)
	}
	for _, id := range g.Batch {
		if in := s.input(id); in != nil && in.Pending() {
			return s.deliver(*in, event.DeliveryRequestBoundary)
		}
	}
	return step{}
}

func (s *State) deliver(in Input, delivery string) step {
	return record(event.InputDelivered{
		InputID: in.InputID, Delivery: delivery, Source: in.Source, GenerationID: s.Generation.ID,
	}, in.InputID)
}

// route finds the way of inputs that met this generation (contract 5.1 to
// 5.3): native steering, or the boundary queue.
func (s *State) route() step {
	g := s.Generation
	for _, in := range s.Inputs {
		if in.Phase != InputWaiting && in.Phase != InputAnchored || g.taken(in.InputID) {
			continue
		}
		switch {
		case in.Phase == InputWaiting && in.Anchored():
			return s.acceptAnchored(in)
		case s.steerable(in):
			return record(event.SteeringSent{
				InputID: in.InputID, TargetGenerationID: g.ID, Route: event.DeliveryNative,
			}, in.InputID)
		}
		return record(event.InputQueued{
			InputID: in.InputID, Delivery: event.DeliveryRequestBoundary, Source: in.Source, GenerationID: g.ID,
		}, in.InputID)
	}
	return step{}
}

// acceptAnchored gives an anchored input to the boundary queue (contract 5.3).
func (s *State) acceptAnchored(in Input) step {
	return record(event.SteeringAccepted{
		InputID: in.InputID, TargetGenerationID: s.Generation.ID, Delivery: event.DeliveryRequestBoundary,
	}, in.InputID)
}

func (g *Generation) taken(id string) bool {
	for _, b := range g.Batch {
		if b == id {
			return true
		}
	}
	return false
}

// steerable is contract 5.2: an unanchored user or steer input without
// attachments that meets an active native operation, with nothing waiting and
// no attempt unanswered.
func (s *State) steerable(in Input) bool {
	op := s.Generation.Operation
	if s.Config.Steering != event.SteeringModeNative || !op.inFlight() || op.Epoch != s.Epoch {
		return false
	}
	if !in.steers() || in.Anchored() || len(in.Attachments) > 0 || in.Refused {
		return false
	}
	for _, other := range s.Inputs {
		if other.InputID != in.InputID && (other.Phase == InputSent || other.Pending() && other.Seq < in.Seq) {
			return false
		}
	}
	return true
}

// request goes on to the next operation: the bounds are asked, then what is
// pending enters, then the operation is admitted. Bounds hold what goes on by
// itself: an input of a user that enters is answered, but not once the task's
// authority has ended.
func (s *State) request(t Tick) step {
	g := s.Generation
	if g.Claim == nil && g.Halt == nil {
		if reason := s.exhausted(t.Now); reason != "" && !(s.yields() && g.Operation != nil && reason != event.StopAuthorityEnded) {
			return s.halt(reason, "")
		}
	}
	if st := s.boundary(); !st.empty() {
		return st
	}
	if g.Claim != nil {
		return step{inline: Admit{OperationID: g.Claim.OperationID}, boundary: !g.Taken}
	}
	return step{inline: Admit{OperationID: t.IDs[0]}, boundary: !g.Taken}
}

// boundary begins the batch of this boundary, if anything is pending and the
// batch is not fixed yet.
func (s *State) boundary() step {
	if s.Generation.Taken {
		return step{}
	}
	if pending := s.pendingInputs(); len(pending) > 0 {
		return s.deliver(pending[0], event.DeliveryRequestBoundary).atBoundary()
	}
	return step{}
}

// work goes on after a completed operation (contract 5.4, 6.1, 6.3).
func (s *State) work(t Tick) step {
	op := s.Generation.Operation
	if st := s.handleCalls(t); !st.empty() {
		return st
	}
	switch op.Completed.Finish {
	case event.FinishToolCalls:
		if s.Generation.Halt != nil {
			return s.conclude(t)
		}
		if reason := s.overdue(t.Now); reason != "" {
			return s.halt(reason, op.EndID)
		}
		st, settled := s.invoke(t)
		if !settled {
			return st
		}
		return s.request(t)
	case event.FinishOutputBudget:
		return s.cutoff(t)
	case event.FinishContextWindow:
		if s.Generation.Halt == nil {
			return s.halt(event.StopContextWindow, op.EndID)
		}
	}
	return s.conclude(t)
}

// cutoff is the first path of contract 6.1.
func (s *State) cutoff(t Tick) step {
	g := s.Generation
	switch {
	case g.Halt != nil:
		return s.conclude(t)
	case g.Cutoff == nil:
		return s.checkpoint(event.CheckpointCutoff, t)
	case g.Claim == nil:
		if reason := s.bound(t.Now); reason != "" {
			return s.halt(reason, g.Cutoff.EventID)
		}
		return record(event.ContinuationStarted{
			CheckpointID: g.Cutoff.ID, ParentOperationID: g.Operation.ID, OperationID: t.IDs[0], Segment: g.Operation.Segment + 1,
		}, g.Cutoff.EventID)
	}
	return s.request(t)
}

// conclude saves the final checkpoint, then yields once (contract 5.4).
// What remains is an ending.
func (s *State) conclude(t Tick) step {
	g := s.Generation
	if g.Final == "" {
		return s.checkpoint(event.CheckpointFinal, t)
	}
	return s.request(t)
}

// yields reports whether inputs that count for contract 5.4 (3) are pending,
// or are entering at this boundary, or have just entered.
func (s *State) yields() bool {
	if g := s.Generation; g.Fresh || len(g.Batch) > 0 {
		return true
	}
	for _, in := range s.pendingInputs() {
		if in.steers() {
			return true
		}
	}
	return false
}
