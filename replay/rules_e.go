package replay

import "github.com/loopd/loopd/event"

// The envelope and the session's frame.
var rulesE = []Rule{
	{ID: "E1", Sentence: "`sequence` counts 1, 2, 3 … in each session; `prev` matches", judge: judgeE1},
	{ID: "E2", Sentence: "each event satisfies its schema", judge: judgeE2},
	{ID: "E3", Sentence: "`epoch` never goes back and rises by 1; a new epoch begins with `session.claimed` (a session opened but never claimed is claimed in epoch 1); nothing follows from an older epoch", judge: judgeE3},
	{ID: "E4", Sentence: "`session.opened` is first; after `session.closed` only `session.claimed` and late evidence: `operation.*` and `invocation.*` with `late`, `*.inspected`, `*.reconciled`, `steering.applied` (`native`), `job.*`, `input.rejected`, `command.rejected`", judge: judgeE4},
}

func judgeE1(l *look) {
	counts := l.e.Sequence == l.s.next || l.s.back != 0 && l.e.Sequence == l.s.back
	chains := l.e.Prev == l.s.prev
	switch {
	case !counts:
		l.say("sequence %d, want %d (events are missing, repeated or out of order)", l.e.Sequence, l.s.next)
	case !chains:
		l.say("prev %q, want %q: the event before it is not the one it was chained to", l.e.Prev, l.s.prev)
	}
}

func judgeE2(l *look) {
	if l.validate == nil || !event.Known(l.e.Type) || l.e.Version > event.Version {
		return
	}
	if err := l.validate(string(l.e.Type), l.e.Stored()); err != nil {
		l.say("not as its schema wants it: %v", err)
	}
}

func judgeE3(l *look) {
	_, claim := l.e.Payload.(event.SessionClaimed)
	_, opening := l.e.Payload.(event.SessionOpened)
	switch now := l.s.epoch; {
	case l.e.Epoch < now:
		l.say("epoch %d after epoch %d: an owner that was fenced has appended", l.e.Epoch, now)
	case l.e.Epoch > now+1 && !(now == 0 && l.s.hole):
		l.say("epoch %d after epoch %d, want %d at most", l.e.Epoch, now, now+1)
	case l.e.Epoch == now && claim && l.s.claimed:
		l.say("epoch %d is claimed a second time; a new owner takes epoch %d", now, now+1)
	case l.e.Epoch == now && !claim && !opening && !l.s.claimed:
		l.sayMissing("epoch %d was not claimed; session.claimed is an epoch's first event", now)
	case l.e.Epoch == now+1 && now > 0 && !l.s.claimed:
		l.sayMissing("epoch %d begins though epoch %d was never claimed; such a session is claimed in its own epoch", l.e.Epoch, now)
	case l.e.Epoch == now+1 && !claim && !(now == 0 && opening):
		l.sayMissing("epoch %d begins with %s, want session.claimed", l.e.Epoch, l.e.Type)
	}
}

func judgeE4(l *look) {
	_, opening := l.e.Payload.(event.SessionOpened)
	switch {
	case opening && (l.s.opened || l.s.next > 1 && !l.s.hole):
		l.say("a session is opened by its first event, once; this is event %d", l.e.Sequence)
	case !opening && !l.s.opened && l.s.next == 1:
		l.sayMissing("the session begins with it, want session.opened")
	case l.s.closed && !afterClose(l.e):
		l.say("after session.closed only evidence may follow")
	}
}

// afterClose reports that the event may stand behind session.closed.
func afterClose(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case event.SessionClaimed, event.InputRejected, event.CommandRejected,
		event.OperationInspected, event.InvocationInspected, event.InvocationReconciled,
		event.JobQueued, event.JobReturned, event.JobFailed, event.JobCancelled, event.JobCancelRequested, event.JobRecovered,
		event.Unknown:
		return true
	case event.OperationCompleted:
		return p.Late
	case event.OperationFailed:
		return p.Late
	case event.InvocationCompleted:
		return p.Late
	case event.InvocationFailed:
		return p.Late
	case event.SteeringApplied:
		return p.Delivery == event.DeliveryNative
	}
	return false
}
