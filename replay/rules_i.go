package replay

import (
	"strings"

	"github.com/loopd/loopd/event"
)

// Inputs.
var rulesI = []Rule{
	{ID: "I1", Sentence: "accepted or rejected before anything else is said of an input; accepted at most once", judge: judgeI1,
		types: []event.Type{event.TypeInputAccepted, event.TypeInputRejected, event.TypeInputQueued, event.TypeInputDelivered,
			event.TypeInputHeld, event.TypeInputWithdrawn, event.TypeInputUnknown, event.TypeCommandRejected, event.TypeObservationReceived,
			event.TypeSteeringSent, event.TypeSteeringAccepted, event.TypeSteeringApplied, event.TypeSteeringRefused, event.TypeSteeringHeld,
			event.TypeSteeringUnknown, event.TypeGenerationStarted, event.TypeInvocationApproved, event.TypeInvocationDenied, event.TypeInvocationReconciled}},
	{ID: "I2", Sentence: "an input is delivered at most once, in one generation", judge: judgeI2,
		types: []event.Type{event.TypeInputDelivered}},
	{ID: "I3", Sentence: "`held`, `withdrawn`, `unknown`, `rejected` are final: never delivered or applied later (an `unknown` may be `applied` by the provider's own confirmation; a rejection as `identity_conflict` concerns the refused digest alone)", judge: judgeI3,
		types: []event.Type{event.TypeInputAccepted, event.TypeInputRejected, event.TypeInputQueued, event.TypeInputDelivered, event.TypeInputHeld,
			event.TypeInputWithdrawn, event.TypeInputUnknown, event.TypeSteeringSent, event.TypeSteeringAccepted, event.TypeSteeringApplied,
			event.TypeSteeringHeld, event.TypeSteeringUnknown}},
	{ID: "I4", Sentence: "boundary deliveries of a session follow the order of acceptance", judge: judgeI4,
		types: []event.Type{event.TypeInputDelivered}},
	{ID: "I5", Sentence: "`delivery`, `source` and `generation_id` are right: `new_turn` only first in a generation, and the id is the open generation's", judge: judgeI5,
		types: []event.Type{event.TypeInputAccepted, event.TypeInputQueued, event.TypeInputDelivered, event.TypeObservationReceived, event.TypeSteeringAccepted}},
	{ID: "I6", Sentence: "a `service` input never authorises: no `decided_by` names one", judge: judgeI6,
		types: []event.Type{event.TypeInvocationApproved, event.TypeInvocationDenied, event.TypeInvocationReconciled, event.TypeInputWithdrawn, event.TypeInputAccepted}},
}

// inputsNamed are the inputs that an event says something of.
func inputsNamed(p event.Payload) []string {
	switch p := p.(type) {
	case event.InputQueued:
		return []string{p.InputID}
	case event.InputDelivered:
		return []string{p.InputID}
	case event.InputHeld:
		return []string{p.InputID}
	case event.InputWithdrawn:
		return []string{p.InputID, p.By}
	case event.InputUnknown:
		return []string{p.InputID}
	case event.CommandRejected:
		return []string{p.InputID}
	case event.ObservationReceived:
		return []string{p.InputID}
	case event.SteeringSent:
		return []string{p.InputID}
	case event.SteeringAccepted:
		return []string{p.InputID}
	case event.SteeringApplied:
		return []string{p.InputID}
	case event.SteeringRefused:
		return []string{p.InputID}
	case event.SteeringHeld:
		return []string{p.InputID}
	case event.SteeringUnknown:
		return []string{p.InputID}
	case event.GenerationStarted:
		return []string{p.InitialInputID}
	case event.InvocationApproved:
		return []string{p.DecidedBy}
	case event.InvocationDenied:
		return []string{p.DecidedBy}
	case event.InvocationReconciled:
		if p.DecidedBy != "" {
			return []string{p.DecidedBy}
		}
	}
	return nil
}

