package replay

import "github.com/loopd/loopd/event"

// Steering.
var rulesS = []Rule{
	{ID: "S1", Sentence: "`applied` only after `accepted`, or after `input.unknown` (`native`); `accepted` and `refused` exclude each other for one route", judge: judgeS1,
		types: []event.Type{event.TypeSteeringApplied, event.TypeSteeringAccepted, event.TypeSteeringRefused, event.TypeInputUnknown}},
	{ID: "S2", Sentence: "native: no queueing or delivery of an input after `steering.sent` unless `steering.refused` came between", judge: judgeS2,
		types: []event.Type{event.TypeInputQueued, event.TypeInputDelivered, event.TypeInputHeld, event.TypeInputWithdrawn, event.TypeSteeringSent}},
	{ID: "S3", Sentence: "anchored input: never delivered or applied outside its generation", judge: judgeS3,
		types: []event.Type{event.TypeInputDelivered, event.TypeSteeringAccepted, event.TypeSteeringApplied}},
	{ID: "S4", Sentence: "the barrier: no `steering.sent` while an earlier input waits for a boundary, until the next `operation.admitted` of that generation", judge: judgeS4,
		types: []event.Type{event.TypeSteeringSent}},
}

func judgeS1(l *look) {
	switch p := l.e.Payload.(type) {
	case event.SteeringApplied:
		in := l.s.inputs[p.InputID]
		if in == nil || in.adopted {
			return
		}
		accepted := in.anchored
		if p.Delivery == event.DeliveryNative {
			accepted = in.owned || in.unknownNative
		}
		switch {
		case in.applied:
			l.say("input %s was applied before", p.InputID)
		case !accepted:
			l.sayMissing("input %s is applied (%s), but steering.accepted of that route did not come before", p.InputID, p.Delivery)
		}
	case event.SteeringAccepted:
		in := l.s.inputs[p.InputID]
		switch {
		case in == nil || in.adopted:
		case p.Delivery == event.DeliveryNative && in.refused:
			l.say("input %s was refused by the provider, and is now accepted", p.InputID)
		case p.Delivery == event.DeliveryNative && !in.sent:
			l.sayMissing("input %s is accepted by the provider, but was not sent to it", p.InputID)
		case in.owned || in.anchored:
			l.say("input %s was accepted before; each is answered once", p.InputID)
		}
	case event.InputUnknown:
		if in := l.s.inputs[p.InputID]; in != nil && !in.adopted && p.Route == event.DeliveryNative && !in.sent {
			l.sayMissing("input %s is unknown at the provider, but was not sent to it", p.InputID)
		}
	case event.SteeringRefused:
		in := l.s.inputs[p.InputID]
		switch {
		case in == nil || in.adopted:
		case in.owned:
			l.say("input %s was accepted by the provider, and is now refused", p.InputID)
		case in.refused:
			l.say("input %s was refused before; each is answered once", p.InputID)
		case !in.sent:
			l.sayMissing("input %s is refused by the provider, but was not sent to it", p.InputID)
		}
	}
}

func judgeS2(l *look) {
	id := inputsNamed(l.e.Payload)[0]
	in := l.s.inputs[id]
	if in == nil || !in.sent {
		return
	}
	switch l.e.Payload.(type) {
	case event.SteeringSent:
		l.say("input %s was sent before; it is never sent again", id)
	case event.InputHeld, event.InputWithdrawn:
		if in.owned {
			l.say("the provider owns input %s; it is not relabelled", id)
		}
	default:
		if !in.refused {
			l.sayMissing("input %s was sent to the provider, which did not refuse it: no other route may take it", id)
		}
	}
}

func judgeS3(l *look) {
	var id, generation string
	switch p := l.e.Payload.(type) {
	case event.InputDelivered:
		id, generation = p.InputID, p.GenerationID
	case event.SteeringAccepted:
		id, generation = p.InputID, p.TargetGenerationID
	case event.SteeringApplied:
		id, generation = p.InputID, p.TargetGenerationID
	}
	in := l.s.inputs[id]
	if in == nil || in.anchor == "" || in.anchor == generation {
		return
	}
	l.say("input %s is anchored to generation %s and never enters %s", id, in.anchor, generation)
}

func judgeS4(l *look) {
	p := l.e.Payload.(event.SteeringSent)
	in := l.s.inputs[p.InputID]
	if in == nil || in.adopted {
		return
	}
	for _, other := range l.s.pending {
		if other.order < in.order && other.waits() {
			l.sayMissing("input %s overtakes %s, which waits for a boundary", p.InputID, other.id)
			return
		}
	}
	if l.s.barrier != 0 && l.s.barrier < in.order {
		l.sayMissing("input %s overtakes a batch that has entered and whose operation is not admitted yet", p.InputID)
		return
	}
	if other := l.s.unanswered(); other != nil && other != in {
		l.sayMissing("input %s is sent while the provider has not answered for %s; one at a time", p.InputID, other.id)
	}
}
