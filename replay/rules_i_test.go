package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

// busy is a turn with a second input that waits and enters at a boundary.
func busy() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "steer").add(queued("in-2", "g1")).
		answer("o1", "stop", "A.").save("k1", "final", "g1", "o1", 1, "A.").add(delivered("in-2", "request_boundary", "g1")).
		ask("o2", "g1").answer("o2", "stop", "B.").finish("g1", "o2", "B.", "in-1", "in-2")
}

func TestI1(t *testing.T) {
	keeps(t, "two inputs", busy())
	breaks(t, "I1", "never accepted", busy().drop(event.TypeInputAccepted, 1))
	breaks(t, "I1", "accepted twice", busy().repeat(event.TypeInputAccepted, 1))
	breaks(t, "I1", "accepted too late", busy().swap(event.TypeInputAccepted, 1, event.TypeInputQueued, 0))
	s := simple().reject("in-7", "invalid")
	keeps(t, "rejected", s.clone())
	s.facts = append(s.facts, s.facts[len(s.facts)-1])
	breaks(t, "I1", "rejected twice", s, "P13")
}

func TestI2(t *testing.T) {
	breaks(t, "I2", "delivered twice", busy().repeat(event.TypeInputDelivered, 1))
	s := busy().start("g2", "in-2").ask("o3", "g2").answer("o3", "stop", "C.").finish("g2", "o3", "C.", "in-2")
	breaks(t, "I2", "delivered in a second generation", s)
}

func TestI3(t *testing.T) {
	held := func(word event.Payload) *script {
		return busy().insert(event.TypeInputDelivered, 1, word)
	}
	keeps(t, "a conflict concerns the refused digest alone",
		busy().insert(event.TypeInputDelivered, 1, event.InputRejected{InputID: "in-2", Digest: "other", Reason: "identity_conflict", InboxSeq: 3}))
	breaks(t, "I3", "held", held(event.InputHeld{InputID: "in-2", Reason: "x", GenerationID: "g1"}))
	breaks(t, "I3", "unknown", held(event.InputUnknown{InputID: "in-2", Route: "request_boundary", GenerationID: "g1"}))
	s := simple().reject("in-7", "queue_full")
	breaks(t, "I3", "rejected, then accepted", s.clone().accept("in-7", "user"))
	breaks(t, "I3", "rejected, then delivered", s.clone().start("g2", "in-7").ask("o2", "g2").answer("o2", "stop", "C.").finish("g2", "o2", "C.", "in-7"))
	breaks(t, "I3", "accepted, then rejected",
		busy().insert(event.TypeInputDelivered, 1, event.InputRejected{InputID: "in-2", Digest: "other", Reason: "invalid", InboxSeq: 3}))
	w := newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(queued("in-2", "g1")).
		accept("w-1", "withdraw", "target", "in-2").add(event.InputWithdrawn{InputID: "in-2", By: "w-1"})
	keeps(t, "withdrawn", w.clone())
	breaks(t, "I3", "withdrawn, then held", w.clone().add(event.InputHeld{InputID: "in-2", Reason: "x", GenerationID: "g1"}))
	breaks(t, "I3", "delivered, then held", busy().insert(event.TypeCheckpointSaved, 1, event.InputHeld{InputID: "in-2", Reason: "x", GenerationID: "g1"}))
}

func TestI4(t *testing.T) {
	three := func(first, second string) *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").
			accept("in-2", "user").add(queued("in-2", "g1")).accept("in-3", "user").add(queued("in-3", "g1")).
			answer("o1", "stop", "A.").add(delivered(first, "request_boundary", "g1"), delivered(second, "request_boundary", "g1")).
			ask("o2", "g1").answer("o2", "stop", "B.").finish("g1", "o2", "B.", "in-1", first, second)
	}
	keeps(t, "in order", three("in-2", "in-3"))
	breaks(t, "I4", "out of order", three("in-3", "in-2"))
	later := newScript().turn("g1", "in-1").accept("in-2", "user").accept("in-3", "user").
		add(delivered("in-3", "request_boundary", "g1")).ask("o1", "g1").answer("o1", "stop", "A.").
		add(delivered("in-2", "request_boundary", "g1")).
		ask("o2", "g1").answer("o2", "stop", "B.").finish("g1", "o2", "B.", "in-1", "in-3", "in-2")
	breaks(t, "I4", "overtaken by a batch", later)
}

func TestI5(t *testing.T) {
	breaks(t, "I5", "new_turn in the middle", edit(busy(), 1, func(p *event.InputDelivered) { p.Delivery = "new_turn" }))
	breaks(t, "I5", "no new_turn at the start", edit(busy(), 0, func(p *event.InputDelivered) { p.Delivery = "request_boundary" }))
	breaks(t, "I5", "another source", edit(busy(), 1, func(p *event.InputDelivered) { p.Source = "agent" }))
	breaks(t, "I5", "another source queued", edit(busy(), 0, func(p *event.InputQueued) { p.Source = "agent" }))
	breaks(t, "I5", "another generation", edit(busy(), 1, func(p *event.InputDelivered) { p.GenerationID = "g9" }), "G2")
	breaks(t, "I5", "another input begins", edit(busy(), 0, func(p *event.GenerationStarted) { p.InitialInputID = "in-1x" }), "I1")
	breaks(t, "I5", "accepted as another source", edit(busy(), 1, func(p *event.InputAccepted) { p.Source = "agent" }), "I6")
	breaks(t, "I5", "accepted as another kind", edit(busy(), 1, func(p *event.InputAccepted) { p.Kind = "user" }))
}

// decided is a write that a person approves.
func decided() *script {
	const args = `{"amount":5}`
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "charge", args)).
		add(proposed("v1", "c1", "o1", "g1", "charge", args, "write", "required"),
			event.InvocationAwaitingApproval{InvocationID: "v1", InputDigest: argsDigest(args)}).
		accept("yes-1", "decision", "target", "v1", "verdict", "approve", "input_digest", argsDigest(args)).
		add(event.InvocationApproved{InvocationID: "v1", DecidedBy: "yes-1", InputDigest: argsDigest(args)},
			event.InvocationDispatched{InvocationID: "v1"}, event.InvocationCompleted{InvocationID: "v1", Result: "ok", OK: true}).
		ask("o2", "g1").answer("o2", "stop", "Done.").save("k1", "final", "g1", "o2", 1, "Done.", "v1").add(finished("g1", "Done.", "in-1"))
}

func TestI6(t *testing.T) {
	keeps(t, "approved", decided())
	service := func() *script {
		s := decided()
		i := s.index(event.TypeInputAccepted, 1)
		s.inbox = 1
		s.facts[i].payload = s.accepted("yes-1", "service", "source", "bank", "target", "v1", "verdict", "approve", "input_digest", argsDigest(`{"amount":5}`))
		return s
	}
	breaks(t, "I6", "a service approves", service(), "V2", "G7")
	s := service()
	i := s.index(event.TypeInvocationApproved, 0)
	s.facts[i].payload = event.InvocationDenied{InvocationID: "v1", DecidedBy: "yes-1", InputDigest: argsDigest(`{"amount":5}`)}
	breaks(t, "I6", "a service denies", s, "V2", "G7")
	w := newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(queued("in-2", "g1")).
		accept("w-1", "service", "source", "bank").add(event.InputWithdrawn{InputID: "in-2", By: "w-1"})
	breaks(t, "I6", "a service withdraws", w)
}
