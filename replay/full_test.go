package replay

import "github.com/loopd/loopd/event"

// Three whole sessions that keep every rule; mutants_test.go breaks them.

// nativeSession: steering that is applied, refused, unknown and left to the
// provider, a withdrawal, an interrupt, an identity conflict, and a stop.
func nativeSession() *script {
	owner := finished("g2", "B.", "in-3")
	owner.AcceptedInputIDs = []string{"in-5"}
	s := newScript().turn("g1", "in-1").ask("o1", "g1").
		add(event.AssistantMessage{Correlation: lists("g1", "in-1"), OperationID: "o1", Text: "We fly."}).
		accept("in-2", "steer").add(sent("in-2", "g1"), owned("in-2", "g1", "native"), applied("in-2", "g1", "native")).
		accept("in-2a", "user").add(sent("in-2a", "g1"), refused("in-2a", "g1"), queued("in-2a", "g1")).
		accept("in-2b", "user").add(queued("in-2b", "g1")).
		accept("w-1", "withdraw", "target", "in-2b").add(event.InputWithdrawn{InputID: "in-2b", By: "w-1"}).
		reject("in-2", "identity_conflict", "text", "other").
		answer("o1", "stop", "A.").save("k1", "final", "g1", "o1", 1, "A.").
		add(delivered("in-2a", "request_boundary", "g1")).
		ask("o2", "g1").answer("o2", "stop", "A2.").finish("g1", "o2", "A2.", "in-1", "in-2", "in-2a").
		add(event.SessionIdle{Text: "A2."}).
		turn("g2", "in-3").ask("o3", "g2").
		accept("in-4", "steer").add(sent("in-4", "g2"), event.InputUnknown{InputID: "in-4", Route: "native", GenerationID: "g2"}).
		accept("in-5", "user").add(sent("in-5", "g2"), owned("in-5", "g2", "native")).
		answer("o3", "stop", "B.").save("k2", "final", "g2", "o3", 1, "B.").add(owner, applied("in-4", "g2", "native")).
		turn("g3", "in-6").ask("o4", "g3").
		accept("in-7", "user").add(sent("in-7", "g3"), refused("in-7", "g3"), queued("in-7", "g3")).
		accept("int-1", "interrupt", "target_generation_id", "g3").
		because("int-1", event.OperationUnknown{OperationID: "o4", Reason: "cancelled"}).
		because("int-1", detached("g3", "interrupted", "in-6")).
		start("g4", "in-7").ask("o5", "g4").
		accept("in-8", "steer").add(sent("in-8", "g4")).
		accept("in-9", "user").add(queued("in-9", "g4")).
		accept("stop-1", "stop").
		add(event.InputUnknown{InputID: "in-8", Route: "native", GenerationID: "g4"},
			event.OperationUnknown{OperationID: "o5", Reason: "cancelled"},
			event.InputHeld{InputID: "in-9", Reason: "session-closing", GenerationID: "g4"}).
		because("stop-1", detached("g4", "stopped", "in-7")).
		because("stop-1", event.SessionClosed{Status: "cancelled"}).
		reject("in-10", "session_closed")
	late := answered("o5", "stop", "late")
	late.Late = true
	return s.add(late)
}

// toolSession: tools with and without approval, a repeat, a job whose result
// comes back, anchored steering applied and held, calls withheld, a failure.
func toolSession() *script {
	const args, ask = `{"amount":5}`, `{"ask":1}`
	observed := event.InputDelivered{InputID: "res-1", Delivery: "new_turn", Source: "delegate", GenerationID: "g2"}
	f1 := finished("g1", "Charged.", "in-1", "st-1")
	f1.ActiveJobIDs = []string{"j1"}
	second := proposed("v3", "c3", "o2", "g1", "charge", args, "write", "none")
	second.Repeats = "v1"
	return newScript().turn("g1", "in-1").ask("o1", "g1").
		accept("st-1", "steer", "target_generation_id", "g1").add(owned("st-1", "g1", "request_boundary"), queued("st-1", "g1")).
		answer("o1", "tool_calls", "I will.", toolCall("c1", "charge", args), toolCall("c2", "delegate", ask)).
		add(proposed("v1", "c1", "o1", "g1", "charge", args, "write", "required"),
			proposed("v2", "c2", "o1", "g1", "delegate", ask, "write", "none"),
			event.InvocationAwaitingApproval{InvocationID: "v1", InputDigest: argsDigest(args)},
			event.InvocationDispatched{InvocationID: "v2"},
			event.JobQueued{JobID: "j1", CallID: "c2", Tool: "delegate", GenerationID: "g1", InvocationID: "v2"},
			event.InvocationCompleted{InvocationID: "v2", Result: "queued", OK: true}).
		approve("v1", argsDigest(args)).add(event.InvocationCompleted{InvocationID: "v1", Result: "ok", OK: true}).
		add(delivered("st-1", "request_boundary", "g1"), applied("st-1", "g1", "request_boundary")).
		ask("o2", "g1").answer("o2", "tool_calls", "Again.", toolCall("c3", "charge", args)).
		add(second, event.InvocationAwaitingApproval{InvocationID: "v3", InputDigest: argsDigest(args)}).
		accept("no-1", "decision", "target", "v3", "verdict", "deny", "input_digest", argsDigest(args)).
		add(event.InvocationDenied{InvocationID: "v3", DecidedBy: "no-1", InputDigest: argsDigest(args)}).
		ask("o3", "g1").answer("o3", "stop", "Charged.").save("k1", "final", "g1", "o3", 1, "Charged.", "v2", "v1").add(f1).
		add(event.JobReturned{JobID: "j1", CallID: "c2", Outcome: "tool_report", Result: "42", Effects: "not_rolled_back"}).
		accept("res-1", "service", "source", "delegate").add(started("g2", "res-1"), observed,
		event.ObservationReceived{InputID: "res-1", Source: "delegate", Text: "text of res-1"}).
		ask("o4", "g2").answer("o4", "output_budget", "It is ", toolCall("c4", "charge", args)).
		add(event.InvocationWithheld{ToolCallID: "c4", OperationID: "o4", Tool: "charge", Arguments: args, Reason: "truncated"}).
		save("k2", "cutoff", "g2", "o4", 1, "It is ", "v2", "v1").goOn("k2", "o4", "o5", "g2", 2).
		answer("o5", "stop", "42.").save("k3", "final", "g2", "o5", 2, "It is 42.", "v2", "v1").add(finished("g2", "It is 42.", "res-1")).
		turn("g3", "in-2").ask("o6", "g3").
		accept("st-2", "steer", "target_generation_id", "g3").add(owned("st-2", "g3", "request_boundary"), queued("st-2", "g3")).
		add(event.OperationFailed{OperationID: "o6", Dispatch: "rejected", Code: "x"},
			event.SteeringHeld{InputID: "st-2", TargetGenerationID: "g3", Reason: "generation-failed"},
			event.InputHeld{InputID: "st-2", Reason: "generation-failed", GenerationID: "g3"}, failedGeneration("g3", "in-2")).
		reject("st-3", "stale_generation").
		accept("cj-1", "cancel_job", "target", "j1").add(event.CommandRejected{InputID: "cj-1", Reason: "no_active_job"}).
		add(event.SessionIdle{Text: "It is 42."}).stopIdle()
}

