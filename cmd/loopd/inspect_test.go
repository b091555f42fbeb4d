package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
)

// loopd runs a verb in this process.
func (r *rig) loopd(args ...string) (status int, out, talk string) {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(r.ctx, args, strings.NewReader(""), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// until reads a session to its first event of a type.
func (r *rig) until(log *eventlog.Log, want event.Type) event.Event {
	r.t.Helper()
	for e, err := range host.New(log).Events(r.ctx, "s", 1) {
		if err != nil {
			r.t.Fatalf("no %s: %v", want, err)
		}
		if e.Type == want {
			return e
		}
	}
	return event.Event{}
}

// An operation that a stop left unknown is looked up on demand, while its
// answer is not there and when it is; also by the next daemon, which has not
// owned the session before.
func TestInspectLooksTheOriginalUp(t *testing.T) {
	r := newRig(t, answer.Middle())
	first := r.daemon("--owner", "same")
	log := r.visit()
	r.submit(log, "in-1")
	r.wait("the request", r.server.Held(1))
	if _, err := host.New(log).Stop(r.ctx, "s"); err != nil {
		t.Fatal(err)
	}
	r.until(log, event.TypeSessionClosed)
	operation := host.OperationOf(r.until(log, event.TypeOperationUnknown).Payload)

	status, out, talk := r.loopd("inspect", "--data", r.dir, "s", operation)
	if status != exitHeld || !strings.HasPrefix(out, "operation.inspected  operation_id="+operation+" observed=missing\n") {
		t.Fatalf("status %d, %q, %q; want it missing", status, out, talk)
	}
	log.Close()
	if err := first.kill(); err != nil {
		t.Fatal(err)
	}
	r.server.Release(1)
	r.wait("the answer", r.server.Kept(1))
	r.daemon("--owner", "same")
	status, out, talk = r.loopd("inspect", "--data", r.dir, "--json", "s", operation)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != exitHeld || len(lines) != 2 || !strings.Contains(lines[0], `"observed":"complete"`) ||
		!strings.Contains(lines[1], `"type":"operation.completed"`) || !strings.Contains(lines[1], `"late":true`) {
		t.Fatalf("status %d, %q, %q; want the answer as late evidence", status, out, talk)
	}
	log = r.visit()
	if e := r.until(log, event.TypeOperationCompleted); e.Epoch != 2 {
		t.Errorf("appended in epoch %d, want that of the daemon that looked", e.Epoch)
	}
	if status, _, talk = r.loopd("inspect", "--data", r.dir, "s", operation); status != exitNotHeld || !strings.Contains(talk, "has ended (operation.completed)") {
		t.Errorf("again: status %d, %q", status, talk)
	}
	r.sound(log)
	if n := len(r.server.Requests()); n != 1 {
		t.Errorf("%d requests; a look-up asks for nothing", n)
	}
}

func TestInspectSaysWhatCannotBeAsked(t *testing.T) {
	r := newRig(t, -1)
	d := r.daemon()
	log := r.visit()
	r.submit(log, "in-1")
	r.finished(log, "in-1")
	for _, c := range []struct {
		args   []string
		status int
		talk   string
	}{
		{[]string{"s", "nothing"}, exitNotHeld, "has no operation nothing; loopd events --session s"},
		{[]string{"nobody", "x"}, exitNotHeld, `session "nobody" has no events`},
		{[]string{"s"}, exitUnasked, "usage: loopd inspect SESSION OPERATION"},
		{[]string{"s", "x", "--timeout", "0s"}, exitUnasked, "--timeout 0s is not a wait"},
	} {
		status, out, talk := r.loopd(append([]string{"inspect", "--data", r.dir}, c.args...)...)
		if status != c.status || out != "" || !strings.Contains(talk, c.talk) {
			t.Errorf("inspect %v: status %d, %q, %q; want %d, %q", c.args, status, out, talk, c.status, c.talk)
		}
	}
	log.Close()
	if err := d.kill(); err != nil {
		t.Fatal(err)
	}
	if status, _, talk := r.loopd("inspect", "--data", r.dir, "s", "x"); status != exitUnasked || !strings.Contains(talk, "start the daemon with loopd serve") {
		t.Errorf("without a daemon: status %d, %q", status, talk)
	}
}
