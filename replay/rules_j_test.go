package replay

import (
	"testing"

	"github.com/loopd/loopd/event"
)

func TestJ1(t *testing.T) {
	recovered := event.JobRecovered{JobID: "j1", CallID: "c1", Status: "returned", Outcome: "saved_evidence"}
	cancelled := event.JobCancelled{JobID: "j1", CallID: "c1", Outcome: "cancelled", Effects: "not_rolled_back"}
	open := func() *script { return delegated().drop(event.TypeJobReturned, 0) }
	keeps(t, "recovered", open().claim().add(recovered))
	keeps(t, "cancelled, then evidence", open().add(cancelled, recovered))
	breaks(t, "J1", "cancelled, then evidence twice", open().add(cancelled, recovered, event.JobRecovered{JobID: "j1", Status: "failed"}))
	breaks(t, "J1", "returned twice", delegated().repeat(event.TypeJobReturned, 0))
	breaks(t, "J1", "returned, then recovered", delegated().add(recovered))
	breaks(t, "J1", "never queued", open().add(event.JobReturned{JobID: "j9"}))
	breaks(t, "J1", "queued again", delegated().repeat(event.TypeJobQueued, 0))
	breaks(t, "J1", "cancelled, never queued", open().add(event.JobCancelRequested{JobID: "j9"}))
}

func TestW1(t *testing.T) {
	// stopped ends a turn with everything that an end causes.
	stopped := func() *script {
		return newScript().turn("g1", "in-1").ask("o1", "g1").accept("in-2", "user").add(queued("in-2", "g1")).
			accept("stop-1", "stop").add(event.OperationUnknown{OperationID: "o1", Reason: "cancelled"},
			event.InputHeld{InputID: "in-2", Reason: "session-closing", GenerationID: "g1"}, detached("g1", "stopped", "in-1")).
			because("stop-1", event.SessionClosed{Status: "cancelled"})
	}
	keeps(t, "stopped", stopped())
	breaks(t, "W1", "an input is left", stopped().drop(event.TypeInputHeld, 0))
	breaks(t, "W1", "an operation is left", stopped().drop(event.TypeOperationUnknown, 0))
	breaks(t, "W1", "a generation is left", stopped().drop(event.TypeGenerationDetached, 0), "G1")
	breaks(t, "W1", "a command is left", simple().accept("w-1", "withdraw", "target", "in-1").stopIdle())
	keeps(t, "a command was rejected", simple().accept("w-1", "withdraw", "target", "in-1").add(event.CommandRejected{InputID: "w-1", Reason: "already_delivered"}).stopIdle())
	breaks(t, "W1", "a job is left", delegated().drop(event.TypeJobReturned, 0).stopIdle())
	breaks(t, "W1", "a call is left", called("read").drop(event.TypeInvocationCompleted, 0).stopIdle(), "C3")
	breaks(t, "W1", "an attempt without an answer", lostSteer().drop(event.TypeInputUnknown, 0).stopIdle())
	keeps(t, "left to its provider", steered().stopIdle())
	keeps(t, "not closed, still pending", busy().accept("in-9", "user"))
}
