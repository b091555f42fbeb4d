package view

import "github.com/loopd/loopd/event"

// Message is the row of one part of a conversation's context, as a person reads
// it: what an input, an answer, a tool or a summary says. Its id is the
// subject's view and id, such as input/in-1; Order is its place. It is not the
// request that a provider got: that one is cut to a window.
type Message struct {
	Stamp
	Subject   Name      `json:"subject"` // input, operation, invocation or session (a summary)
	SubjectID string    `json:"subject_id"`
	State     State     `json:"state"`         // accepted (not in the context), delivered, held
	Role      string    `json:"role,omitzero"` // user, service, assistant, tool, summary
	Text      string    `json:"text,omitzero"`
	Order     event.Seq `json:"order,omitzero"` // the event that put it into the context
}

// Roles of a message.
const (
	roleUser      = "user"
	roleService   = "service"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleSummary   = "summary"
)

func emptyMessage(k Key) *Message {
	r := &Message{Stamp: k.stamp()}
	r.Subject, r.SubjectID = subjectOf(k.ID)
	return r
}

// View implements Row.
func (*Message) View() Name { return ViewMessage }

// CurrentState implements Row.
func (r *Message) CurrentState() State { return r.State }

func routeMessage(e event.Event) []string {
	if subject, id := messageOf(e); subject != "" && id != "" {
		return []string{subjectID(subject, id)}
	}
	return nil
}

// messageOf is the subject of the message that an event is about.
func messageOf(e event.Event) (Name, string) {
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		if p.Kind.Content() {
			return ViewInput, p.InputID
		}
	case event.InputDelivered:
		return ViewInput, p.InputID
	case event.InputHeld:
		return ViewInput, p.InputID
	case event.InputWithdrawn:
		return ViewInput, p.InputID
	case event.InputUnknown:
		return ViewInput, p.InputID
	case event.SteeringApplied:
		return ViewInput, p.InputID
	case event.OperationCompleted:
		if p.Text != "" && !p.Late {
			return ViewOperation, p.OperationID
		}
	case event.InvocationCompleted:
		return ViewInvocation, p.InvocationID
	case event.InvocationFailed:
		return ViewInvocation, p.InvocationID
	case event.InvocationReconciled:
		if p.Result != "" {
			return ViewInvocation, p.InvocationID
		}
	case event.ContextSummarized:
		return ViewSession, p.ThroughSequence.String()
	}
	return "", ""
}

// Fold implements Row.
func (r *Message) Fold(e event.Event) (Row, bool) {
	next := *r
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		if r.State != "" {
			return r, false
		}
		next.State, next.Role = StateAccepted, roleUser
		if p.Kind == event.KindService {
			next.Role = roleService
		}
		if in, err := event.ParseInput(p.Input); err == nil {
			next.Text = in.Text
		}
	case event.InputDelivered:
		next.enter(r, e)
	case event.SteeringApplied:
		next.enter(r, e)
	case event.InputUnknown: // a confirmation may still come
		if r.State != StateAccepted {
			return r, false
		}
		next.State = StateUnknown
	case event.InputHeld, event.InputWithdrawn:
		if r.State != StateAccepted {
			return r, false
		}
		return nil, true // it never came into the context
	case event.OperationCompleted:
		next.say(roleAssistant, p.Text, e)
	case event.InvocationCompleted:
		next.say(roleTool, p.Result, e)
	case event.InvocationFailed:
		next.say(roleTool, p.Error, e)
	case event.InvocationReconciled:
		next.say(roleTool, p.Result, e)
	case event.ContextSummarized:
		next.say(roleSummary, p.Text, e)
	default:
		return r, false
	}
	next.touch(e)
	return &next, true
}

// enter puts an accepted input into the context, where it stays.
func (r *Message) enter(before *Message, e event.Event) {
	r.State = StateDelivered
	if before.State != StateDelivered {
		r.Order = e.Sequence
	}
}

func (r *Message) say(role, text string, e event.Event) {
	r.State, r.Role, r.Text, r.Order = StateDelivered, role, text, e.Sequence
}
