package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/provider/recorded"
	"github.com/loopd/loopd/replay"
	"github.com/loopd/loopd/schemas"
)

// rig is a model server and a data directory, for daemons that are processes of
// their own.
type rig struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	server *recorded.Server
	base   string
}

// answer is what the rig's model server says to everything.
var answer = recorded.Compose("chatcmpl-1", "m", "Once ", "upon ", "a ", "time.")

// newRig holds the answer to the first request after some frames (negative:
// not at all). Without answers of its own it gives always the same.
func newRig(t *testing.T, hold int, answers ...recorded.Answer) *rig {
	t.Helper()
	return newRigHolding(t, map[int]int{1: hold}, answers...)
}

// newRigHolding holds the answers to some requests, each after some frames.
func newRigHolding(t *testing.T, hold map[int]int, answers ...recorded.Answer) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	if len(answers) == 0 {
		answers = []recorded.Answer{answer}
	}
	r := &rig{t: t, ctx: ctx, dir: t.TempDir(), server: recorded.New(recorded.Config{
		Answers: answers,
		Hold: func(n int) int {
			if after, held := hold[n]; held {
				return after
			}
			return -1
		},
	})}
	web := httptest.NewServer(r.server)
	t.Cleanup(web.Close)
	t.Cleanup(r.server.Close)
	r.base = web.URL + "/v1"
	return r
}

// daemon starts loopd serve: on the rig's directory, or with more arguments
// elsewhere.
func (r *rig) daemon(args ...string) *child {
	r.t.Helper()
	all := append([]string{"serve", "--until-stdin-ends", "--base-url", r.base, "--profile", "openai", "--model", "m", "--store",
		"--api-key-env", "KEY", "--grace", "20s"}, args...)
	if !slices.Contains(args, "--nats") {
		all = append(all, "--data", r.dir, "--listen", "127.0.0.1:0")
	}
	c, err := startChild(r.ctx, []string{"KEY=k"}, all...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.stop)
	return c
}

// visit opens the log at whoever has the rig's directory.
func (r *rig) visit() *eventlog.Log {
	r.t.Helper()
	c := defaultConfig()
	c.Data, c.dataSet = r.dir, true
	p, err := c.visit(r.ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.close)
	return p.log
}

func (r *rig) submit(log *eventlog.Log, id string) {
	r.t.Helper()
	in := event.Input{InputID: id, Kind: event.KindUser, Text: "Tell a story"}
	if _, err := host.New(log).Submit(r.ctx, "s", in); err != nil {
		r.t.Fatal(err)
	}
}

// await is what became of an input.
func (r *rig) await(log *eventlog.Log, id string) host.Result {
	r.t.Helper()
	got, err := host.New(log).Await(r.ctx, "s", id)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// finished wants the whole answer to an input.
func (r *rig) finished(log *eventlog.Log, id string) host.Finished {
	r.t.Helper()
	f, ok := r.await(log, id).(host.Finished)
	if !ok || f.Fact.Text != answer.Text() {
		r.t.Fatalf("%s: %+v, want the answer %q", id, r.await(log, id), answer.Text())
	}
	return f
}

// sound wants a log without a finding, and no operation asked for twice.
func (r *rig) sound(log *eventlog.Log) {
	r.t.Helper()
	set, err := schemas.Load()
	if err != nil {
		r.t.Fatal(err)
	}
	for f, err := range replay.Audit(log.ReadAll(r.ctx, 1, 0), replay.Config{Validate: set.Event}) {
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Errorf("audit: %s at event %d: %s", f.Rule, f.Sequence, f.Message)
	}
	asked := map[string]int{}
	for _, q := range r.server.Requests() {
		if asked[q.OperationID]++; asked[q.OperationID] > 1 {
			r.t.Errorf("operation %s was asked for %d times", q.OperationID, asked[q.OperationID])
		}
	}
}

func (r *rig) wait(what string, signal <-chan struct{}) {
	r.t.Helper()
	select {
	case <-signal:
	case <-r.ctx.Done():
		r.t.Fatalf("%s: %v", what, r.ctx.Err())
	}
}

// The whole daemon is killed, its NATS server with it, at moments that the
// model server decides; the next one finds the answer and asks nothing.
func TestKilledDaemonRecoversTheOriginal(t *testing.T) {
	for name, hold := range map[string]int{
		"before the header":    0,
		"in the middle":        answer.Middle(),
		"before the last word": len(answer.Frames) - 1,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, hold)
			first := r.daemon()
			r.submit(r.visit(), "in-1")
			r.wait("the request", r.server.Held(1))
			if err := first.kill(); err != nil {
				t.Fatal(err)
			}
			r.server.Release(1)
			r.wait("the answer", r.server.Kept(1))

			r.daemon()
			log := r.visit()
			if f := r.finished(log, "in-1"); f.Event.Epoch != 2 {
				t.Errorf("finished in epoch %d, want 2", f.Event.Epoch)
			}
			r.submit(log, "in-2")
			r.finished(log, "in-2")
			r.sound(log)
			if n := len(r.server.Requests()); n != 2 {
				t.Errorf("%d requests, want one for each input", n)
			}
		})
	}
}

