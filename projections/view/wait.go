package view

import "github.com/loopd/loopd/event"

// Wait is the row of something that is not over: what it waits for, and whose
// turn it is. The row is there while it waits, and gone after. Its id is the
// subject's view and id, such as invocation/01J….
type Wait struct {
	Stamp
	Subject      Name      `json:"subject"` // input, operation, invocation, job or checkpoint
	SubjectID    string    `json:"subject_id"`
	For          string    `json:"for"`                    // what must come
	From         string    `json:"from"`                   // who can end it: owner, provider, tool, user
	GenerationID string    `json:"generation_id,omitzero"` // where the event that began it names one
	Since        event.Seq `json:"since"`                  // the event that began the present wait
	SinceTime    string    `json:"since_time"`             // for people
}

func emptyWait(k Key) *Wait {
	r := &Wait{Stamp: k.stamp()}
	r.Subject, r.SubjectID = subjectOf(k.ID)
	return r
}

// View implements Row.
func (*Wait) View() Name { return ViewWait }

// CurrentState implements Row.
func (r *Wait) CurrentState() State {
	if r.For == "" {
		return ""
	}
	return StateOpen
}

// waiting is what an event says of a wait: what is waited for from now on; ""
// in what = nothing any more.
type waiting struct {
	subject    Name
	id         string
	what, from string
	generation string
}

// Who can end a wait.
const (
	fromOwner    = "owner"
	fromProvider = "provider"
	fromTool     = "tool"
	fromUser     = "user"
)

func routeWait(e event.Event) []string {
	var out []string
	for _, w := range waitsOf(e) {
		if w.id != "" {
			out = append(out, subjectID(w.subject, w.id))
		}
	}
	return out
}

// Fold implements Row. A row whose For is "" afterwards is removed.
func (r *Wait) Fold(e event.Event) (Row, bool) {
	for _, w := range waitsOf(e) {
		if w.subject != r.Subject || w.id != r.SubjectID {
			continue
		}
		if w.what == "" {
			return nil, r.For != ""
		}
		next := *r
		next.For, next.From = w.what, w.from
		if w.generation != "" {
			next.GenerationID = w.generation
		}
		next.touch(e)
		next.Since, next.SinceTime = next.Sequence, next.UpdatedAt
		return &next, true
	}
	return r, false
}

// waitsOf is what an event begins and ends.
func waitsOf(e event.Event) []waiting {
	if w, ok := waitOfInput(e.Payload); ok {
		return append([]waiting{w}, waitsOfCommand(e, w.id)...)
	}
	out := waitsOfCommand(e, "")
	if w, ok := waitOfWork(e.Payload); ok {
		out = append(out, w)
	} else if w, ok := waitOfInvocation(e.Payload); ok {
		out = append(out, w)
	}
	return out
}

// waitsOfCommand ends the waits of the commands whose effect an event is. Of
// content, which waits for more than an effect, it says nothing: an event's
// cause may be content, so only events that carry commands out are asked.
func waitsOfCommand(e event.Event, but string) []waiting {
	var out []waiting
	for _, id := range maybe(commandsOf(e)...) {
		if id != but {
			out = append(out, waiting{subject: waitCommand, id: id})
		}
	}
	return out
}

// waitCommand is the subject of commands: apart from content, because the
// event that carries out a command names its id and not its kind.
const waitCommand Name = "command"

func waitOfInput(p event.Payload) (waiting, bool) {
	content := func(id, what, from, generation string) (waiting, bool) {
		return waiting{ViewInput, id, what, from, generation}, true
	}
	switch p := p.(type) {
	case event.InputAccepted:
		if p.Kind.Command() {
			return waiting{waitCommand, p.InputID, "effect", fromOwner, p.GenerationID}, true
		}
		return content(p.InputID, "delivery", fromOwner, p.GenerationID)
	case event.InputQueued:
		return content(p.InputID, "boundary", fromOwner, p.GenerationID)
	case event.SteeringSent:
		return content(p.InputID, "steering_answer", fromProvider, p.TargetGenerationID)
	case event.SteeringRefused:
		return content(p.InputID, "delivery", fromOwner, p.TargetGenerationID)
	case event.SteeringAccepted:
		if p.Delivery == event.DeliveryNative {
			return content(p.InputID, "steering_applied", fromProvider, p.TargetGenerationID)
		}
		return content(p.InputID, "boundary", fromOwner, p.TargetGenerationID)
	case event.CommandRejected:
		return waiting{subject: waitCommand, id: p.InputID}, true
	case event.InputDelivered:
		return content(p.InputID, "", "", "")
	case event.InputHeld:
		return content(p.InputID, "", "", "")
	case event.InputWithdrawn:
		return content(p.InputID, "", "", "")
	case event.InputUnknown:
		return content(p.InputID, "", "", "")
	case event.SteeringApplied:
		return content(p.InputID, "", "", "")
	case event.SteeringHeld:
		return content(p.InputID, "", "", "")
	case event.SteeringUnknown:
		return content(p.InputID, "", "", "")
	}
	return waiting{}, false
}

