package replay

import (
	"cmp"
	"slices"

	"github.com/loopd/loopd/event"
)

// Jobs.
var rulesJ = []Rule{
	{ID: "J1", Sentence: "one `queued` a job, at most one ending (`returned`, `failed`, `cancelled`, `recovered`; one `recovered` may follow `cancelled`, as evidence); never queued again", judge: judgeJ1,
		types: []event.Type{event.TypeJobQueued, event.TypeJobReturned, event.TypeJobFailed, event.TypeJobCancelled, event.TypeJobCancelRequested, event.TypeJobRecovered}},
}

// The end of a session.
var rulesW = []Rule{
	{ID: "W1", Sentence: "nothing is left unsaid: at the end of a session each accepted content input is delivered, applied, held, withdrawn, unknown, or left to its provider; each command has its effect or `command.rejected`; each generation has its terminal, each operation, invocation and job its ending, or a saved reason why it waits"},
}

func judgeJ1(l *look) {
	switch p := l.e.Payload.(type) {
	case event.JobQueued:
		if l.s.jobs[p.JobID] != nil {
			l.say("job %s was queued before", p.JobID)
		}
	case event.JobReturned:
		judgeJobEnd(l, p.JobID, "returned")
	case event.JobFailed:
		judgeJobEnd(l, p.JobID, "failed")
	case event.JobCancelled:
		judgeJobEnd(l, p.JobID, "cancelled")
	case event.JobCancelRequested:
		if l.s.jobs[p.JobID] == nil {
			l.sayMissing("job %q was never queued", p.JobID)
		}
	case event.JobRecovered:
		judgeJobEnd(l, p.JobID, "recovered")
	}
}

func judgeJobEnd(l *look, id, how string) {
	switch j := l.s.jobs[id]; {
	case j == nil:
		l.sayMissing("job %q was never queued", id)
	case j.ended == "cancelled" && how == "recovered" && !j.recovered:
		// evidence of what it did
	case j.ended != "":
		l.say("job %s has ended before (%s), and is now %s", id, j.ended, how)
	}
}

// leftUnsaid judges W1 at the end of the log. A session that is not closed may
// have pending things, and where events are missing nothing is proven. (An
// idle session has ended its generations, closed or not: that is G1.)
func leftUnsaid(s *session) []Finding {
	var found []Finding
	if s.open != nil && s.idle && !s.closed && !s.hole {
		found = append(found, Finding{Rule: "G1", Session: s.id, Sequence: s.next - 1,
			Message: "the session is idle, and generation " + s.open.id + " has no terminal event"})
	}
	if !s.closed || s.hole {
		return found
	}
	say := func(what, id, want string) {
		found = append(found, Finding{Rule: "W1", Session: s.id, Sequence: s.next - 1,
			Message: "at the end of the closed session " + what + " " + id + " " + want})
	}
	for _, in := range sorted(s.inputs, func(in *input) int { return in.order }) {
		switch {
		case in.adopted || !in.accepted:
		case in.isPending():
			say("input", in.id, "is pending: want delivered, applied, held, withdrawn or unknown")
		case in.sent && !in.refused && !in.owned && !in.applied && !in.final() && !in.delivered:
			say("input", in.id, "was sent to the provider without an answer: want unknown")
		case in.kind.Command() && !in.settled:
			say("command", in.id, "has no effect and no command.rejected")
		}
	}
	for _, id := range sortedKeys(s.generations) {
		if g := s.generations[id]; !g.ended {
			say("generation", id, "has no terminal event")
		}
	}
	for _, id := range sortedKeys(s.operations) {
		if s.operations[id].state == running {
			say("operation", id, "has no ending")
		}
	}
	for _, v := range sorted(s.invocations, func(v *invocation) int { return v.order }) {
		if !v.ended() {
			say("invocation", v.id, "has no ending: want a receipt, denied, withdrawn or uncertain")
		}
	}
	for _, id := range s.openJobs {
		say("job", id, "runs: want returned, failed, cancelled or recovered")
	}
	return found
}

// sorted are the entries of a ledger in their order of appearance.
func sorted[V any](m map[string]V, order func(V) int) []V {
	all := make([]V, 0, len(m))
	for _, id := range sortedKeys(m) {
		all = append(all, m[id])
	}
	slices.SortStableFunc(all, func(a, b V) int { return cmp.Compare(order(a), order(b)) })
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
