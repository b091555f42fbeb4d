package replay

import "github.com/loopd/loopd/event"

// The loop's promises (P10 is not in use).
var rulesP = []Rule{
	{ID: "P1", Sentence: "`finished` follows a final checkpoint saved after the generation's last operation", judge: judgeP1,
		types: []event.Type{event.TypeGenerationFinished}},
	{ID: "P2", Sentence: "after an accepted `stop` nothing is accepted and no generation starts", judge: judgeP2,
		types: []event.Type{event.TypeInputAccepted, event.TypeGenerationStarted}},
	{ID: "P3", Sentence: "`session.idle` only when no generation is open and no `user`, `steer` or `service` input is pending", judge: judgeP3,
		types: []event.Type{event.TypeSessionIdle}},
	{ID: "P4", Sentence: "`steering.sent` only of an unanchored `user` or `steer` input, while an operation of that generation runs", judge: judgeP4,
		types: []event.Type{event.TypeSteeringSent}},
	{ID: "P5", Sentence: "a `write` that equals an earlier one of its task is marked `repeats`", judge: judgeP5,
		types: []event.Type{event.TypeInvocationProposed}},
	{ID: "P6", Sentence: "a continuation keeps the `service_id` and `descriptor_revision` of its parent", judge: judgeP6,
		types: []event.Type{event.TypeOperationAdmitted}},
	{ID: "P7", Sentence: "nothing new begins because of late evidence: its id is nobody's `cause`", judge: judgeP7},
	{ID: "P8", Sentence: "one response's calls are proposed all together or withheld all together; none is dropped", judge: judgeP8,
		types: []event.Type{event.TypeInvocationProposed, event.TypeInvocationWithheld, event.TypeOperationAdmitted, event.TypeGenerationFinished, event.TypeGenerationFailed}},
	{ID: "P9", Sentence: "`input.accepted`'s `digest` is that of its `input`", judge: judgeP9,
		types: []event.Type{event.TypeInputAccepted}},
	{ID: "P11", Sentence: "`session.closed` tells the status of section 4", judge: judgeP11,
		types: []event.Type{event.TypeSessionClosed}},
	{ID: "P12", Sentence: "`identity_conflict` refuses other content: its digest is not the accepted one", judge: judgeP12,
		types: []event.Type{event.TypeInputRejected}},
	{ID: "P13", Sentence: "a session's inputs are taken in the order of its inbox", judge: judgeP13,
		types: []event.Type{event.TypeInputAccepted, event.TypeInputRejected}},
}

func judgeP1(l *look) {
	p := l.e.Payload.(event.GenerationFinished)
	if !l.s.isOpen(p.GenerationID) {
		return
	}
	g := l.s.open
	if !g.final {
		l.sayMissing("no final checkpoint was saved after the last operation of generation %s", g.id)
		return
	}
	if o := g.last(); o != nil && o.state == completed && g.finalOperation != o.id {
		l.say("the final checkpoint stands on operation %q, but the last one is %s", g.finalOperation, o.id)
	}
}

func judgeP2(l *look) {
	if !l.s.fenced {
		return
	}
	switch p := l.e.Payload.(type) {
	case event.InputAccepted:
		if in := l.s.inputs[p.InputID]; in == nil || !in.accepted {
			l.say("input %s is accepted after a stop: want input.rejected (session_closed)", p.InputID)
		}
	case event.GenerationStarted:
		l.say("generation %s starts after a stop", p.GenerationID)
	}
}

func judgeP3(l *look) {
	switch in := l.s.firstPending(); {
	case l.s.open != nil:
		l.sayMissing("generation %s is open", l.s.open.id)
	case in != nil:
		l.sayMissing("input %s is pending", in.id)
	}
}

func judgeP4(l *look) {
	p := l.e.Payload.(event.SteeringSent)
	in := l.s.inputs[p.InputID]
	if in != nil && !in.adopted && in.accepted {
		switch {
		case in.kind != event.KindUser && in.kind != event.KindSteer:
			l.say("input %s is of kind %s; only user and steer are sent", in.id, in.kind)
		case in.anchor != "":
			l.say("input %s is anchored to generation %s; it takes the boundary queue", in.id, in.anchor)
		case in.attachments:
			l.say("input %s has attachments; it takes the boundary queue", in.id)
		}
	}
	if o := l.s.flight; o == nil || o.generation != p.TargetGenerationID {
		l.sayMissing("no operation of generation %q runs", p.TargetGenerationID)
	}
}