func judgeI1(l *look) {
	switch p := l.e.Payload.(type) {
	case event.InputAccepted:
		if in := l.s.inputs[p.InputID]; in != nil && in.accepted {
			if in.adopted {
				return // what spoke of it too early was found
			}
			l.say("input %s was accepted before, at %d; the same again is acknowledged silently", p.InputID, in.sequence)
		}
	case event.InputRejected:
		in := l.s.inputs[p.InputID]
		if in != nil && in.rejected && p.Reason != event.RejectIdentityConflict && in.digest == p.Digest {
			l.say("input %s was rejected before; the same again is refused silently", p.InputID)
		}
	default:
		for _, id := range inputsNamed(p) {
			if l.s.inputs[id] == nil {
				l.sayMissing("input %q was neither accepted nor rejected before", id)
			}
		}
	}
}

func judgeI2(l *look) {
	p := l.e.Payload.(event.InputDelivered)
	if in := l.s.inputs[p.InputID]; in != nil && in.delivered {
		l.say("input %s was delivered before; an input is delivered once", p.InputID)
	}
}

func judgeI3(l *look) {
	var id, claim string
	switch p := l.e.Payload.(type) {
	case event.InputAccepted:
		if in := l.s.inputs[p.InputID]; in != nil && in.rejected && !in.accepted {
			l.say("input %s was rejected; a refused id stays refused", p.InputID)
		}
		return
	case event.InputRejected:
		in := l.s.inputs[p.InputID]
		if in != nil && in.accepted && !in.adopted && p.Reason != event.RejectIdentityConflict {
			l.say("input %s was accepted, and is now rejected as %s; only other content under its id can be, as identity_conflict", p.InputID, p.Reason)
		}
		return
	case event.SteeringApplied:
		in := l.s.inputs[p.InputID]
		if in != nil && in.unknown && !in.held && !in.withdrawn && p.Delivery == event.DeliveryNative {
			return // the provider's own confirmation
		}
		id, claim = p.InputID, "applied"
	case event.InputHeld, event.SteeringHeld:
		judgeAgain(l, inputsNamed(p)[0], "held")
		return
	case event.InputUnknown, event.SteeringUnknown:
		judgeAgain(l, inputsNamed(p)[0], "unknown")
		return
	case event.InputWithdrawn:
		judgeAgain(l, p.InputID, "withdrawn")
		return
	default:
		id = inputsNamed(p)[0]
		_, claim, _ = strings.Cut(string(l.e.Type), ".")
	}
	if in := l.s.inputs[id]; in != nil && in.lastWord() != "" {
		l.say("input %s was %s, which is final, and is now %s", id, in.lastWord(), claim)
	}
}

// judgeAgain holds one final word against another; input.* and steering.* of
// the same word stand side by side.
func judgeAgain(l *look, id, word string) {
	in := l.s.inputs[id]
	switch {
	case in == nil:
	case in.lastWord() != "" && in.lastWord() != word:
		l.say("input %s was %s, which is final, and is now %s", id, in.lastWord(), word)
	case word != "unknown" && (in.delivered || in.applied):
		l.say("input %s was delivered, and is now %s", id, word)
	}
}

func judgeI4(l *look) {
	p := l.e.Payload.(event.InputDelivered)
	in := l.s.inputs[p.InputID]
	if p.Delivery != event.DeliveryRequestBoundary || in == nil || in.adopted || in.delivered {
		return
	}
	if in.order < l.s.boundary {
		l.say("input %s is delivered after one that was accepted later", p.InputID)
	}
}

func judgeI5(l *look) {
	switch p := l.e.Payload.(type) {
	case event.InputAccepted:
		judgeTaken(l, p)
	case event.InputQueued:
		judgeSource(l, p.InputID, p.Source)
		if p.Delivery != event.DeliveryRequestBoundary {
			l.say("delivery %q, want request_boundary: what waits, waits for a boundary", p.Delivery)
		}
	case event.ObservationReceived:
		judgeSource(l, p.InputID, p.Source)
		if in := l.s.inputs[p.InputID]; in != nil && !in.adopted && in.kind != event.KindService {
			l.say("input %s is of kind %s; only a service input is an observation", p.InputID, in.kind)
		}
	case event.InputDelivered:
		judgeSource(l, p.InputID, p.Source)
		judgeDelivery(l, p)
	case event.SteeringAccepted:
		in := l.s.inputs[p.InputID]
		if in == nil || in.adopted {
			return
		}
		if want := deliveryOf(in); p.Delivery != want {
			l.say("delivery %q of input %s, want %s", p.Delivery, p.InputID, want)
		}
	}
}

