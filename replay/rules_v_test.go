package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

// called is a turn with one call of a tool without approval.
func called(effect string) *script {
	const args = `{"q":1}`
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "tool", args)).
		add(proposed("v1", "c1", "o1", "g1", "tool", args, effect, "none"), event.InvocationDispatched{InvocationID: "v1"},
			event.InvocationCompleted{InvocationID: "v1", Result: "ok", OK: true}).
		ask("o2", "g1").answer("o2", "stop", "Done.").save("k1", "final", "g1", "o2", 1, "Done.", "v1").add(finished("g1", "Done.", "in-1"))
}

// recalled is a turn whose owner was lost while a call ran.
func recalled(effect string, again ...event.Payload) *script {
	const args = `{"q":1}`
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "tool", args)).
		add(proposed("v1", "c1", "o1", "g1", "tool", args, effect, "none"), event.InvocationDispatched{InvocationID: "v1"}).
		claim().add(again...)
}

var (
	dispatch = event.InvocationDispatched{InvocationID: "v1"}
	lost     = event.InvocationUncertain{InvocationID: "v1", Reason: "owner_lost", NextAction: "reconciliation_required"}
	receipt1 = event.InvocationCompleted{InvocationID: "v1", Result: "ok", OK: true}
)

func TestV1(t *testing.T) {
	keeps(t, "a call", called("write"))
	keeps(t, "a read goes again after a new epoch", recalled("read", dispatch, receipt1))
	keeps(t, "an idempotent one too", recalled("idempotent", dispatch, receipt1))
	breaks(t, "V1", "a write goes again", recalled("write", dispatch))
	breaks(t, "V1", "a read goes again in the same epoch", called("read").insert(event.TypeInvocationCompleted, 0, dispatch))
	breaks(t, "V1", "never proposed", called("read").drop(event.TypeInvocationProposed, 0), "P8")
	breaks(t, "V1", "proposed twice", called("read").repeat(event.TypeInvocationProposed, 0))
	breaks(t, "V1", "never dispatched", called("read").drop(event.TypeInvocationDispatched, 0))
	breaks(t, "V1", "two receipts", called("read").repeat(event.TypeInvocationCompleted, 0))
}

func TestV2(t *testing.T) {
	const args = `{"amount":5}`
	yes := func(change func(*event.InvocationApproved)) *script { return edit(decided(), 0, change) }
	decision := func(pairs ...string) *script {
		s := decided()
		i := s.index(event.TypeInputAccepted, 1)
		s.inbox = 1
		s.facts[i].payload = s.accepted("yes-1", "decision", pairs...)
		return s
	}
	breaks(t, "V2", "no approval", decided().drop(event.TypeInvocationApproved, 0))
	breaks(t, "V2", "of other arguments", yes(func(p *event.InvocationApproved) { p.InputDigest = argsDigest(`{"amount":6}`) }))
	breaks(t, "V2", "named by a message", yes(func(p *event.InvocationApproved) { p.DecidedBy = "in-1" }))
	breaks(t, "V2", "that saw other arguments", decision("target", "v1", "verdict", "approve", "input_digest", argsDigest(`{"amount":6}`)))
	breaks(t, "V2", "that said no", decision("target", "v1", "verdict", "deny", "input_digest", argsDigest(args)))
	breaks(t, "V2", "of another invocation", decision("target", "v2", "verdict", "approve", "input_digest", argsDigest(args)))
	breaks(t, "V2", "counted twice", decided().repeat(event.TypeInvocationApproved, 0))
	breaks(t, "V2", "digest of other arguments", edit(called("read"), 0, func(p *event.InvocationProposed) { p.InputDigest = "x" }))
	denied := func() *script {
		s := decision("target", "v1", "verdict", "deny", "input_digest", argsDigest(args))
		s.facts[s.index(event.TypeInvocationApproved, 0)].payload = event.InvocationDenied{InvocationID: "v1", DecidedBy: "yes-1", InputDigest: argsDigest(args)}
		return s
	}
	breaks(t, "V2", "denied and dispatched", denied())
	ended := newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "charge", args)).
		add(proposed("v1", "c1", "o1", "g1", "charge", args, "write", "required"), event.InvocationAwaitingApproval{InvocationID: "v1", InputDigest: argsDigest(args)}).
		accept("int-1", "interrupt").add(event.InvocationWithdrawn{InvocationID: "v1", Reason: "interrupted"}, detached("g1", "interrupted", "in-1")).
		accept("yes-1", "decision", "target", "v1", "verdict", "approve", "input_digest", argsDigest(args))
	keeps(t, "withdrawn with its generation", ended.clone().add(event.CommandRejected{InputID: "yes-1", Reason: "generation_ended"}))
	approve := event.InvocationApproved{InvocationID: "v1", DecidedBy: "yes-1", InputDigest: argsDigest(args)}
	breaks(t, "V2", "after its generation", ended.clone().add(approve))
	breaks(t, "V2", "dispatched after its generation", ended.clone().add(dispatch))
}

