package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
)

func TestTokensShowWhatTheModelSent(t *testing.T) {
	r := newRig(t, answer.Middle())
	r.daemon()
	log := r.visit()
	r.submit(log, "in-1")
	operation := host.OperationOf(r.until(log, event.TypeOperationDispatched).Payload)
	r.wait("the request", r.server.Held(1))
	seen, enough := "", errors.New("the half has come")
	if err := host.New(log).Tokens(r.ctx, "s", operation, 1, func(f event.Frame) error {
		if seen += f.Text; seen == answer.TextOf(answer.Middle()) {
			return enough
		}
		return nil
	}); err != enough {
		t.Fatal(err)
	}
	status, out, talk := r.loopd("tokens", "--data", r.dir, "s", operation)
	if status != exitHeld || out != answer.TextOf(answer.Middle())+"\n" || !strings.Contains(talk, "it goes on; loopd tokens s "+operation+" --from ") {
		t.Fatalf("in the middle: status %d, %q, %q", status, out, talk)
	}
	r.server.Release(1)
	status, out, talk = r.loopd("tokens", "--data", r.dir, "s", operation, "--follow")
	if status != exitHeld || out != answer.Text()+"\n" || talk != "" {
		t.Fatalf("to the end: status %d, %q, %q", status, out, talk)
	}
	status, out, _ = r.loopd("tokens", "--data", r.dir, "s", operation, "--json", "--from", "2")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != exitHeld || !strings.Contains(lines[0], `"seq":2,`) || !strings.Contains(lines[len(lines)-1], `"state":"completed"`) {
		t.Errorf("as JSON: status %d, %q", status, out)
	}
	if status, out, talk = r.loopd("tokens", "--data", r.dir, "s", operation, "--from", "1000"); status != exitNotHeld || out != "" || !strings.Contains(talk, "are missing") {
		t.Errorf("behind its end: status %d, %q, %q", status, out, talk)
	}
	if status, _, talk = r.loopd("tokens", "--data", r.dir, "s", "nothing"); status != exitNotHeld || !strings.Contains(talk, "operation nothing of session s has no frames from 1 on") {
		t.Errorf("no operation: status %d, %q", status, talk)
	}
	if status, _, talk = r.loopd("tokens", "s"); status != exitUnasked || !strings.Contains(talk, "usage: loopd tokens SESSION OPERATION") {
		t.Errorf("no operation named: status %d, %q", status, talk)
	}
}

// An operation that a stop cut off is no success.
func TestTokensOfAnUnknownOperation(t *testing.T) {
	r := newRig(t, answer.Middle())
	r.daemon()
	log := r.visit()
	r.submit(log, "in-1")
	r.wait("the request", r.server.Held(1))
	if _, err := host.New(log).Stop(r.ctx, "s"); err != nil {
		t.Fatal(err)
	}
	operation := host.OperationOf(r.until(log, event.TypeOperationUnknown).Payload)
	status, _, talk := r.loopd("tokens", "--data", r.dir, "s", operation, "--follow")
	if status != exitNotHeld || !strings.Contains(talk, "unknown") {
		t.Errorf("status %d, %q", status, talk)
	}
}
