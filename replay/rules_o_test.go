package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

// chain is a turn in three segments: two cutoffs, and the end.
func chain() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "output_budget", "alpha").
		save("k1", "cutoff", "g1", "o1", 1, "alpha").goOn("k1", "o1", "o2", "g1", 2).
		answer("o2", "output_budget", " beta").save("k2", "cutoff", "g1", "o2", 2, "alpha beta").goOn("k2", "o2", "o3", "g1", 3).
		answer("o3", "stop", " gamma").finish("g1", "o3", "alpha beta gamma", "in-1")
}

// goOn continues checkpoint k of parent with operation o.
func (s *script) goOn(k, parent, o, g string, segment int) *script {
	a := admittedFact(o, g)
	a.Segment, a.ParentOperationID, a.CheckpointID = segment, parent, k
	return s.add(event.ContinuationStarted{CheckpointID: k, ParentOperationID: parent, OperationID: o, Segment: segment}, a,
		event.OperationDispatched{OperationID: o})
}

func TestO1(t *testing.T) {
	breaks(t, "O1", "dispatched twice", simple().repeat(event.TypeOperationDispatched, 0))
	breaks(t, "O1", "never admitted", simple().drop(event.TypeOperationAdmitted, 0))
	breaks(t, "O1", "never dispatched", simple().drop(event.TypeOperationDispatched, 0))
	breaks(t, "O1", "completed twice", simple().repeat(event.TypeOperationCompleted, 0))
	breaks(t, "O1", "an ending is missing", twoTurns().drop(event.TypeOperationCompleted, 0))
	breaks(t, "O1", "admitted twice", simple().repeat(event.TypeOperationAdmitted, 0))
	breaks(t, "O1", "completed, then failed", simple().insert(event.TypeCheckpointSaved, 0, event.OperationFailed{OperationID: "o1", Dispatch: "ran", Code: "x"}))
	breaks(t, "O1", "cancelled though dispatched", newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationCancelled{OperationID: "o1", Dispatch: "not_dispatched"}))
	unknown := newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationUnknown{OperationID: "o1", Reason: "transport"})
	breaks(t, "O1", "unknown, then completed without a look-up", unknown.clone().answer("o1", "stop", "x"))
	breaks(t, "O1", "unknown twice", unknown.clone().add(event.OperationUnknown{OperationID: "o1", Reason: "owner_lost"}))
	keeps(t, "unknown, then failed by a look-up", unknown.clone().add(event.OperationInspected{OperationID: "o1", Observed: "complete"},
		event.OperationFailed{OperationID: "o1", Dispatch: "ran", Code: "x"}, failedGeneration("g1", "in-1")))
	keeps(t, "not dispatched after all", newScript().turn("g1", "in-1").ask("o1", "g1").
		add(event.OperationFailed{OperationID: "o1", Dispatch: "not_dispatched", Code: "x"}, failedGeneration("g1", "in-1")))
}

func TestO2(t *testing.T) {
	breaks(t, "O2", "two in flight", newScript().turn("g1", "in-1").ask("o1", "g1").ask("o2", "g1"))
	failed := newScript().turn("g1", "in-1").ask("o1", "g1").add(failedGeneration("g1", "in-1"))
	breaks(t, "O2", "the first one's ending is missing", failed.turn("g2", "in-2").ask("o2", "g2").answer("o2", "stop", "B.").finish("g2", "o2", "B.", "in-2"))
}

func TestO3(t *testing.T) {
	keeps(t, "three segments", chain())
	breaks(t, "O3", "no continuation", chain().drop(event.TypeContinuationStarted, 0))
	breaks(t, "O3", "another parent", edit(chain(), 2, func(p *event.OperationAdmitted) { p.ParentOperationID = "o1" }), "C3", "G4")
	breaks(t, "O3", "another segment", edit(chain(), 1, func(p *event.OperationAdmitted) { p.Segment = 1 }), "C3", "G4")
	breaks(t, "O3", "the parent was not cut off", edit(chain(), 0, func(p *event.OperationCompleted) { p.Finish = "stop" }))
	breaks(t, "O3", "another parent claimed", edit(chain(), 1, func(p *event.ContinuationStarted) { p.ParentOperationID = "o1" }))
}

func TestO4(t *testing.T) {
	unknown := newScript().turn("g1", "in-1").ask("o1", "g1").add(event.OperationUnknown{OperationID: "o1", Reason: "transport"})
	breaks(t, "O4", "asked again under another id", unknown.clone().add(admittedFact("o2", "g1")))
	breaks(t, "O4", "and after a look-up that missed", unknown.clone().add(event.OperationInspected{OperationID: "o1", Observed: "missing"}, admittedFact("o2", "g1")))
	keeps(t, "in another generation", unknown.clone().add(detached("g1", "operation_uncertain", "in-1")).turn("g2", "in-2").ask("o2", "g2"))
}
