package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

func sent(id, g string) event.SteeringSent {
	return event.SteeringSent{InputID: id, TargetGenerationID: g, Route: "native"}
}

func owned(id, g, delivery string) event.SteeringAccepted {
	return event.SteeringAccepted{InputID: id, TargetGenerationID: g, Delivery: delivery}
}

func applied(id, g, delivery string) event.SteeringApplied {
	return event.SteeringApplied{InputID: id, TargetGenerationID: g, Delivery: delivery}
}

func refused(id, g string) event.SteeringRefused {
	return event.SteeringRefused{InputID: id, TargetGenerationID: g}
}

// steered is a turn with native steering: in-2 applied, in-3 accepted only.
func steered() *script {
	f := finished("g1", "A.", "in-1", "in-2")
	f.AcceptedInputIDs = []string{"in-3"}
	return newScript().turn("g1", "in-1").ask("o1", "g1").
		accept("in-2", "steer").add(sent("in-2", "g1"), owned("in-2", "g1", "native"), applied("in-2", "g1", "native")).
		accept("in-3", "user").add(sent("in-3", "g1"), owned("in-3", "g1", "native")).
		answer("o1", "stop", "A.").save("k1", "final", "g1", "o1", 1, "A.").add(f)
}

// no is a turn whose provider refuses, so that the input takes the queue.
func no() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").
		accept("in-2", "steer").add(sent("in-2", "g1"), refused("in-2", "g1"), queued("in-2", "g1")).
		answer("o1", "stop", "A.").add(delivered("in-2", "request_boundary", "g1")).
		ask("o2", "g1").answer("o2", "stop", "B.").finish("g1", "o2", "B.", "in-1", "in-2")
}

// lostSteer is a turn in which nobody knows what became of in-2.
func lostSteer() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").
		accept("in-2", "steer").add(sent("in-2", "g1"), event.InputUnknown{InputID: "in-2", Route: "native", GenerationID: "g1"}).
		answer("o1", "stop", "A.").finish("g1", "o1", "A.", "in-1")
}

// anchored is a turn with a correction that is anchored to it.
func anchored() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").
		accept("st-1", "steer", "target_generation_id", "g1").add(owned("st-1", "g1", "request_boundary"), queued("st-1", "g1")).
		answer("o1", "stop", "A.").save("k1", "final", "g1", "o1", 1, "A.").
		add(delivered("st-1", "request_boundary", "g1"), applied("st-1", "g1", "request_boundary")).
		ask("o2", "g1").answer("o2", "stop", "B.").finish("g1", "o2", "B.", "in-1", "st-1")
}

func TestS1(t *testing.T) {
	keeps(t, "native", steered())
	keeps(t, "anchored", anchored())
	keeps(t, "applied after the end", steered().add(applied("in-3", "g1", "native")))
	keeps(t, "unknown, then confirmed", lostSteer().add(applied("in-2", "g1", "native")))
	breaks(t, "S1", "applied, never accepted", steered().drop(event.TypeSteeringAccepted, 0))
	breaks(t, "S1", "anchored and applied, never accepted", anchored().drop(event.TypeSteeringAccepted, 0))
	breaks(t, "S1", "accepted and refused", steered().insert(event.TypeOperationCompleted, 0, refused("in-3", "g1")), "G3")
	breaks(t, "S1", "refused and accepted", no().insert(event.TypeInputQueued, 0, owned("in-2", "g1", "native")), "S2")
	breaks(t, "S1", "applied twice", steered().repeat(event.TypeSteeringApplied, 0))
	breaks(t, "S1", "accepted without having been sent", steered().drop(event.TypeSteeringSent, 1))
}

func TestS2(t *testing.T) {
	keeps(t, "refused", no())
	breaks(t, "S2", "queued without a refusal", no().drop(event.TypeSteeringRefused, 0), "S2")
	breaks(t, "S2", "queued although accepted", steered().insert(event.TypeOperationCompleted, 0, queued("in-3", "g1")))
	breaks(t, "S2", "sent again", lostSteer().insert(event.TypeInputUnknown, 0, sent("in-2", "g1")))
	breaks(t, "S2", "owned and relabelled", steered().insert(event.TypeOperationCompleted, 0, event.InputHeld{InputID: "in-3", Reason: "x", GenerationID: "g1"}), "G3")
	breaks(t, "S2", "delivered although accepted", steered().insert(event.TypeOperationCompleted, 0, delivered("in-3", "request_boundary", "g1")), "G3")
}

func TestS3(t *testing.T) {
	other := func() *script {
		s := anchored()
		i := s.index(event.TypeInputAccepted, 1)
		s.inbox = 1
		s.facts[i].payload = s.accepted("st-1", "steer", "target_generation_id", "g0")
		return s
	}
	breaks(t, "S3", "accepted, delivered and applied elsewhere", other().drop(event.TypeSteeringAccepted, 0).drop(event.TypeSteeringApplied, 0))
	breaks(t, "S3", "accepted elsewhere", edit(anchored(), 0, func(p *event.SteeringAccepted) { p.TargetGenerationID = "g0" }), "G2")
	breaks(t, "S3", "applied elsewhere", edit(anchored(), 0, func(p *event.SteeringApplied) { p.TargetGenerationID = "g0" }), "G2")
	s := newScript().turn("g1", "in-1").ask("o1", "g1").accept("st-1", "steer", "target_generation_id", "g1").
		add(owned("st-1", "g1", "request_boundary"), event.OperationFailed{OperationID: "o1", Dispatch: "rejected", Code: "x"})
	f := failedGeneration("g1", "in-1")
	keeps(t, "held", s.clone().add(event.SteeringHeld{InputID: "st-1", TargetGenerationID: "g1", Reason: "generation-failed"},
		event.InputHeld{InputID: "st-1", GenerationID: "g1", Reason: "generation-failed"}, f))
	f.AcceptedInputIDs = []string{"st-1"}
	breaks(t, "S3", "falls forward", s.clone().add(f).start("g2", "st-1"))
}

func TestS4(t *testing.T) {
	waiting := func() *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user", "call_id", "x").add(queued("in-2", "g1")).accept("in-3", "user")
	}
	breaks(t, "S4", "while one waits", waiting().add(sent("in-3", "g1")))
	breaks(t, "S4", "before the operation is admitted", waiting().answer("o1", "stop", "A.").add(delivered("in-2", "request_boundary", "g1"), sent("in-3", "g1")), "P4")
	keeps(t, "after it is admitted", newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(queued("in-2", "g1")).
		answer("o1", "stop", "A.").add(delivered("in-2", "request_boundary", "g1")).ask("o2", "g1").accept("in-3", "user").add(sent("in-3", "g1")))
	breaks(t, "S4", "while another is unanswered", newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(sent("in-2", "g1")).
		accept("in-3", "user").add(sent("in-3", "g1")))
	breaks(t, "S4", "past an anchored one", newScript().turn("g1", "in-1").ask("o1", "g1").accept("st-1", "steer", "target_generation_id", "g1").
		add(owned("st-1", "g1", "request_boundary")).accept("in-3", "user").add(sent("in-3", "g1")))
}
