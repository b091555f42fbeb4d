package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

func TestP1(t *testing.T) {
	breaks(t, "P1", "no final checkpoint", simple().drop(event.TypeCheckpointSaved, 0))
	breaks(t, "P1", "before the last operation", busy().drop(event.TypeCheckpointSaved, 1), "G7")
	breaks(t, "P1", "of another operation", edit(busy(), 1, func(p *event.CheckpointSaved) {
		p.OperationID, p.Delivered = "o1", event.Delivered{Bytes: 2, Digest: event.Digest([]byte("A."))}
	}))
}

func TestP2(t *testing.T) {
	s := newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(queued("in-2", "g1")).accept("stop-1", "stop")
	breaks(t, "P2", "accepted after a stop", s.clone().accept("in-3", "user"))
	breaks(t, "P2", "started after a stop", s.clone().add(event.OperationUnknown{OperationID: "o1", Reason: "cancelled"}, detached("g1", "stopped", "in-1")).start("g2", "in-2"))
}

func TestP3(t *testing.T) {
	breaks(t, "P3", "a generation is open", simple().insert(event.TypeOperationCompleted, 0, event.SessionIdle{}))
	breaks(t, "P3", "an input is pending", simple().accept("in-2", "user").add(event.SessionIdle{}))
	breaks(t, "P3", "a service input is pending", simple().accept("in-2", "service", "source", "bank").add(event.SessionIdle{}))
	keeps(t, "what the provider owns is not pending", steered().add(event.SessionIdle{}))
}

func TestP4(t *testing.T) {
	attempt := func(kind string, pairs ...string) *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", kind, pairs...).add(sent("in-2", "g1"))
	}
	keeps(t, "a correction", attempt("steer"))
	breaks(t, "P4", "a service input", attempt("service", "source", "bank"))
	breaks(t, "P4", "an anchored one", attempt("steer", "target_generation_id", "g1"))
	breaks(t, "P4", "nothing runs", newScript().turn("g1", "in-1").accept("in-2", "steer").add(sent("in-2", "g1")))
	breaks(t, "P4", "it has ended", newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "stop", "A.").accept("in-2", "steer").add(sent("in-2", "g1")))
}

func TestP5(t *testing.T) {
	keeps(t, "marked", twice(receipt1))
	breaks(t, "P5", "not marked", edit(twice(receipt1), 1, func(p *event.InvocationProposed) { p.Repeats = "" }))
	breaks(t, "P5", "marked as another", edit(twice(receipt1), 1, func(p *event.InvocationProposed) { p.Repeats = "v9" }))
	breaks(t, "P5", "a repeat of nothing", edit(called("write"), 0, func(p *event.InvocationProposed) { p.Repeats = "v9" }))
	keeps(t, "other arguments", edit(edit(twice(receipt1), 1, func(p *event.InvocationProposed) {
		p.Repeats, p.Arguments, p.InputDigest = "", `{"q":2}`, argsDigest(`{"q":2}`)
	}), 1, func(p *event.OperationCompleted) { p.ToolCalls = []event.ToolCall{toolCall("c2", "tool", `{"q":2}`)} }))
}

func TestP6(t *testing.T) {
	breaks(t, "P6", "another service", edit(chain(), 1, func(p *event.OperationAdmitted) { p.ServiceID = "q" }), "P6")
	breaks(t, "P6", "another revision", edit(chain(), 2, func(p *event.OperationAdmitted) { p.DescriptorRevision = "2" }))
}

func TestP7(t *testing.T) {
	late := answered("o1", "stop", "late")
	late.Late = true
	s := newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationUnknown{OperationID: "o1", Reason: "transport"},
		detached("g1", "operation_uncertain", "in-1"), late).accept("in-2", "user")
	keeps(t, "late, and nothing more", s.clone().start("g2", "in-2"))
	at := "@" + event.Seq(s.index(event.TypeOperationCompleted, 0)).String()
	breaks(t, "P7", "a generation because of it", s.clone().because(at, started("g2", "in-2")))
	breaks(t, "P7", "a rejection because of it", s.clone().because(at, event.CommandRejected{InputID: "in-2", Reason: "x"}))
}