// An original that cannot be found is not asked for again: the generation is
// detached, and the session goes on.
func TestKilledDaemonDoesNotAskAgain(t *testing.T) {
	r := newRig(t, 1)
	first := r.daemon()
	r.submit(r.visit(), "in-1")
	r.wait("the request", r.server.Held(1))
	if err := first.kill(); err != nil {
		t.Fatal(err)
	}
	r.daemon()
	log := r.visit()
	if d, ok := r.await(log, "in-1").(host.Detached); !ok || d.Fact.Reason != event.DetachedOwnerLost {
		t.Fatalf("in-1: %+v, want it detached, %s", r.await(log, "in-1"), event.DetachedOwnerLost)
	}
	r.submit(log, "in-2")
	r.finished(log, "in-2")
	r.sound(log)
	if n := len(r.server.Requests()); n != 2 {
		t.Errorf("%d requests, want one for each input", n)
	}
}

// The owner is killed as soon as the log shows an event of each type in turn;
// whatever it had done by then, the next one goes on, and nothing is asked
// twice.
func TestKilledAtEachEvent(t *testing.T) {
	for _, at := range []event.Type{
		event.TypeSessionOpened, event.TypeSessionClaimed, event.TypeInputAccepted, event.TypeGenerationStarted,
		event.TypeInputDelivered, event.TypeOperationAdmitted, event.TypeOperationDispatched, event.TypeOperationCompleted,
		event.TypeCheckpointSaved, event.TypeGenerationFinished, event.TypeSessionIdle,
	} {
		t.Run(string(at), func(t *testing.T) {
			r := newRig(t, -1)
			where := r.own()
			first := r.daemon("--nats", where.url, "--owner", "first")
			r.submit(where.log, "in-1")
			for e, err := range host.New(where.log).Events(r.ctx, "s", 1) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == at {
					break
				}
			}
			if err := first.kill(); err != nil {
				t.Fatal(err)
			}
			r.daemon("--nats", where.url, "--owner", "second")
			switch got := r.await(where.log, "in-1").(type) {
			case host.Finished:
			case host.Detached:
				if got.Fact.Reason != event.DetachedOwnerLost {
					t.Errorf("detached: %s", got.Fact.Reason)
				}
			default:
				t.Errorf("in-1: %+v", got)
			}
			r.submit(where.log, "in-2")
			r.finished(where.log, "in-2")
			r.sound(where.log)
		})
	}
}

