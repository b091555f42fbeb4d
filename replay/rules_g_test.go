package replay

import (
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

func twoTurns() *script {
	return simple().turn("g2", "in-2").ask("o2", "g2").answer("o2", "stop", "Bye.").finish("g2", "o2", "Bye.", "in-2").add(event.SessionIdle{Text: "Bye."})
}

func TestG1(t *testing.T) {
	keeps(t, "two turns", twoTurns())
	breaks(t, "G1", "no terminal", twoTurns().drop(event.TypeGenerationFinished, 0))
	breaks(t, "G1", "two terminals", twoTurns().repeat(event.TypeGenerationFinished, 0))
	breaks(t, "G1", "never started", twoTurns().drop(event.TypeGenerationStarted, 0))
	breaks(t, "G1", "no terminal before idle", twoTurns().drop(event.TypeGenerationFinished, 1), "P3")
	breaks(t, "G1", "no terminal before idle and stop", twoTurns().drop(event.TypeGenerationFinished, 1).stopIdle(), "P3", "W1")
	breaks(t, "G1", "started again", twoTurns().insert(event.TypeSessionIdle, 0, started("g1", "in-1")), "G1", "P3")
	breaks(t, "G1", "another one's terminal", edit(twoTurns(), 0, func(p *event.GenerationFinished) { p.GenerationID = "g9" }))
}

func TestG2(t *testing.T) {
	breaks(t, "G2", "a message after the end", twoTurns().insert(event.TypeSessionIdle, 0, event.AssistantMessage{Correlation: lists("g1", "in-1"), OperationID: "o1"}))
	breaks(t, "G2", "admitted for another", edit(twoTurns(), 1, func(p *event.OperationAdmitted) { p.GenerationID = "g1" }))
	breaks(t, "G2", "queued for one that ended", edit(busyAfter(), 0, func(p *event.InputQueued) { p.GenerationID = "g0" }))
	lost := newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationUnknown{OperationID: "o1", Reason: "transport"},
		detached("g1", "operation_uncertain", "in-1"))
	late := answered("o1", "stop", "late")
	late.Late = true
	keeps(t, "late evidence", lost.clone().add(late))
	late.Late, late.Recovered = false, true
	breaks(t, "G2", "late evidence that does not say so", lost.clone().add(late))
}

// busyAfter is busy after a turn of its own, g0.
func busyAfter() *script {
	s := newScript().turn("g0", "in-0").ask("o0", "g0").answer("o0", "stop", "0.").finish("g0", "o0", "0.", "in-0")
	for _, f := range busy().facts[2:] {
		if p, ok := f.payload.(event.InputAccepted); ok {
			s.accept(p.InputID, string(p.Kind))
			continue
		}
		s.add(f.payload)
	}
	return s
}

func TestG3(t *testing.T) {
	said := func() *script {
		return busy().insert(event.TypeOperationCompleted, 1, event.AssistantMessage{Correlation: lists("g1", "in-1", "in-2"), OperationID: "o2", Text: "B."})
	}
	keeps(t, "a message", said())
	breaks(t, "G3", "an input is left out", edit(said(), 0, func(p *event.GenerationFinished) { p.InputIDs = []string{"in-1"} }))
	breaks(t, "G3", "another order", edit(said(), 0, func(p *event.GenerationFinished) { p.InputIDs = []string{"in-2", "in-1"} }))
	breaks(t, "G3", "accepted, said of a queued one", edit(said(), 0, func(p *event.GenerationFinished) { p.AcceptedInputIDs = []string{"in-2"} }))
	breaks(t, "G3", "a message claims too much", edit(said(), 0, func(p *event.AssistantMessage) { p.InputIDs = []string{"in-1", "in-2", "in-3"} }), "G3")
	breaks(t, "G3", "a delivery is missing", busy().drop(event.TypeInputDelivered, 1), "G7")
	owned := steered()
	keeps(t, "owned by the provider", owned)
	breaks(t, "G3", "owned and not listed", edit(steered(), 0, func(p *event.GenerationFinished) { p.AcceptedInputIDs = []string{} }))
}

