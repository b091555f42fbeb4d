package loop

import (
	"github.com/loopd/loopd/event"
)

// CarryOut gives an accepted command its effect, or its command.rejected.
// Input and Target are what the past knows of the ids it names.
type CarryOut struct {
	Tick    Tick
	InputID string
	Input   InputPast  // of the command's target, as an input
	Target  TargetPast // of the command's target, as anything else
}

func (c CarryOut) decide(s State) (Fact, error) {
	cmd, ok := s.dueCommand()
	if !ok || cmd.InputID != c.InputID {
		return Fact{}, rejected("the command is not due")
	}
	p := s.effect(cmd, c)
	return Fact{Payload: p, Cause: cmd.InputID}, nil
}

// dueCommand is the first accepted command without effect that can have one
// now: a continuation waits for the open generation to end.
func (s *State) dueCommand() (Input, bool) {
	for _, c := range s.Commands {
		continues := c.Kind == event.KindDecision && c.Verdict == event.VerdictContinue && s.stopped(c.Target) != nil
		if !continues || s.Generation == nil || s.Stop != nil {
			return c, true
		}
	}
	return Input{}, false
}

func (s *State) effect(cmd Input, c CarryOut) event.Payload {
	switch cmd.Kind {
	case event.KindWithdraw:
		return s.withdraw(cmd, c.Input)
	case event.KindCancelJob:
		return s.cancelJob(cmd)
	case event.KindInterrupt:
		if s.Generation == nil {
			return refuse(cmd, event.RefuseNoActiveGeneration)
		}
		return refuse(cmd, event.RefuseGenerationEnded)
	case event.KindDecision:
		return s.decision(cmd, c)
	}
	return refuse(cmd, event.RefuseUnknownTarget)
}

func refuse(cmd Input, reason string) event.Payload {
	return event.CommandRejected{InputID: cmd.InputID, Reason: reason}
}

func (s *State) withdraw(cmd Input, past InputPast) event.Payload {
	if in := s.input(cmd.Target); in != nil && in.Pending() {
		if g := s.Generation; g == nil || !g.taken(in.InputID) {
			return event.InputWithdrawn{InputID: in.InputID, By: cmd.InputID}
		}
		return refuse(cmd, event.RefuseAlreadyDelivered)
	}
	switch {
	case !past.Accepted || !past.Kind.Content():
		return refuse(cmd, event.RefuseUnknownTarget)
	case past.Over:
		return refuse(cmd, event.RefuseAlreadyDecided)
	}
	return refuse(cmd, event.RefuseAlreadyDelivered)
}

func (s *State) cancelJob(cmd Input) event.Payload {
	j := s.job(cmd.Target)
	if j == nil || j.Phase != JobRunning {
		return refuse(cmd, event.RefuseNoActiveJob)
	}
	return event.JobCancelRequested{JobID: j.JobID, CallID: j.CallID, Outcome: event.OutcomeCancelRequested, Effects: event.EffectsNotRolledBack}
}

func (s *State) decision(cmd Input, c CarryOut) event.Payload {
	if inv := s.invocation(cmd.Target); inv != nil {
		return s.decideInvocation(cmd, *inv)
	}
	if chain := s.stopped(cmd.Target); chain != nil && cmd.Verdict == event.VerdictContinue && s.Generation == nil {
		return event.GenerationStarted{
			GenerationID: c.Tick.IDs[0], InitialInputID: cmd.InputID, CallID: cmd.CallID, TaskID: chain.TaskID,
			Bounds: s.Config.grant(cmd.Task, chain.Bounds),
		}
	}
	switch {
	case c.Target.Kind == "":
		return refuse(cmd, event.RefuseUnknownTarget)
	case c.Target.Decided:
		return refuse(cmd, event.RefuseAlreadyDecided)
	case c.Target.Ended, s.Stop != nil:
		return refuse(cmd, event.RefuseGenerationEnded)
	}
	return refuse(cmd, event.RefuseUnknownTarget)
}

// asksLook reports whether a decision asks for another look-up of an operation
// whose outcome is not known: verdict still_unknown on it.
func (s *State) asksLook(in event.Input) bool {
	if in.Kind != event.KindDecision || in.Verdict != event.VerdictStillUnknown || s.Stop != nil {
		return false
	}
	_, _, err := s.inspectable(in.Target)
	return err == nil
}

// abandons reports whether a decision gives the open generation's operation
// up: it is unknown, or an older owner's, and waiting for its original ends.
func (s *State) abandons(in event.Input) bool {
	g := s.Generation
	if g == nil || in.Kind != event.KindDecision || in.Verdict != event.VerdictAbandon || s.closing() {
		return false
	}
	op := g.Operation
	return op != nil && op.ID == in.Target && (op.Phase == OperationUnknown || op.inFlight() && op.Epoch != s.Epoch)
}

func (s *State) decideInvocation(cmd Input, inv Invocation) event.Payload {
	switch cmd.Verdict {
	case event.VerdictApprove, event.VerdictDeny:
		return s.judge(cmd, inv)
	case event.VerdictReconciled, event.VerdictStillUnknown, event.VerdictAbandon:
		if inv.Phase == InvocationUncertain {
			return event.InvocationReconciled{
				InvocationID: inv.InvocationID, Verdict: cmd.Verdict, DecidedBy: cmd.InputID, Result: cmd.Text,
			}
		}
		if inv.Settled() {
			return refuse(cmd, event.RefuseAlreadyDecided)
		}
	}
	return refuse(cmd, event.RefuseUnknownTarget)
}

// judge counts an approval or a denial: once, and for the very arguments it
// saw (contract 6.3).
func (s *State) judge(cmd Input, inv Invocation) event.Payload {
	if g := s.Generation; g == nil || g.ID != inv.GenerationID || s.closing() {
		return refuse(cmd, event.RefuseGenerationEnded)
	}
	if open, uncertain, _ := s.twins(inv); inv.open() && (open || uncertain) {
		return refuse(cmd, event.RefuseReconciliationRequired)
	}
	switch {
	case inv.Phase != InvocationAwaiting:
		return refuse(cmd, event.RefuseAlreadyDecided)
	case cmd.Verdict == event.VerdictApprove && cmd.InputDigest != inv.InputDigest,
		cmd.InputDigest != "" && cmd.InputDigest != inv.InputDigest:
		return refuse(cmd, event.RefuseArgsMismatch)
	case cmd.Verdict == event.VerdictDeny:
		return event.InvocationDenied{InvocationID: inv.InvocationID, DecidedBy: cmd.InputID, InputDigest: inv.InputDigest}
	}
	return event.InvocationApproved{InvocationID: inv.InvocationID, DecidedBy: cmd.InputID, InputDigest: inv.InputDigest}
}
