package replay

import (
	"slices"
	"time"

	"github.com/loopd/loopd/event"
)

// Continuation of work.
var rulesC = []Rule{
	{ID: "C1", Sentence: "at most one `continuation.started` for a checkpoint", judge: judgeC1,
		types: []event.Type{event.TypeContinuationStarted}},
	{ID: "C2", Sentence: "no continuation after `continuation.stopped` of that checkpoint without a `decision` `continue`; none beyond its bounds", judge: judgeC2,
		types: []event.Type{event.TypeContinuationStarted}},
	{ID: "C3", Sentence: "a checkpoint's `delivered` is the UTF-8 length and SHA-256 (base64url) of its chain's merged text, its `invocations` the ids of the task's `invocation.completed`, in order", judge: judgeC3,
		types: []event.Type{event.TypeCheckpointSaved}},
	{ID: "C4", Sentence: "a summary's `kept` names each completed invocation, counted approval and operation of the task", judge: judgeC4,
		types: []event.Type{event.TypeContextSummarized}},
}

func judgeC1(l *look) {
	p := l.e.Payload.(event.ContinuationStarted)
	switch c := l.s.checkpoints[p.CheckpointID]; {
	case c == nil:
		l.sayMissing("checkpoint %q was never saved", p.CheckpointID)
	case c.started:
		l.say("checkpoint %s was claimed before; it has one continuation, ever", c.id)
	case c.kind != event.CheckpointCutoff:
		l.say("checkpoint %s is %s; only a cutoff continues", c.id, c.kind)
	}
}

func judgeC2(l *look) {
	p := l.e.Payload.(event.ContinuationStarted)
	c, g := l.s.checkpoints[p.CheckpointID], l.s.open
	if c == nil || c.started {
		return
	}
	granted := g != nil && g.grant == c
	if c.stopped && !granted {
		l.sayMissing("checkpoint %s was stopped, and no decision to continue began this generation", c.id)
		return
	}
	if g == nil {
		return
	}
	var base checkpoint // what was spent before a grant does not count again
	if g.grant != nil {
		base = *g.grant
	}
	if reason := beyond(g.bounds, base, c, l.s.operations[c.operation], granted); reason != "" {
		l.say("segment %d of checkpoint %s is beyond its bounds: %s", p.Segment, c.id, reason)
	}
}

// beyond says which bound the checkpoint has reached, "" if none (6.2).
func beyond(b event.Bounds, base checkpoint, c *checkpoint, o *operation, granted bool) string {
	switch {
	case b.MaxSegments > 0 && c.segment-base.segment >= b.MaxSegments:
		return event.StopSegmentsExhausted
	case b.MaxTokens > 0 && c.spent.Tokens-base.spent.Tokens >= b.MaxTokens:
		return event.StopTokensExhausted
	case b.MaxCost > 0 && c.spent.Cost-base.spent.Cost >= b.MaxCost:
		return event.StopCostExhausted
	case b.MaxElapsedMS > 0 && c.spent.ElapsedMS-base.spent.ElapsedMS >= b.MaxElapsedMS:
		return event.StopTimeExhausted
	case b.NoProgress > 0 && !granted && o != nil && o.idle >= b.NoProgress:
		return event.StopNoProgress
	case b.ExpiresAt == "":
		return ""
	}
	if end, err := time.Parse(time.RFC3339Nano, b.ExpiresAt); err == nil && !c.at.Before(end) {
		return event.StopAuthorityEnded
	}
	return ""
}

func judgeC3(l *look) {
	p := l.e.Payload.(event.CheckpointSaved)
	if l.s.hole {
		return
	}
	if text, known := chainText(l.s, p); known {
		if want := (event.Delivered{Bytes: int64(len(text)), Digest: event.Digest([]byte(text))}); p.Delivered != want {
			l.say("delivered %d bytes, %s; want %d bytes, %s: the merged text of its chain, %s",
				p.Delivered.Bytes, p.Delivered.Digest, want.Bytes, want.Digest, short(text))
		}
	}
	g := l.s.open
	if g == nil || g.id != p.GenerationID {
		return
	}
	var want []string
	if t := l.s.tasks[g.task]; t != nil {
		want = t.completed
	}
	if !slices.Equal(p.Invocations, want) {
		l.say("invocations %q, want those that the task completed, in order, %q", p.Invocations, want)
	}
}

// chainText is the merged text that a checkpoint measures; false if the log
// does not show it.
func chainText(s *session, p event.CheckpointSaved) (string, bool) {
	if p.OperationID == "" {
		return "", true
	}
	o := s.operations[p.OperationID]
	if o == nil || o.state == running || s.ended(o.generation) {
		return "", false
	}
	return o.text()
}

func judgeC4(l *look) {
	p := l.e.Payload.(event.ContextSummarized)
	if l.s.open == nil || l.s.tasks[l.s.open.task] == nil {
		return
	}
	t := l.s.tasks[l.s.open.task]
	for _, r := range t.receipts {
		if r.at <= p.ThroughSequence && !slices.Contains(p.Kept.Invocations, r.invocation) {
			l.say("kept.invocations lacks %s, which the task completed", r.invocation)
			return
		}
	}
	for _, a := range t.approvals {
		if a.at <= p.ThroughSequence && !slices.Contains(p.Kept.Approvals, a.decidedBy) && !slices.Contains(p.Kept.Approvals, a.invocation) {
			l.say("kept.approvals lacks %s, which decided invocation %s of the task", a.decidedBy, a.invocation)
			return
		}
	}
	for _, o := range t.operations {
		if o.completedAt <= p.ThroughSequence && !slices.Contains(p.Kept.Operations, o.id) {
			l.say("kept.operations lacks %s of the task", o.id)
			return
		}
	}
}
