package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/loopd/loopd/event"
)

func TestWholeSessionsKeepEveryRule(t *testing.T) {
	keeps(t, "native", nativeSession())
	keeps(t, "tools", toolSession())
	keeps(t, "recovery", recoverySession())
}

// mutant is a change to a whole session, with the rule that it breaks and the
// others that the same fault breaks.
type mutant struct {
	name, rule string
	log        *script
	others     []string
}

func judgeMutants(t *testing.T, mutants []mutant) {
	t.Helper()
	for _, m := range mutants {
		breaks(t, m.rule, m.name, m.log, m.others...)
	}
}

func TestFrameMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"an owner goes on after it was fenced", "E3", setEpoch(recoverySession(), event.TypeOperationAdmitted, 1, 1), nil},
		{"an epoch begins without its claim", "E3", recoverySession().drop(event.TypeSessionClaimed, 2), nil},
		{"an answer after the end that is not marked late", "E4", edit(nativeSession(), 3, func(p *event.OperationCompleted) { p.Late = false }), []string{"G2", "O1"}},
		{"a turn after the end", "E4", nativeSession().add(event.SessionIdle{}), nil},
	})
}

func TestInputsMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"an input out of nowhere", "I1", nativeSession().drop(event.TypeInputAccepted, 6), nil},
		{"an input delivered twice", "I2", nativeSession().repeat(event.TypeInputDelivered, 1), nil},
		{"a withdrawn input is delivered", "I3", nativeSession().insert(event.TypeOperationAdmitted, 1, delivered("in-2b", "request_boundary", "g1")), []string{"G3"}},
		{"an operation is forgotten", "W1", nativeSession().drop(event.TypeOperationUnknown, 1).drop(event.TypeOperationCompleted, 3), nil},
		{"a held input is applied", "I3", toolSession().insert(event.TypeGenerationFailed, 0, applied("st-2", "g3", "request_boundary")), []string{"G3"}},
		{"a delivery as new_turn in the middle", "I5", edit(nativeSession(), 1, func(p *event.InputDelivered) { p.Delivery = "new_turn" }), nil},
		{"a service decides", "I6", edit(toolSession(), 2, func(p *event.InputAccepted) {
			p.Kind, p.Source, p.Input = "service", "bank", body("input_id", "yes-v1", "kind", "service", "source", "bank", "text", "approve")
			p.Digest, p.Target = event.InputDigest(p.Input), ""
		}), []string{"V2", "P3", "W1"}},
	})
}

func TestGenerationsMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"a generation without its end", "G1", toolSession().drop(event.TypeGenerationFinished, 1), nil},
		{"a generation that ends twice", "G1", toolSession().repeat(event.TypeGenerationFailed, 0), nil},
		{"a checkpoint of an ended generation", "G2", edit(toolSession(), 2, func(p *event.CheckpointSaved) { p.GenerationID = "g1" }), nil},
		{"an applied input is not listed", "G3", edit(nativeSession(), 0, func(p *event.GenerationFinished) { p.InputIDs = []string{"in-1", "in-2a"} }), nil},
		{"an unknown input is listed as accepted", "G3", edit(nativeSession(), 1, func(p *event.GenerationFinished) { p.AcceptedInputIDs = []string{"in-4", "in-5"} }), nil},
		{"a provisional text as the answer", "G4", edit(toolSession(), 0, func(p *event.GenerationFinished) { p.Text = "I will." }), nil},
		{"one segment as the answer", "G4", edit(recoverySession(), 1, func(p *event.GenerationFinished) { p.Text = "beta" }), nil},
		{"a running job is hidden", "G5", edit(toolSession(), 0, func(p *event.GenerationFinished) { p.ActiveJobIDs = nil }), nil},
		{"an interrupted generation finishes", "G6", replace(nativeSession(), event.TypeGenerationDetached, 0, finished("g3", "", "in-6")), []string{"P1", "W1"}},
		{"finished past a waiting correction", "G7", toolSession().drop(event.TypeInputDelivered, 1).drop(event.TypeSteeringApplied, 0), []string{"G3"}},
	})
}

func TestSteeringMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"applied without acceptance", "S1", nativeSession().drop(event.TypeSteeringAccepted, 0), nil},
		{"queued after it was sent", "S2", nativeSession().drop(event.TypeSteeringRefused, 0), nil},
		{"an anchored input falls forward", "S3", toolSession().insert(event.TypeCommandRejected, 0, started("g4", "st-2"), delivered("st-2", "new_turn", "g4"), failedGeneration("g4", "st-2")), []string{"I3"}},
		{"steering past the barrier", "S4", nativeSession().insert(event.TypeInputRejected, 0, sent("in-2b", "g1")), []string{"I3"}},
	})
}

func TestOperationsMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"dispatched again after a crash", "O1", recoverySession().insert(event.TypeOperationInspected, 0, event.OperationDispatched{OperationID: "o2"}), nil},
		{"two operations in flight", "O2", toolSession().drop(event.TypeOperationFailed, 0).insert(event.TypeSessionIdle, 0, started("g4", "in-2"), admittedFact("o7", "g4"),
			event.OperationDispatched{OperationID: "o7"}, answered("o7", "stop", ""), failedGeneration("g4")), nil},
		{"a segment that nobody claimed", "O3", recoverySession().drop(event.TypeContinuationStarted, 0), nil},
		{"asked again where the original is unknown", "O4", recoverySession().insert(event.TypeGenerationDetached, 0, admittedFact("o9", "g2")), []string{"W1"}},
	})
}

func TestContinuationMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"a checkpoint claimed twice", "C1", recoverySession().insert(event.TypeOperationAdmitted, 4, event.ContinuationStarted{CheckpointID: "k4", ParentOperationID: "o4", OperationID: "o9", Segment: 2}), nil},
		{"continued beyond the bound", "C2", edit(recoverySession(), 2, func(p *event.GenerationStarted) { p.Bounds.MaxSegments = 1 }), nil},
		{"continued after a stop, without a decision", "C2", edit(recoverySession(), 3, func(p *event.GenerationStarted) { p.InitialInputID = "rec-1" }), []string{"W1"}},
		{"a checkpoint measures one segment", "C3", edit(toolSession(), 2, func(p *event.CheckpointSaved) { p.Delivered.Bytes = 3 }), nil},
		{"a checkpoint forgets an invocation", "C3", edit(toolSession(), 2, func(p *event.CheckpointSaved) { p.Invocations = []string{"v1"} }), nil},
		{"a summary forgets an operation", "C4", edit(recoverySession(), 0, func(p *event.ContextSummarized) { p.Kept.Operations = []string{"o3"} }), nil},
	})
}

func TestInvocationsMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"an outcome of what nobody proposed", "V1", edit(toolSession(), 0, func(p *event.InvocationCompleted) { p.InvocationID = "v9" }), []string{"C3", "W1"}},
		{"a write goes again after a crash", "V1", recoverySession().insert(event.TypeInvocationUncertain, 0, dispatch), nil},
		{"a write without its approval", "V2", toolSession().drop(event.TypeInvocationApproved, 0), []string{"W1"}},
		{"a denied repeat runs", "V2", toolSession().insert(event.TypeOperationAdmitted, 2, event.InvocationDispatched{InvocationID: "v3"}), nil},
		{"a truncated call runs", "V3", replace(toolSession(), event.TypeInvocationWithheld, 0, proposed("v4", "c4", "o4", "g2", "charge", `{"amount":5}`, "read", "none")), []string{"W1"}},
		{"an uncertain write goes again", "V4", recoverySession().insert(event.TypeInvocationReconciled, 0, dispatch), []string{"V1"}},
		{"a completed call runs again", "V4", toolSession().insert(event.TypeJobReturned, 0, event.InvocationDispatched{InvocationID: "v1"}), []string{"V1", "V2"}},
		{"a job returns twice", "J1", toolSession().repeat(event.TypeJobReturned, 0), nil},
		{"a job is queued again", "J1", recoverySession().insert(event.TypeJobRecovered, 0, event.JobQueued{JobID: "j1", CallID: "c2", Tool: "delegate", GenerationID: "g3", InvocationID: "v2"}), nil},
	})
}

func TestEndMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"a queued input is forgotten", "W1", nativeSession().drop(event.TypeInputHeld, 0), nil},
		{"a command is forgotten", "W1", toolSession().drop(event.TypeCommandRejected, 0), nil},
		{"an operation is forgotten, and its answer comes late", "O1", nativeSession().drop(event.TypeOperationUnknown, 1), nil},
		{"an attempt is forgotten", "W1", nativeSession().drop(event.TypeInputUnknown, 1), nil},
		{"a job is forgotten", "W1", recoverySession().drop(event.TypeJobRecovered, 0), []string{"G5"}},
	})
}

func TestPromisesMutants(t *testing.T) {
	judgeMutants(t, []mutant{
		{"finished without a final checkpoint", "P1", toolSession().drop(event.TypeCheckpointSaved, 2), nil},
		{"accepted after a stop", "P2", replace(nativeSession(), event.TypeInputRejected, 1, nativeSession().accepted("in-10", "user")), []string{"E4", "W1", "P13"}},
		{"idle while an input is pending", "P3", nativeSession().insert(event.TypeGenerationStarted, 1, event.SessionIdle{}), nil},
		{"a service input is sent to the provider", "P4", edit(nativeSession(), 7, func(p *event.InputAccepted) {
			p.Kind, p.Source, p.Input = "service", "bank", body("input_id", "in-5", "kind", "service", "source", "bank", "text", "x")
			p.Digest = event.InputDigest(p.Input)
		}), nil},
		{"a repeat that is not marked", "P5", edit(toolSession(), 2, func(p *event.InvocationProposed) { p.Repeats = "" }), nil},
		{"a segment of another model", "P6", edit(recoverySession(), 4, func(p *event.OperationAdmitted) { p.ServiceID = "q" }), []string{"P6"}},
		{"a turn because of late evidence", "P7", causedBy(recoverySession(), event.TypeGenerationStarted, 2, event.TypeOperationCompleted, 1), nil},
		{"a call is dropped", "P8", toolSession().drop(event.TypeInvocationProposed, 2), []string{"V1"}},
		{"the digest of another input", "P9", edit(toolSession(), 2, func(p *event.InputAccepted) { p.Digest = "x" }), nil},
		{"closed as cancelled though idle", "P11", edit(recoverySession(), 0, func(p *event.SessionClosed) { p.Status = "cancelled" }), nil},
		{"a conflict with itself", "P12", edit(nativeSession(), 0, func(p *event.InputRejected) { p.Digest = nativeSession().facts[8].payload.(event.InputAccepted).Digest }), nil},
		{"taken out of order", "P13", edit(toolSession(), 3, func(p *event.InputAccepted) { p.InboxSeq = 1 }), nil},
	})
}