func TestG4(t *testing.T) {
	breaks(t, "G4", "a provisional text", edit(busy(), 0, func(p *event.GenerationFinished) { p.Text = "A." }))
	breaks(t, "G4", "another's text", edit(twoTurns(), 1, func(p *event.GenerationFinished) { p.Text = "Hello." }))
	breaks(t, "G4", "one segment of two", edit(chain(), 0, func(p *event.GenerationFinished) { p.Text = " gamma" }))
	long := strings.Repeat("é", 500)
	breaks(t, "G4", "a long text", edit(simple(), 0, func(p *event.GenerationFinished) { p.Text = long }))
}

// delegated is a turn that leaves a job running.
func delegated() *script {
	const args = `{"ask":1}`
	f := finished("g1", "Asked.", "in-1")
	f.ActiveJobIDs = []string{"j1"}
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "tool_calls", "", toolCall("c1", "delegate", args)).
		add(proposed("v1", "c1", "o1", "g1", "delegate", args, "write", "none"), event.InvocationDispatched{InvocationID: "v1"},
			event.JobQueued{JobID: "j1", CallID: "c1", Tool: "delegate", GenerationID: "g1", InvocationID: "v1"},
			event.InvocationCompleted{InvocationID: "v1", Result: "queued", OK: true}).
		ask("o2", "g1").answer("o2", "stop", "Asked.").save("k1", "final", "g1", "o2", 1, "Asked.", "v1").add(f).
		add(event.JobReturned{JobID: "j1", CallID: "c1", Outcome: "tool_report", Result: "42", Effects: "not_rolled_back"})
}

func TestG5(t *testing.T) {
	keeps(t, "a job runs on", delegated())
	breaks(t, "G5", "a job left out", edit(delegated(), 0, func(p *event.GenerationFinished) { p.ActiveJobIDs = []string{} }))
	breaks(t, "G5", "a job that nobody queued", edit(simple(), 0, func(p *event.GenerationFinished) { p.ActiveJobIDs = []string{"j1"} }))
	breaks(t, "G5", "no disposition", edit(simple(), 0, func(p *event.GenerationFinished) { p.Disposition = "" }))
}

func TestG6(t *testing.T) {
	s := simple()
	stop := s.accepted("stop-1", "stop")
	breaks(t, "G6", "finished after a stop", s.clone().insert(event.TypeGenerationFinished, 0, stop))
	interrupt := s.accepted("int-1", "interrupt", "target_generation_id", "g1")
	breaks(t, "G6", "finished after an interrupt", s.clone().insert(event.TypeGenerationFinished, 0, interrupt))
	keeps(t, "an interrupt that came too late",
		s.clone().insert(event.TypeGenerationFinished, 0, interrupt, event.CommandRejected{InputID: "int-1", Reason: "generation_ended"}))
	breaks(t, "G6", "an operation is unknown", newScript().turn("g1", "in-1").ask("o1", "g1").
		add(event.OperationUnknown{OperationID: "o1", Reason: "transport"}).finish("g1", "o1", "", "in-1"))
	recovered := answered("o1", "stop", "Hello.")
	recovered.Recovered = true
	s = newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationUnknown{OperationID: "o1", Reason: "transport"},
		event.OperationInspected{OperationID: "o1", Observed: "complete"}, recovered).finish("g1", "o1", "Hello.", "in-1")
	keeps(t, "completed by inspection", s)
}

func TestG7(t *testing.T) {
	pending := func(before bool, kind string, more ...string) *script {
		s := newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "stop", "A.")
		in := s.accepted("in-2", kind, more...)
		if before {
			s.add(in)
		}
		s.save("k1", "final", "g1", "o1", 1, "A.")
		if !before {
			s.add(in)
		}
		return s.add(finished("g1", "A.", "in-1"))
	}
	breaks(t, "G7", "a user's input is pending", pending(true, "user"))
	breaks(t, "G7", "a correction is pending", pending(true, "steer"))
	breaks(t, "G7", "an anchored correction is pending", pending(true, "steer", "target_generation_id", "g1"))
	keeps(t, "accepted after the checkpoint", pending(false, "user"))
	keeps(t, "a service input does not count", pending(true, "service", "source", "bank"))
}
