package replay

import "github.com/loopd/loopd/event"

// Invocations.
var rulesV = []Rule{
	{ID: "V1", Sentence: "proposed before all else; dispatched at most once, unless `read`/`idempotent` after a new epoch", judge: judgeV1,
		types: []event.Type{event.TypeInvocationProposed, event.TypeInvocationAwaitingApproval, event.TypeInvocationApproved, event.TypeInvocationDenied,
			event.TypeInvocationWithdrawn, event.TypeInvocationDispatched, event.TypeInvocationCompleted, event.TypeInvocationFailed,
			event.TypeInvocationUncertain, event.TypeInvocationInspected, event.TypeInvocationReconciled}},
	{ID: "V2", Sentence: "`approval: required` or a `repeats` of a completed write: no dispatch without an `approved` that names a `decision` of a user and the digest of the very arguments; one decision counts once; none after its generation's end", judge: judgeV2,
		types: []event.Type{event.TypeInvocationProposed, event.TypeInvocationApproved, event.TypeInvocationDenied, event.TypeInvocationDispatched}},
	{ID: "V3", Sentence: "nothing proposed from an operation whose `finish` is not `tool_calls`; what such a response carried is `withheld`", judge: judgeV3,
		types: []event.Type{event.TypeInvocationProposed, event.TypeOperationAdmitted, event.TypeGenerationFinished, event.TypeGenerationFailed}},
	{ID: "V4", Sentence: "no `completed` invocation is dispatched again; an uncertain `write` is never dispatched again", judge: judgeV4,
		types: []event.Type{event.TypeInvocationDispatched}},
}

// invocationNamed is the invocation that an event after its proposal names.
func invocationNamed(p event.Payload) string {
	switch p := p.(type) {
	case event.InvocationAwaitingApproval:
		return p.InvocationID
	case event.InvocationApproved:
		return p.InvocationID
	case event.InvocationDenied:
		return p.InvocationID
	case event.InvocationWithdrawn:
		return p.InvocationID
	case event.InvocationDispatched:
		return p.InvocationID
	case event.InvocationCompleted:
		return p.InvocationID
	case event.InvocationFailed:
		return p.InvocationID
	case event.InvocationUncertain:
		return p.InvocationID
	case event.InvocationInspected:
		return p.InvocationID
	case event.InvocationReconciled:
		return p.InvocationID
	}
	return ""
}

func judgeV1(l *look) {
	if p, ok := l.e.Payload.(event.InvocationProposed); ok {
		if l.s.invocations[p.InvocationID] != nil {
			l.say("invocation %s was proposed before", p.InvocationID)
		}
		return
	}
	id := invocationNamed(l.e.Payload)
	v := l.s.invocations[id]
	if v == nil {
		l.sayMissing("invocation %q was never proposed", id)
		return
	}
	switch l.e.Payload.(type) {
	case event.InvocationDispatched:
		again := v.effect != event.EffectWrite && l.e.Epoch > v.epoch
		if v.dispatches > 0 && !again {
			l.say("invocation %s (%s) was dispatched before, in epoch %d", id, v.effect, v.epoch)
		}
	case event.InvocationCompleted, event.InvocationFailed, event.InvocationUncertain:
		if v.dispatches == 0 {
			l.sayMissing("invocation %s has an outcome, but was never dispatched", id)
		} else if v.completed || v.failed {
			l.say("invocation %s has had its receipt", id)
		}
	}
}

func judgeV2(l *look) {
	switch p := l.e.Payload.(type) {
	case event.InvocationProposed:
		if digest, err := event.ArgumentsDigest(p.Arguments); err == nil && digest != p.InputDigest {
			l.say("input_digest %s, want %s: that of the very arguments", p.InputDigest, digest)
		}
	case event.InvocationApproved:
		judgeDecision(l, p.InvocationID, p.DecidedBy, event.VerdictApprove)
		v, in := l.s.invocations[p.InvocationID], l.s.inputs[p.DecidedBy]
		switch {
		case v == nil || v.digest == "":
		case p.InputDigest != v.digest:
			l.say("input_digest %s, want %s: that of the arguments of invocation %s", p.InputDigest, v.digest, v.id)
		case in != nil && in.kind == event.KindDecision && in.argsDigest != v.digest:
			l.say("decision %s saw arguments %q, invocation %s has %s", in.id, in.argsDigest, v.id, v.digest)
		}
	case event.InvocationDenied:
		judgeDecision(l, p.InvocationID, p.DecidedBy, event.VerdictDeny)
	case event.InvocationDispatched:
		if v := l.s.invocations[p.InvocationID]; v != nil {
			judgeDispatch(l, v)
		}
	}
}