// recoverySession: owners that are lost with an operation admitted, one in
// flight, a write without a receipt and a job; a chain that its bound stops
// and a decision continues; late evidence.
func recoverySession() *script {
	const args = `{"q":1}`
	stop := finished("g3", "alphabeta", "in-3")
	stop.Continuation = &event.Continuation{State: "stopped", Reason: "segments_exhausted", Action: "decide", CheckpointID: "k5"}
	bounded := started("g3", "in-3")
	bounded.Bounds.MaxSegments = 2
	late := answered("o2", "stop", "late")
	late.Late = true
	recovered := answered("o3", "tool_calls", "", toolCall("c1", "tool", args), toolCall("c2", "delegate", args))
	recovered.Recovered = true
	s := newScript().turn("g1", "in-1").add(admittedFact("o1", "g1")).
		claim().add(event.OperationDispatched{OperationID: "o1"}).answer("o1", "stop", "A.").finish("g1", "o1", "A.", "in-1").
		turn("g2", "in-2").ask("o2", "g2").
		claim().add(event.OperationInspected{OperationID: "o2", Observed: "missing"},
		event.OperationUnknown{OperationID: "o2", Reason: "owner_lost"}, detached("g2", "owner_lost", "in-2"), late).
		accept("in-3", "user").add(bounded, delivered("in-3", "new_turn", "g3")).ask("o3", "g3").
		add(event.OperationUnknown{OperationID: "o3", Reason: "transport"}, event.OperationInspected{OperationID: "o3", Observed: "complete"}, recovered).
		add(proposed("v1", "c1", "o3", "g3", "tool", args, "write", "none"), proposed("v2", "c2", "o3", "g3", "delegate", args, "idempotent", "none"), dispatch).
		claim().add(lost, event.InvocationInspected{InvocationID: "v1", Observed: "unsupported"}).
		accept("rec-1", "decision", "target", "v1", "verdict", "reconciled", "text", "done").
		add(event.InvocationReconciled{InvocationID: "v1", Verdict: "reconciled", DecidedBy: "rec-1", Result: "done"},
			event.InvocationDispatched{InvocationID: "v2"},
			event.JobQueued{JobID: "j1", CallID: "c2", Tool: "delegate", GenerationID: "g3", InvocationID: "v2"},
			event.InvocationCompleted{InvocationID: "v2", OK: true})
	return s.add(event.ContextSummarized{ThroughSequence: event.Seq(len(s.facts)), Text: "so far",
		Kept: event.Kept{Invocations: []string{"v2"}, Approvals: []string{}, Operations: []string{"o1", "o3"}}}).
		ask("o4", "g3").answer("o4", "output_budget", "alpha").save("k4", "cutoff", "g3", "o4", 1, "alpha", "v2").
		claim().add(event.JobRecovered{JobID: "j1", CallID: "c2", Status: "unknown", Outcome: "saved_evidence"}).
		goOn("k4", "o4", "o5", "g3", 2).answer("o5", "output_budget", "beta").save("k5", "cutoff", "g3", "o5", 2, "alphabeta", "v2").
		add(event.ContinuationStopped{CheckpointID: "k5", OperationID: "o5", Reason: "segments_exhausted", Action: "decide"}).
		save("k6", "final", "g3", "o5", 2, "alphabeta", "v2").add(stop, event.SessionIdle{Text: "alphabeta"}).
		accept("go-1", "decision", "target", "k5", "verdict", "continue").because("go-1", started("g4", "go-1")).
		goOn("k5", "o5", "o6", "g4", 3).answer("o6", "stop", "gamma").save("k7", "final", "g4", "o6", 3, "alphabetagamma", "v2").
		add(finished("g4", "alphabetagamma"), event.SessionIdle{Text: "alphabetagamma"}).stopIdle()
}