// waitOfWork is about operations, checkpoints and jobs.
func waitOfWork(p event.Payload) (waiting, bool) {
	switch p := p.(type) {
	case event.OperationAdmitted:
		return waiting{ViewOperation, p.OperationID, "dispatch", fromOwner, p.GenerationID}, true
	case event.OperationDispatched:
		return waiting{ViewOperation, p.OperationID, "answer", fromProvider, ""}, true
	case event.OperationUnknown:
		return waiting{ViewOperation, p.OperationID, "inspection", fromOwner, ""}, true
	case event.OperationCompleted:
		return waiting{subject: ViewOperation, id: p.OperationID}, true
	case event.OperationFailed:
		return waiting{subject: ViewOperation, id: p.OperationID}, true
	case event.OperationCancelled:
		return waiting{subject: ViewOperation, id: p.OperationID}, true
	case event.GenerationDetached: // nobody waits for its operation's answer any more
		return waiting{subject: ViewOperation, id: p.OperationID}, true
	case event.CheckpointSaved:
		if p.Kind != event.CheckpointCutoff {
			return waiting{}, false
		}
		return waiting{ViewCheckpoint, p.CheckpointID, "continuation", fromOwner, p.GenerationID}, true
	case event.ContinuationStarted:
		return waiting{subject: ViewCheckpoint, id: p.CheckpointID}, true
	case event.ContinuationStopped:
		return waiting{ViewCheckpoint, p.CheckpointID, "decision", fromUser, ""}, true
	case event.JobQueued:
		return waiting{ViewJob, p.JobID, "result", fromTool, p.GenerationID}, true
	case event.JobCancelRequested:
		return waiting{ViewJob, p.JobID, "cancellation", fromTool, ""}, true
	case event.JobReturned:
		return waiting{subject: ViewJob, id: p.JobID}, true
	case event.JobFailed:
		return waiting{subject: ViewJob, id: p.JobID}, true
	case event.JobCancelled:
		return waiting{subject: ViewJob, id: p.JobID}, true
	case event.JobRecovered:
		return waiting{subject: ViewJob, id: p.JobID}, true
	}
	return waiting{}, false
}

func waitOfInvocation(p event.Payload) (waiting, bool) {
	on := func(id, what, from string) (waiting, bool) {
		return waiting{subject: ViewInvocation, id: id, what: what, from: from}, true
	}
	switch p := p.(type) {
	case event.InvocationProposed:
		return waiting{ViewInvocation, p.InvocationID, "dispatch", fromOwner, p.GenerationID}, true
	case event.InvocationAwaitingApproval:
		return on(p.InvocationID, "approval", fromUser)
	case event.InvocationApproved:
		return on(p.InvocationID, "dispatch", fromOwner)
	case event.InvocationDispatched:
		return on(p.InvocationID, "receipt", fromTool)
	case event.InvocationUncertain:
		return on(p.InvocationID, "reconciliation", fromUser)
	case event.InvocationReconciled:
		if p.Verdict == event.VerdictStillUnknown {
			return on(p.InvocationID, "reconciliation", fromUser)
		}
		return on(p.InvocationID, "", "")
	case event.InvocationCompleted:
		return on(p.InvocationID, "", "")
	case event.InvocationFailed:
		return on(p.InvocationID, "", "")
	case event.InvocationDenied:
		return on(p.InvocationID, "", "")
	case event.InvocationWithdrawn:
		return on(p.InvocationID, "", "")
	}
	return waiting{}, false
}