func setEpoch(s *script, typ event.Type, n int, epoch event.Epoch) *script {
	s.facts[s.index(typ, n)].epoch = epoch
	return s
}

func replace(s *script, typ event.Type, n int, p event.Payload) *script {
	s.facts[s.index(typ, n)].payload = p
	return s
}

func causedBy(s *script, typ event.Type, n int, cause event.Type, m int) *script {
	s.facts[s.index(typ, n)].cause = "@" + fmt.Sprint(s.index(cause, m))
	return s
}

// silent are the events whose absence a log need not show: nothing that the
// rules name follows from them.
var silent = []event.Type{
	event.TypeSessionIdle, event.TypeAssistantMessage, event.TypeObservationReceived, event.TypeOperationInspected,
	event.TypeInputRejected, event.TypeInvocationInspected, event.TypeInvocationAwaitingApproval, event.TypeContextSummarized,
	event.TypeInputQueued, event.TypeContinuationStopped, event.TypeSteeringHeld, event.TypeInvocationUncertain,
	event.TypeSessionClosed, // the session might go on
	event.TypeSteeringApplied,
}

// TestEveryFactCounts drops each event of the whole sessions, and chains the
// log anew: no such log passes, but for the silent events, and none begins an
// avalanche.
func TestEveryFactCounts(t *testing.T) {
	for name, build := range map[string]func() *script{"native": nativeSession, "tools": toolSession, "recovery": recoverySession} {
		for i, f := range build().facts {
			s := build()
			s.facts = slices.Delete(s.facts, i, i+1)
			findings := audit(t, s)
			if len(findings) == 0 && !slices.Contains(silent, f.payload.Type()) && !mayBeAbsent(f.payload) {
				t.Errorf("%s: without event %d, %s %+v, the log passes", name, i+1, f.payload.Type(), f.payload)
			}
			if len(findings) > 4 {
				t.Errorf("%s: without event %d, %s: an avalanche: %v", name, i+1, f.payload.Type(), rulesOf(findings))
			}
		}
	}
}

// mayBeAbsent are the facts of the whole sessions without which each is still
// a right log.
func mayBeAbsent(p event.Payload) bool {
	switch p := p.(type) {
	case event.CheckpointSaved:
		return p.CheckpointID == "k1" // before the generation went on
	case event.OperationCompleted:
		return p.Late
	case event.OperationUnknown:
		return p.OperationID == "o3" // the next owner may inspect at once
	case event.InputAccepted:
		return p.Kind == event.KindInterrupt
	case event.InputDelivered:
		return p.InputID == "st-1" // applied says so
	case event.InputHeld:
		return p.InputID == "st-2" // steering.held says so
	case event.SteeringAccepted:
		return p.InputID == "st-2"
	}
	return false
}

// TestEveryRepetitionCounts stores each event of the whole sessions twice,
// chained anew: what may be said twice is named.
func TestEveryRepetitionCounts(t *testing.T) {
	again := []event.Type{
		event.TypeSessionIdle, event.TypeAssistantMessage, event.TypeObservationReceived, event.TypeOperationInspected, event.TypeInvocationInspected,
		event.TypeInvocationAwaitingApproval, event.TypeContextSummarized, event.TypeCheckpointSaved, event.TypeContinuationStopped, event.TypeInputQueued,
		event.TypeSteeringHeld, event.TypeInputHeld, event.TypeInputWithdrawn, event.TypeInputUnknown, event.TypeCommandRejected,
		event.TypeInvocationReconciled, event.TypeInvocationUncertain,
	}
	for name, build := range map[string]func() *script{"native": nativeSession, "tools": toolSession, "recovery": recoverySession} {
		for i, f := range build().facts {
			s := build()
			s.facts = slices.Insert(s.facts, i, s.facts[i])
			findings := audit(t, s)
			if len(findings) == 0 && !slices.Contains(again, f.payload.Type()) {
				t.Errorf("%s: with event %d twice, %s %+v, the log passes", name, i+1, f.payload.Type(), f.payload)
			}
			if len(findings) > 3 {
				t.Errorf("%s: with event %d twice, %s: an avalanche: %v", name, i+1, f.payload.Type(), rulesOf(findings))
			}
		}
	}
}