// twice is a turn that makes the same write twice; the second one repeats the
// first and is approved.
func twice(first ...event.Payload) *script {
	const args = `{"q":1}`
	p := proposed("v2", "c2", "o2", "g1", "tool", args, "write", "none")
	p.Repeats = "v1"
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "tool", args)).
		add(proposed("v1", "c1", "o1", "g1", "tool", args, "write", "none"), dispatch).add(first...).
		ask("o2", "g1").answer("o2", "tool_calls", "", toolCall("c2", "tool", args)).add(p)
}

func (s *script) approve(v, digest string) *script {
	return s.accept("yes-"+v, "decision", "target", v, "verdict", "approve", "input_digest", digest).
		add(event.InvocationApproved{InvocationID: v, DecidedBy: "yes-" + v, InputDigest: digest}, event.InvocationDispatched{InvocationID: v})
}

func TestV2Repeats(t *testing.T) {
	digest := argsDigest(`{"q":1}`)
	second := event.InvocationDispatched{InvocationID: "v2"}
	keeps(t, "a repeat that is approved", twice(receipt1).approve("v2", digest))
	breaks(t, "V2", "a repeat without approval", twice(receipt1).add(second))
	keeps(t, "a repeat of one that failed", twice(event.InvocationFailed{InvocationID: "v1", Error: "x"}).add(second))
	breaks(t, "V2", "a repeat of an uncertain one", twice(lost).approve("v2", digest))
	done := twice(lost).accept("rec-1", "decision", "target", "v1", "verdict", "reconciled").
		add(event.InvocationReconciled{InvocationID: "v1", Verdict: "reconciled", DecidedBy: "rec-1"})
	keeps(t, "reconciled and approved", done.clone().approve("v2", digest))
	breaks(t, "V2", "reconciled, without approval", done.clone().add(second))
}

func TestV3(t *testing.T) {
	cut := func() *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "output_budget", "x", toolCall("c1", "tool", `{"q":1}`)).
			add(event.InvocationWithheld{ToolCallID: "c1", OperationID: "o1", Tool: "tool", Arguments: `{"q":1}`, Reason: "truncated"}).
			save("k1", "cutoff", "g1", "o1", 1, "x").goOn("k1", "o1", "o2", "g1", 2).answer("o2", "stop", "y").finish("g1", "o2", "xy", "in-1")
	}
	keeps(t, "withheld", cut())
	breaks(t, "V3", "proposed from a cutoff", cut().drop(event.TypeInvocationWithheld, 0).
		insert(event.TypeCheckpointSaved, 0, proposed("v1", "c1", "o1", "g1", "tool", `{"q":1}`, "read", "none")))
	breaks(t, "V3", "dropped", cut().drop(event.TypeInvocationWithheld, 0))
	breaks(t, "V3", "another finish", edit(called("read"), 0, func(p *event.OperationCompleted) { p.Finish = "stop" }))
	breaks(t, "V3", "a veto", edit(called("read"), 0, func(p *event.OperationCompleted) { p.Veto = "budget" }))
	breaks(t, "V3", "repaired arguments", edit(called("read"), 0, func(p *event.OperationCompleted) { p.ToolCalls = []event.ToolCall{toolCall("c1", "tool", `{"q":1,}`)} }))
	breaks(t, "V3", "a call that never was", edit(called("read"), 0, func(p *event.OperationCompleted) { p.ToolCalls = nil }))
}

func TestV4(t *testing.T) {
	breaks(t, "V4", "a completed read runs again", recalled("read", receipt1, dispatch))
	breaks(t, "V4", "a completed write runs again", called("write").insert(event.TypeOperationAdmitted, 1, dispatch), "V1")
	breaks(t, "V4", "an uncertain write runs again", recalled("write", lost, dispatch), "V1")
	keeps(t, "an uncertain read may", recalled("read", lost).claim().add(dispatch, receipt1))
}
