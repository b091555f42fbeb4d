package responses

import (
	"runtime"
	"testing"

	"github.com/loopd/loopd/event"
)

// TestSuccessorOfAnother: a successor applies what was submitted to its own
// parent, and nothing else.
func TestSuccessorOfAnother(t *testing.T) {
	op := newOperation(nil)
	op.created("r1", "")
	op.begin(t.Context(), event.Input{InputID: "in-1"})
	if got := op.created("r2", "r1"); got != nil {
		t.Errorf("applied %q, which nobody accepted", got)
	}
	op.accepted(steerObject{ID: "s1", Previous: "r1"})
	if got := append(op.created("r3", "r2"), op.created("r4", "")...); got != nil {
		t.Errorf("applied %q, which was not for r2", got)
	}
	if !op.waits(false) {
		t.Error("nothing is awaited; want the input that was accepted")
	}
	if got := op.created("r5", "r1"); len(got) != 1 || got[0] != "in-1" {
		t.Errorf("applied %q; want in-1", got)
	}
	if op.waits(false) {
		t.Error("something is awaited; want nothing")
	}
}

// TestBeginningAfterTheEnd: a beginning that comes again does not bring a
// response back that ended.
func TestBeginningAfterTheEnd(t *testing.T) {
	f := NewFold(Profile{}, 0, nil)
	f.steers = newOperation(nil)
	for _, e := range []string{born, over("completed"), born} {
		f.Message([]byte(e))
	}
	if f.steers.target != "" || !f.Done() {
		t.Errorf("target %q, done %t; want nothing to steer", f.steers.target, f.Done())
	}
}

// TestAfterSteering: after a response that was steered a successor comes,
// whoever steered it, unless its own steering failed.
func TestAfterSteering(t *testing.T) {
	op := newOperation(nil)
	op.created("r1", "")
	op.ended()
	if !op.waits(true) || op.waits(false) {
		t.Error("want a successor after steering that is not ours, and nothing after any other end")
	}
	op.accepted(steerObject{ID: "s1", Previous: "r1"})
	op.failed(steerObject{ID: "s1", Previous: "r1"})
	if op.waits(true) {
		t.Error("the steering failed; want nothing awaited")
	}
	op.created("r2", "r1")
	op.ended()
	if !op.waits(true) {
		t.Error("it was another response's steering that failed; want a successor")
	}
}

// TestSteeringWaitsForTheResponse: an input that comes too early is submitted
// when the response begins.
func TestSteeringWaitsForTheResponse(t *testing.T) {
	for range 100 {
		op := newOperation(nil)
		begun := make(chan *steer)
		go func() { begun <- op.begin(t.Context(), event.Input{InputID: "in-1"}) }()
		runtime.Gosched()
		op.created("r1", "")
		if s := <-begun; s == nil || s.target != "r1" {
			t.Fatalf("submitted %+v; want it for r1", s)
		}
	}
}
