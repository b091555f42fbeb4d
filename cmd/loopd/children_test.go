package main

import (
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/tool/delegate"
	"github.com/loopd/loopd/loop"
)

const delegating = "tools: {research: {session: true}}\n"

// Work that a session of its own does comes back as an observation, in a later
// generation, and its log is a session's like any other.
func TestASessionDoesDelegatedWork(t *testing.T) {
	// The parent's second request and the child's only one race for the second
	// and third answer: they are the same.
	r := newRig(t, -1, calls("call-1", "research", `{"ask":"Find the height."}`), says("2061 metres."), says("2061 metres."), says("It is 2061 metres high."))
	r.configured(delegating)
	log := r.visit()
	r.submit(log, "in-1")
	r.text(log, "in-1", "2061 metres.")

	invocation := r.until(log, event.TypeInvocationProposed).Payload.(event.InvocationProposed)
	if invocation.Effect != event.EffectIdempotent {
		t.Errorf("its effect is %s", invocation.Effect)
	}
	returned := r.until(log, event.TypeJobReturned).Payload.(event.JobReturned)
	if returned.Result != "2061 metres." || returned.CallID != "call-1" {
		t.Errorf("the job returned %+v", returned)
	}
	h := host.New(log)
	observed := ""
	for e, err := range h.Events(r.ctx, "s", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := e.Payload.(event.ObservationReceived); ok {
			observed = p.Text
		}
		if observed != "" && e.Type == event.TypeSessionIdle {
			break
		}
	}
	if observed != "2061 metres." {
		t.Errorf("the model observed %q", observed)
	}
	child, depth := delegate.Child(loop.ToolRequest{SessionID: "s", InvocationID: invocation.InvocationID})
	if got, err := h.Await(r.ctx, child, invocation.InvocationID); depth != 1 || err != nil || got.(host.Finished).Fact.Text != "2061 metres." {
		t.Errorf("the child %s: %+v, %v", child, got, err)
	}
	if !strings.Contains(r.asked(1), delegate.Description) || !strings.Contains(r.asked(1), `"required":["ask"]`) {
		t.Errorf("the model was not told of the tool: %s", r.asked(1))
	}
	r.sound(log)
}

// A job that is cancelled stops its child.
func TestACancelledJobStopsItsSession(t *testing.T) {
	r := newRigHolding(t, map[int]int{2: 0, 3: 0}, calls("call-1", "research", `{"ask":"Count to infinity."}`), says("I have asked."))
	r.configured(delegating)
	log := r.visit()
	r.submit(log, "in-1")
	job := r.until(log, event.TypeJobQueued).Payload.(event.JobQueued)
	child, _ := delegate.Child(loop.ToolRequest{SessionID: "s", InvocationID: job.InvocationID})
	h := host.New(log)
	r.wait("the parent's and the child's request", r.server.Held(2))
	r.wait("the parent's and the child's request", r.server.Held(3))
	look := func() (event.Observed, delegate.Ending) {
		observed, end, err := children{h}.Look(r.ctx, child, job.InvocationID)
		if err != nil {
			t.Fatal(err)
		}
		return observed, end
	}
	if observed, _ := look(); observed != event.ObservedPending {
		t.Errorf("at work: %s", observed)
	}
	if _, err := h.Submit(r.ctx, "s", event.Input{Kind: event.KindCancelJob, Target: job.JobID}); err != nil {
		t.Fatal(err)
	}
	for e, err := range h.Events(r.ctx, child, 1) {
		if err != nil {
			t.Fatalf("the child is not closed: %v", err)
		}
		if p, ok := e.Payload.(event.SessionClosed); ok {
			if p.Status != event.StatusCancelled {
				t.Errorf("closed %s", p.Status)
			}
			break
		}
	}
	if cancelled := r.until(log, event.TypeJobCancelled).Payload.(event.JobCancelled); cancelled.JobID != job.JobID {
		t.Errorf("cancelled %+v", cancelled)
	}
	if observed, end := look(); observed != event.ObservedComplete || end.Finished || !strings.Contains(end.Reason, "detached (stopped)") {
		t.Errorf("after it: %s, %+v", observed, end)
	}
	observed, _, err := children{h}.Look(r.ctx, child, "nobody-asked")
	if observed != event.ObservedMissing || err != nil {
		t.Errorf("what was never submitted: %s, %v", observed, err)
	}
}

// The same invocation again finds the same child, and nothing is asked twice;
// one whose generation failed is a failure with its reason.
func TestTheSameInvocationFindsItsChild(t *testing.T) {
	r := newRig(t, -1, says("One."), calls("call-1", "nope", "{}"))
	r.daemon()
	tool, err := delegate.New(children{host.New(r.visit())}, delegate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	req := loop.ToolRequest{SessionID: "s", InvocationID: "v1", Tool: "research", Arguments: `{"ask":"Look."}`}
	for range 2 {
		if got := tool.Call(r.ctx, req); got != (loop.ToolOutcome{Result: "One."}) {
			t.Fatalf("%+v", got)
		}
	}
	if got := tool.Inspect(r.ctx, req); got.Observed != event.ObservedComplete || got.Outcome.Result != "One." {
		t.Errorf("looked up: %+v", got)
	}
	other := req
	other.Arguments = `{"ask":"Something else."}`
	if got := tool.Call(r.ctx, other); !got.Failed || !strings.Contains(got.Result, "was not run: host: eventlog: submit") {
		t.Errorf("other work under its id: %+v", got)
	}
	if n := len(r.server.Requests()); n != 1 {
		t.Errorf("%d requests for one invocation", n)
	}
	req.InvocationID = "v2"
	const want = "tool research: no answer: calls_withheld in manager_turn"
	if got := tool.Call(r.ctx, req); !got.Failed || !strings.HasPrefix(got.Result, want) {
		t.Errorf("%+v, want %s", got, want)
	}
}