// judgeDecision holds an approval or a denial against the decision it names.
func judgeDecision(l *look, invocationID, decidedBy, verdict string) {
	v, in := l.s.invocations[invocationID], l.s.inputs[decidedBy]
	switch {
	case in == nil || in.adopted: // I1
	case in.kind != event.KindDecision || !in.accepted:
		l.say("decided_by %s, a %s input; want a decision of a user", in.id, in.kind)
	case in.verdict != verdict || in.target != invocationID:
		l.say("decision %s says %s of %s, not %s of %s", in.id, in.verdict, in.target, verdict, invocationID)
	case in.refusedCommand:
		l.say("decision %s was rejected", in.id)
	case in.counted:
		l.say("decision %s has been counted before; one decision counts once", in.id)
	case v != nil && v.decided:
		l.say("invocation %s was decided before", v.id)
	case v != nil && v.generation != "" && l.s.ended(v.generation):
		l.say("generation %s of invocation %s has ended: its approval is void", v.generation, v.id)
	}
}

func judgeDispatch(l *look, v *invocation) {
	earlier := l.s.invocations[v.repeats]
	switch {
	case l.s.ended(v.generation):
		l.say("generation %s of invocation %s has ended", v.generation, v.id)
	case v.denied:
		l.say("invocation %s was denied", v.id)
	case v.withdrawn:
		l.say("invocation %s was withdrawn", v.id)
	case v.required && !v.approved:
		l.sayMissing("invocation %s needs an approval and has none", v.id)
	case earlier == nil || v.effect != event.EffectWrite:
	case earlier.uncertain && !earlier.completed && !earlier.failed && !earlier.reconciled && !earlier.abandoned:
		l.say("invocation %s repeats %s, which is uncertain: it waits until that one is reconciled", v.id, earlier.id)
	case (earlier.completed || earlier.reconciled) && !v.approved:
		l.sayMissing("invocation %s repeats %s, which has been done: it needs an explicit approval", v.id, earlier.id)
	}
}

func judgeV3(l *look) {
	p, proposed := l.e.Payload.(event.InvocationProposed)
	if !proposed {
		if o := unhandled(l); o != nil && !o.authorises() {
			l.sayMissing("operation %s (finish %q) carried %s, which is not withheld", o.id, o.finish, callLeft(o))
		}
		return
	}
	o := l.s.operations[p.OperationID]
	switch {
	case o == nil:
		l.sayMissing("operation %q was never admitted", p.OperationID)
	case o.state != completed || o.late:
		l.sayMissing("operation %s is %s: it proposes nothing", o.id, o.state)
	case o.finish != event.FinishToolCalls:
		l.say("operation %s has finish %q, which authorises no call", o.id, o.finish)
	case o.veto != "":
		l.say("operation %s has a veto: %s", o.id, o.veto)
	default:
		judgeCall(l, o, p)
	}
}

// judgeCall holds a proposal against the response that it comes from.
func judgeCall(l *look, o *operation, p event.InvocationProposed) {
	if l.s.invocations[p.InvocationID] != nil {
		return // V1
	}
	i := o.find(p.ToolCallID, p.Tool)
	switch {
	case i < 0:
		l.sayMissing("operation %s carried no call %q of %s that is not proposed yet", o.id, p.ToolCallID, p.Tool)
	case o.calls[i].arguments != p.Arguments && o.calls[i].arguments != "":
		l.say("arguments %s, but the response says %s: repaired arguments are not the invocation", short(p.Arguments), short(o.calls[i].arguments))
	}
}

// unhandled is the last operation of the generation that goes on or ends here,
// if one of its calls was neither proposed nor withheld.
func unhandled(l *look) *operation {
	var id string
	switch p := l.e.Payload.(type) {
	case event.OperationAdmitted:
		id = p.GenerationID
	case event.GenerationFinished:
		id = p.GenerationID
	case event.GenerationFailed:
		id = p.GenerationID
	}
	if !l.s.isOpen(id) || l.s.open.last() == nil {
		return nil
	}
	if o := l.s.open.last(); callLeft(o) != "" {
		return o
	}
	return nil
}

func callLeft(o *operation) string {
	for _, c := range o.calls {
		if !c.proposed && !c.withheld {
			return "a call of " + c.tool
		}
	}
	return ""
}

func judgeV4(l *look) {
	p := l.e.Payload.(event.InvocationDispatched)
	switch v := l.s.invocations[p.InvocationID]; {
	case v == nil:
	case v.completed:
		l.say("invocation %s is completed; its result is reused, it never runs again", v.id)
	case v.uncertain && v.effect == event.EffectWrite:
		l.say("invocation %s is a write that may have run; it is never dispatched again", v.id)
	}
}