func TestP8(t *testing.T) {
	two := func() *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").
			answer("o1", "tool_calls", "", toolCall("c1", "tool", `{"q":1}`), toolCall("c2", "tool", `{"q":2}`)).
			add(proposed("v1", "c1", "o1", "g1", "tool", `{"q":1}`, "read", "none"), proposed("v2", "c2", "o1", "g1", "tool", `{"q":2}`, "read", "none"),
				dispatch, receipt1, event.InvocationDispatched{InvocationID: "v2"}, event.InvocationCompleted{InvocationID: "v2", OK: true}).
			ask("o2", "g1").answer("o2", "stop", "Done.").save("k1", "final", "g1", "o2", 1, "Done.", "v1", "v2").add(finished("g1", "Done.", "in-1"))
	}
	withheld := func(c string) event.InvocationWithheld {
		return event.InvocationWithheld{ToolCallID: c, OperationID: "o1", Tool: "tool", Reason: "unknown_tool"}
	}
	keeps(t, "both proposed", two())
	breaks(t, "P8", "one proposed, one dropped", edit(two(), 0, func(p *event.OperationCompleted) {
		p.ToolCalls = append(p.ToolCalls, toolCall("c3", "tool", `{"q":3}`))
	}))
	breaks(t, "P8", "one proposed, one withheld", edit(two(), 0, func(p *event.OperationCompleted) {
		p.ToolCalls = append(p.ToolCalls, toolCall("c3", "tool", `{"q":3}`))
	}).insert(event.TypeInvocationDispatched, 0, withheld("c3")))
	breaks(t, "P8", "one withheld, then one proposed", edit(two(), 0, func(p *event.OperationCompleted) {
		p.ToolCalls = append(p.ToolCalls, toolCall("c3", "tool", `{"q":3}`))
	}).insert(event.TypeInvocationProposed, 0, withheld("c3")), "P8")
	all := newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "tool", `{`), toolCall("c2", "tool", `{}`)).
		add(withheld("c1"), withheld("c2"))
	keeps(t, "both withheld", all.clone().add(failedGeneration("g1", "in-1")))
	breaks(t, "P8", "one withheld, one dropped", all.clone().drop(event.TypeInvocationWithheld, 1).add(failedGeneration("g1", "in-1")))
}

func TestP9(t *testing.T) {
	breaks(t, "P9", "another digest", edit(busy(), 1, func(p *event.InputAccepted) { p.Digest = "x" }))
	breaks(t, "P9", "another input", edit(busy(), 1, func(p *event.InputAccepted) {
		p.Input = body("input_id", "in-2", "kind", "steer", "text", "other")
	}))
}

func TestP11(t *testing.T) {
	cancel := func(status string) *script {
		return simple().accept("stop-1", "stop", "target", "cancel").because("stop-1", event.SessionClosed{Status: status})
	}
	keeps(t, "idle", simple().stopIdle())
	keeps(t, "cancelled", cancel("cancelled"))
	breaks(t, "P11", "idle, cancelled", edit(simple().stopIdle(), 0, func(p *event.SessionClosed) { p.Status = "cancelled" }))
	breaks(t, "P11", "cancel, completed", cancel("completed"))
	breaks(t, "P11", "without a stop", simple().stopIdle().drop(event.TypeInputAccepted, 1))
}

func TestP12(t *testing.T) {
	s := simple()
	same := event.InputRejected{InputID: "in-1", Digest: s.facts[2].payload.(event.InputAccepted).Digest, Reason: "identity_conflict", InboxSeq: 9}
	breaks(t, "P12", "the same content", s.clone().add(same))
	other := same
	other.Digest = "other"
	keeps(t, "other content", s.clone().add(other))
	other.InputID = "in-7"
	breaks(t, "P12", "an id that nobody took", s.clone().add(other))
}

func TestP13(t *testing.T) {
	breaks(t, "P13", "out of order", edit(busy(), 1, func(p *event.InputAccepted) { p.InboxSeq = 1 }))
	breaks(t, "P13", "a rejection out of order", simple().reject("in-7", "invalid").add(event.InputRejected{InputID: "in-8", Digest: "x", Reason: "invalid", InboxSeq: 1}))
	keeps(t, "with holes", edit(busy(), 1, func(p *event.InputAccepted) { p.InboxSeq = 70 }))
}