// own opens the log in this process, for owners that are others.
func (r *rig) own() *place {
	r.t.Helper()
	c := defaultConfig()
	c.Data, c.Listen = r.dir, "127.0.0.1:0"
	where, err := c.own(r.ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(where.close)
	return where
}

// An owner that stalls while another takes the session over is fenced when it
// wakes up: what it has in hand never reaches the log.
func TestStalledOwnerIsFenced(t *testing.T) {
	r := newRig(t, answer.Middle())
	where := r.own()
	first := r.daemon("--nats", where.url, "--owner", "first")
	r.submit(where.log, "in-1")
	r.wait("the request", r.server.Held(1))
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var stopped syscall.WaitStatus
	if _, err := syscall.Wait4(first.cmd.Process.Pid, &stopped, syscall.WUNTRACED, nil); err != nil || !stopped.Stopped() {
		t.Fatalf("the first owner is not stopped: %v, %v", stopped, err)
	}
	r.server.Release(1)
	r.wait("the answer", r.server.Kept(1))
	r.daemon("--nats", where.url, "--owner", "second")
	if f := r.finished(where.log, "in-1"); f.Event.Epoch != 2 {
		t.Errorf("finished in epoch %d, want 2", f.Event.Epoch)
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := first.says(r.ctx, "another owner has taken the session over"); err != nil {
		t.Fatal(err)
	}
	r.submit(where.log, "in-2")
	r.finished(where.log, "in-2")
	r.sound(where.log)
}

// A shutdown lets the running operation end; a second signal does not wait.
func TestShutdown(t *testing.T) {
	t.Run("in order", func(t *testing.T) {
		r := newRig(t, answer.Middle())
		first := r.daemon()
		r.submit(r.visit(), "in-1")
		r.wait("the request", r.server.Held(1))
		terminateChild(r, first)
		r.server.Release(1)
		r.wait("the end of the process", first.gone)
		if first.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("it ended with status %d: %s", first.cmd.ProcessState.ExitCode(), first.talk())
		}
		if r.server.Lookups() != 0 {
			t.Error("the answer was looked up, though nobody was killed")
		}
		r.daemon()
		log := r.visit()
		r.finished(log, "in-1")
		r.sound(log)
		if n, m := len(r.server.Requests()), r.server.Lookups(); n != 1 || m != 0 {
			t.Errorf("%d requests, %d look-ups, want 1 and 0", n, m)
		}
	})
	t.Run("second signal", func(t *testing.T) {
		r := newRig(t, answer.Middle())
		first := r.daemon("--grace", "1h")
		r.submit(r.visit(), "in-1")
		r.wait("the request", r.server.Held(1))
		terminateChild(r, first)
		if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.wait("the end of the process", first.gone)
		r.server.Release(1)
		r.wait("the answer", r.server.Kept(1))
		r.daemon()
		log := r.visit()
		r.finished(log, "in-1")
		r.sound(log)
	})
}

// terminateChild sends SIGTERM and waits until the process has said so.
func terminateChild(r *rig, c *child) {
	r.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := c.says(r.ctx, "loopd: stopping"); err != nil {
		r.t.Fatal(err)
	}
}

// Any NATS client is a host: what the README shows with the nats command holds
// for a plain publish and a plain subscription.
func TestPlainClientIsAHost(t *testing.T) {
	r := newRig(t, -1)
	c := r.daemon()
	_, rest, _ := strings.Cut(c.talk(), "serving on ")
	url, _, _ := strings.Cut(rest, ",")
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("loop.ev.s1.generation.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("loop.in.s1.in-1", []byte(`{"input_id":"in-1","kind":"user","text":"Hello"}`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"started", "finished"} {
		m, err := sub.NextMsgWithContext(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != "loop.ev.s1.generation."+want {
			t.Fatalf("got %s, want generation.%s", m.Subject, want)
		}
		if want != "finished" {
			continue
		}
		var got struct {
			InputIDs []string `json:"input_ids"`
			Text     string   `json:"text"`
		}
		if err := json.Unmarshal(m.Data, &got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.InputIDs) != "[in-1]" || got.Text != answer.Text() {
			t.Errorf("finished with %+v", got)
		}
	}
}
