package host_test

import (
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
)

func TestExplain(t *testing.T) {
	for want, r := range map[string]host.Result{
		"":                               host.Finished{},
		"not admitted: invalid: hint":    host.Rejected{Fact: event.InputRejected{Reason: "invalid", Hint: "hint"}},
		"without effect: unknown_target": host.Refused{Fact: event.CommandRejected{Reason: "unknown_target"}},
		"no answer: overloaded in provider_request: wait": host.Failed{Fact: event.GenerationFailed{
			ErrorType: "overloaded", Stage: "provider_request", NextAction: "wait"}},
		"no answer: the generation was detached (stopped); what the model server still does is not known": host.Detached{
			Fact: event.GenerationDetached{Reason: event.DetachedStopped}},
		"no answer: input.held": host.Held{Event: event.Event{Type: event.TypeInputHeld}},
	} {
		if got := host.Explain(r); got != want {
			t.Errorf("%T: %q, want %q", r, got, want)
		}
	}
	if got := host.Explain(host.Carried{Event: event.Event{Type: event.TypeSessionClosed}}); got != "" {
		t.Errorf("a command that had its effect: %q", got)
	}
}
