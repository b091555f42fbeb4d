package loop

import (
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

// TestRefusedAttachmentsDoNotStick: a file that the provider does not take fails
// the turn that brought it, and no later one.
func TestRefusedAttachmentsDoNotStick(t *testing.T) {
	for name, tc := range map[string]struct {
		failure Failure
		kept    int
	}{
		"bad request":     {Failure{Dispatch: event.DispatchRejected, HTTPStatus: 400}, 0},
		"unsupported":     {Failure{Dispatch: event.DispatchRejected, HTTPStatus: 415}, 0},
		"invalid history": {Failure{Dispatch: event.DispatchNotDispatched, Code: CodeInvalidHistory}, 0},
		"rate limit":      {Failure{Dispatch: event.DispatchRejected, HTTPStatus: 429}, 1},
		"not reached":     {Failure{Dispatch: event.DispatchNotDispatched, Code: "connect"}, 1},
		"ran":             {Failure{Dispatch: event.DispatchRan, HTTPStatus: 400}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.open()
			w.must(w.submit([]byte(`{"input_id":"a","kind":"user","text":"see","attachments":[{"type":"x"}]}`), "a"))
			w.settle()
			w.must(w.do(EndOperation{OperationID: w.state.Generation.Operation.ID, Outcome: tc.failure}))
			w.settle()
			w.must(w.submit([]byte(`{"input_id":"b","kind":"user","text":"next"}`), "b"))
			w.settle()
			first := w.state.Request(w.past, w.state.Generation.Operation.ID).Messages[1]
			if len(first.Attachments) != tc.kept || strings.Contains(first.Text, "left out") != (tc.kept == 0) {
				t.Errorf("the refused turn is sent as %+v", first)
			}
		})
	}
}
