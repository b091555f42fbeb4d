package host

import (
	"reflect"
	"testing"

	"github.com/loopd/loopd/event"
)

func of(payload event.Payload) event.Event {
	return event.Event{Type: payload.Type(), Payload: payload}
}

func caused(by string, payload event.Payload) event.Event {
	e := of(payload)
	e.Cause = by
	return e
}

func accepted(id string, kind event.Kind) event.Event {
	return caused(id, event.InputAccepted{InputID: id, Kind: kind})
}

func in(generation string, delivered []string, owned ...string) event.Correlation {
	return event.Correlation{GenerationID: generation, InputIDs: delivered, AcceptedInputIDs: owned}
}

// Each history is read event by event; the wait for "a" must end at the last
// one, with that type of result, and not before.
func TestWaitingEndsWhereTheLogDecides(t *testing.T) {
	user := accepted("a", event.KindUser)
	finished := of(event.GenerationFinished{Correlation: in("g", []string{"a"}), Text: "done"})
	unknown := of(event.InputUnknown{InputID: "a", Route: event.DeliveryNative, GenerationID: "g"})
	for name, c := range map[string]struct {
		history []event.Event
		want    Result
	}{
		"provisional text settles nothing": {[]event.Event{user,
			of(event.AssistantMessage{Correlation: in("g", []string{"a"}), Text: "half"}),
			of(event.OperationCompleted{Text: "whole"}), finished}, Finished{}},
		"another generation's end settles nothing": {[]event.Event{user,
			of(event.GenerationFinished{Correlation: in("f", []string{"b"})}),
			of(event.GenerationFailed{Correlation: in("f", []string{"b"})}), finished}, Finished{}},
		"queued, then delivered": {[]event.Event{user, of(event.InputQueued{InputID: "a"}), of(event.InputDelivered{InputID: "a"}), finished}, Finished{}},
		"failed":                 {[]event.Event{user, of(event.GenerationFailed{Correlation: in("g", []string{"b", "a"})})}, Failed{}},
		"a failed generation leaves what is pending pending": {[]event.Event{user,
			of(event.GenerationFailed{Correlation: in("f", []string{"b"})}), finished}, Finished{}},
		"detached": {[]event.Event{user, of(event.GenerationDetached{Correlation: in("g", []string{"a"})})}, Detached{}},
		"accepted by the provider and never applied": {[]event.Event{user,
			of(event.SteeringAccepted{InputID: "a", TargetGenerationID: "g"}),
			of(event.GenerationFinished{Correlation: in("g", []string{"b"}, "a")})}, Unconfirmed{}},
		"rejected": {[]event.Event{of(event.InputRejected{InputID: "b", Reason: event.RejectInvalid}),
			of(event.InputRejected{InputID: "a", Reason: event.RejectQueueFull})}, Rejected{}},
		"an identity conflict concerns other content": {[]event.Event{user,
			of(event.InputRejected{InputID: "a", Reason: event.RejectIdentityConflict}), finished}, Finished{}},
		"held":      {[]event.Event{user, of(event.InputHeld{InputID: "b"}), of(event.InputHeld{InputID: "a"})}, Held{}},
		"withdrawn": {[]event.Event{user, of(event.InputWithdrawn{InputID: "b"}), of(event.InputWithdrawn{InputID: "a"})}, Withdrawn{}},
		"unknown waits for its generation's end": {[]event.Event{user, unknown,
			of(event.GenerationFinished{Correlation: in("f", []string{"b"})}),
			of(event.GenerationFinished{Correlation: in("g", []string{"b"})})}, Unknown{}},
		"unknown may be confirmed":      {[]event.Event{user, unknown, finished}, Finished{}},
		"unknown in a session's end":    {[]event.Event{user, unknown, of(event.SessionClosed{})}, Unknown{}},
		"unknown and its detached turn": {[]event.Event{user, unknown, of(event.GenerationDetached{Correlation: in("g", []string{"b"})})}, Unknown{}},
		"a command without effect": {[]event.Event{accepted("a", event.KindWithdraw),
			of(event.CommandRejected{InputID: "b"}), of(event.CommandRejected{InputID: "a"})}, Refused{}},
		"a withdraw with its effect": {[]event.Event{accepted("a", event.KindWithdraw),
			caused("b", event.InputDelivered{}), caused("a", event.InputWithdrawn{InputID: "x", By: "a"})}, Carried{}},
		"a stop is done when the session is closed": {[]event.Event{accepted("a", event.KindStop),
			caused("a", event.OperationUnknown{}), caused("a", event.GenerationDetached{}),
			caused("a", event.InputHeld{InputID: "b"}), caused("a", event.SessionClosed{})}, Carried{}},
		"an interrupt is done when the generation has ended": {[]event.Event{accepted("a", event.KindInterrupt),
			caused("a", event.OperationUnknown{}), caused("a", event.GenerationDetached{})}, Carried{}},
		"a message that causes a generation is no command": {[]event.Event{user,
			caused("a", event.GenerationStarted{InitialInputID: "a"}), finished}, Finished{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := waiting{id: "a"}
			for i, e := range c.history {
				got := w.take(e)
				if last := i == len(c.history)-1; !last && got != nil {
					t.Fatalf("event %d (%s) ended the wait with %T, too early", i+1, e.Type, got)
				} else if last && reflect.TypeOf(got) != reflect.TypeOf(c.want) {
					t.Fatalf("the last event gave %T, want %T", got, c.want)
				}
			}
		})
	}
}