func judgeP5(l *look) {
	p := l.e.Payload.(event.InvocationProposed)
	if p.Effect != event.EffectWrite || l.s.hole || l.s.invocations[p.InvocationID] != nil {
		return
	}
	var last, lastDispatched *invocation
	named := p.Repeats == ""
	equals := l.s.equals(p)
	for _, v := range equals {
		named = named || v.id == p.Repeats
		if v.dispatches == 0 {
			continue
		}
		last = v
		if lastDispatched == nil || v.dispatchOrder > lastDispatched.dispatchOrder {
			lastDispatched = v
		}
	}
	switch {
	case last != nil && p.Repeats != last.id && p.Repeats != lastDispatched.id:
		l.say("repeats %q, want %s: an equal write of the task that was dispatched", p.Repeats, last.id)
	case !named:
		l.say("repeats %q, which is no equal write of the task", p.Repeats)
	}
}

func judgeP6(l *look) {
	p := l.e.Payload.(event.OperationAdmitted)
	parent := l.s.operations[p.ParentOperationID]
	if p.Segment <= 1 || parent == nil || parent.service == "" || l.s.operations[p.OperationID] != nil {
		return
	}
	if p.ServiceID != parent.service || p.DescriptorRevision != parent.revision {
		l.say("service %q, revision %q; its parent %s has %q, %q", p.ServiceID, p.DescriptorRevision, parent.id, parent.service, parent.revision)
	}
}

func judgeP7(l *look) {
	if l.e.Cause != "" && l.s.late[l.e.Cause] {
		l.say("its cause %s is late evidence, from which nothing begins", l.e.Cause)
	}
}

func judgeP8(l *look) {
	switch p := l.e.Payload.(type) {
	case event.InvocationProposed:
		if o := l.s.operations[p.OperationID]; o != nil && l.s.invocations[p.InvocationID] == nil {
			judgeMixed(l, o, func(c call) bool { return c.withheld }, "proposed", "withheld")
		}
	case event.InvocationWithheld:
		o := l.s.operations[p.OperationID]
		switch {
		case o == nil:
			l.sayMissing("operation %q was never admitted", p.OperationID)
		case o.state == completed && !o.late && len(o.calls) > 0 && o.find(p.ToolCallID, p.Tool) < 0:
			l.sayMissing("operation %s carried no call %q of %s that is not dealt with yet", o.id, p.ToolCallID, p.Tool)
		default:
			judgeMixed(l, o, func(c call) bool { return c.proposed }, "withheld", "proposed")
		}
	default:
		if o := unhandled(l); o != nil && o.authorises() {
			l.sayMissing("operation %s carried %s, which is neither proposed nor withheld", o.id, callLeft(o))
		}
	}
}

func judgeMixed(l *look, o *operation, other func(call) bool, is, was string) {
	for _, c := range o.calls {
		if other(c) {
			l.say("a call of operation %s is %s, but another, %q, was %s: all or none", o.id, is, c.id, was)
			return
		}
	}
}

func judgeP9(l *look) {
	p := l.e.Payload.(event.InputAccepted)
	if want := event.InputDigest(p.Input); p.Digest != want {
		l.say("digest %s of input %s, want %s: that of the input it carries", p.Digest, p.InputID, want)
		return
	}
	if body, err := event.ParseInput(p.Input); err == nil && body.InputID != p.InputID {
		l.say("input_id %q, but the input it carries is %q", p.InputID, body.InputID)
	}
}

func judgeP11(l *look) {
	p := l.e.Payload.(event.SessionClosed)
	want := event.StatusCompleted
	if l.s.stopped.active {
		want = event.StatusCancelled
	}
	switch {
	case l.s.closed: // E4
	case !l.s.fenced:
		l.sayMissing("no stop was accepted before")
	case l.s.stopped.pending && !l.s.stopped.active:
		// neither idle nor active: the contract names no status
	case p.Status != want:
		l.say("status %q, want %s", p.Status, want)
	}
}

func judgeP12(l *look) {
	p := l.e.Payload.(event.InputRejected)
	if p.Reason != event.RejectIdentityConflict {
		return
	}
	in := l.s.inputs[p.InputID]
	switch {
	case in == nil:
		l.sayMissing("input %s is refused as identity_conflict, but its id was not taken before", p.InputID)
	case !in.adopted && in.digest == p.Digest:
		l.say("input %s is refused as identity_conflict, but it is the content that was taken before", p.InputID)
	}
}

func judgeP13(l *look) {
	var t taken
	switch p := l.e.Payload.(type) {
	case event.InputAccepted:
		t = taken{seq: p.InboxSeq, id: p.InputID, digest: p.Digest, wasAccepted: true}
	case event.InputRejected:
		t = taken{seq: p.InboxSeq, id: p.InputID, digest: p.Digest}
	}
	last := l.s.inbox
	if last.id == "" || t.seq > last.seq || t == last && t.wasAccepted {
		return // the last: I1 says that it is taken twice
	}
	l.say("inbox_seq %d of input %s, after %d was taken", t.seq, t.id, last.seq)
}