func deliveryOf(in *input) string {
	if in.anchor != "" {
		return event.DeliveryRequestBoundary
	}
	return event.DeliveryNative
}

// judgeTaken holds input.accepted against the input that it carries.
func judgeTaken(l *look, p event.InputAccepted) {
	body, err := event.ParseInput(p.Input)
	if err != nil {
		return // P9 and the schema see it
	}
	switch {
	case p.Source != body.EffectiveSource():
		l.say("source %q, but its input says %q", p.Source, body.EffectiveSource())
	case p.Kind != body.Kind:
		l.say("kind %q, but its input says %q", p.Kind, body.Kind)
	case p.Target != body.Target:
		l.say("target %q, but its input says %q", p.Target, body.Target)
	}
}

func judgeSource(l *look, id, source string) {
	if in := l.s.inputs[id]; in != nil && !in.adopted && in.accepted && in.source != source {
		l.say("source %q of input %s, want %q as accepted", source, id, in.source)
	}
}

func judgeDelivery(l *look, p event.InputDelivered) {
	in, g := l.s.inputs[p.InputID], l.s.open
	switch {
	case in != nil && !in.adopted && in.accepted && !in.kind.Content():
		l.say("input %s is a %s command; only content is delivered", p.InputID, in.kind)
	case g == nil && l.s.generations[p.GenerationID] == nil:
		// G1 says that it never started.
	case g == nil:
		l.say("generation_id %q, but no generation is open", p.GenerationID)
	case g.id != p.GenerationID:
		l.say("generation_id %q, want the open generation's, %q", p.GenerationID, g.id)
	case p.Delivery == event.DeliveryNewTurn:
		switch {
		case g.deliveries > 0 || len(g.operations) > 0:
			l.say("delivery new_turn of input %s, but generation %s has had its first delivery", p.InputID, g.id)
		case g.initial != p.InputID:
			l.say("delivery new_turn of input %s, but %s began generation %s", p.InputID, g.initial, g.id)
		}
	case p.Delivery != event.DeliveryRequestBoundary:
		l.say("delivery %q, want new_turn or request_boundary", p.Delivery)
	default:
		first := l.s.inputs[g.initial]
		if g.deliveries == 0 && first != nil && first.kind.Content() && !first.delivered {
			l.say("delivery request_boundary of input %s, but the first in generation %s is its initial input's new_turn", p.InputID, g.id)
		}
	}
}

func judgeI6(l *look) {
	switch p := l.e.Payload.(type) {
	case event.InvocationApproved:
		judgeAuthority(l, "decided_by", p.DecidedBy)
	case event.InvocationDenied:
		judgeAuthority(l, "decided_by", p.DecidedBy)
	case event.InvocationReconciled:
		judgeAuthority(l, "decided_by", p.DecidedBy)
		in := l.s.inputs[p.DecidedBy]
		if in != nil && in.accepted && !in.adopted && in.kind != event.KindService && in.kind != event.KindDecision {
			l.say("decided_by %s, which is a %s input; only a user's decision settles it", p.DecidedBy, in.kind)
		}
	case event.InputWithdrawn:
		judgeAuthority(l, "by", p.By)
	case event.InputAccepted:
		if p.Kind.Command() && p.Source != event.SourceUser {
			l.say("a %s command of source %q; only a user commands", p.Kind, p.Source)
		}
	}
}

func judgeAuthority(l *look, field, id string) {
	in := l.s.inputs[id]
	if in != nil && in.accepted && !in.adopted && (in.kind == event.KindService || in.source != event.SourceUser) {
		l.say("%s names %s, a %s input of source %q: it reports, it never decides", field, id, in.kind, in.source)
	}
}
