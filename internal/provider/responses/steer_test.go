package responses_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/responses"
	"github.com/loopd/loopd/loop"
)

// talk is an operation that runs while a test steers it.
type talk struct {
	t       *testing.T
	a       *responses.Adapter
	j       *journal
	told    chan string
	outcome chan loop.Outcome
}

func start(t *testing.T, a *responses.Adapter, req loop.Request) *talk {
	t.Helper()
	k := &talk{t: t, a: a, told: make(chan string, 1000), outcome: make(chan loop.Outcome, 1)}
	k.j = &journal{told: func(s string) { k.told <- s }}
	go func() { k.outcome <- a.Generate(t.Context(), req, k.j) }()
	return k
}

// hears waits until the operation's stream told of something.
func (k *talk) hears(what string) {
	k.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case s := <-k.told:
			if strings.HasPrefix(s, what) {
				return
			}
		case <-limit:
			k.t.Fatalf("never told of %q", what)
		}
	}
}

// steer hands an input over; its answer comes on the channel.
func (k *talk) steer(id string) <-chan loop.SteerAnswer {
	answers := make(chan loop.SteerAnswer, 1)
	go func() { answers <- k.a.Steer(k.t.Context(), "op-1", event.Input{InputID: id, Text: "change " + id}) }()
	return answers
}

func (k *talk) ends() loop.Outcome {
	k.t.Helper()
	return receive(k.t, k.outcome)
}

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came in 10 s")
	}
	return v
}

// What a server says to steering of response r1, or another.
func accepted(id, target string) string {
	return `{"type":"response.steer.accepted","steer":{"id":"` + id + `","previous_response_id":"` + target + `"}}`
}

func failed(id, target, code string) string {
	steer := `"previous_response_id":"` + target + `","input":"x"`
	if id != "" {
		steer = `"id":"` + id + `",` + steer
	}
	return `{"type":"response.steer.failed","error":{"type":"invalid_request_error","code":"` + code + `"},"steer":{` + steer + `}}`
}

func waiting(id, target string, calls ...string) string {
	var stubs []string
	for _, c := range calls {
		stubs = append(stubs, `{"type":"function_call_output","call_id":"`+c+`","name":"f"}`)
	}
	return `{"type":"response.steer.pending","reason":"waiting_for_required_input","required_input":[` + strings.Join(stubs, ",") +
		`],"steer":{"id":"` + id + `","previous_response_id":"` + target + `"}}`
}

func withID(event, id string) string {
	return strings.Replace(event, `"output_index"`, `"item_id":"`+id+`","output_index"`, 1)
}

var steered = `,"incomplete_details":{"reason":"steered"}`

// step is one line of a steering script.
type step struct {
	does string // send, read (a steering frame of the adapter), hang up
	what string
}

func send(events ...string) []step {
	var steps []step
	for _, e := range events {
		steps = append(steps, step{"send", e})
	}
	return steps
}

var read = []step{{does: "read"}}

func script(parts ...[]step) []step { return slices.Concat(parts...) }

var steerings = []struct {
	name    string
	inputs  int // handed over one after the other, once Hello came
	steps   []step
	answers []loop.SteerAnswer
	want    string
	text    string
	applied string // entries of applied, joined by ;
}{
	{"accepted, then applied", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B"), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion stop", "B", "in-1"},
	{"applied after the response completed", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "completed", ""), created("r2", "r1"), saying("B"), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion stop", "B", "in-1"},
	{"two before one successor", 2, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1")), read, send(accepted("s2", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B"), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted, loop.SteerAccepted}, "completion stop", "B", "in-1,in-2"},
	{"one after the other", 2, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B")), read, send(accepted("s2", "r2"), ended("r2", "incomplete", steered), created("r3", "r2"), saying("C"), ended("r3", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted, loop.SteerAccepted}, "completion stop", "C", "in-1;in-2"},
	{"the parent ends late", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), created("r2", "r1"), ended("r1", "incomplete", steered), saying("B"), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion stop", "B", "in-1"},
	{"the parent's late text", 1, script(send(created("r1", ""), withID(hello, "m1")), read, send(accepted("s1", "r1"), created("r2", "r1"), withID(saying("late"), "m1"), withID(saying("B"), "m2"), ended("r1", "incomplete", steered), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion stop", "B", "in-1"},
	{"the successor is cut off", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B"), ended("r2", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion output_budget", "B", "in-1"},
	{"refused", 1, script(send(created("r1", ""), hello), read, send(failed("", "r1", "steering_not_supported"), ended("r1", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerRefused}, "completion stop", "Hello", ""},
	{"refused after the end", 1, script(send(created("r1", ""), hello), read, send(ended("r1", "completed", ""), failed("", "r1", "response_already_completed"))),
		[]loop.SteerAnswer{loop.SteerRefused}, "completion stop", "Hello", ""},
	{"one refused, one applied", 2, script(send(created("r1", ""), hello), read, send(failed("", "r1", "too_many_pending_steers")), read, send(accepted("s2", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B"), ended("r2", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerRefused, loop.SteerAccepted}, "completion stop", "B", "in-2"},
	{"failed after it was accepted", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "completed", ""), failed("s1", "r1", "successor_creation_failed"))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion stop", "Hello", ""},
	{"steered, and no successor to be", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered), failed("s1", "r1", "successor_creation_failed"))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion steered", "Hello", ""},
	{"failed under an id that nobody told", 1, script(send(created("r1", ""), hello), read, send(failed("s9", "r1", "successor_creation_failed"), ended("r1", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerUnknown}, "completion stop", "Hello", ""},
	{"the successor of another", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), created("r2", "r9"), ended("r1", "completed", ""), failed("s1", "r1", "x"))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "completion unrecognised", "Hello", ""},
	{"lost before an answer", 1, script(send(created("r1", ""), hello), read),
		[]loop.SteerAnswer{loop.SteerUnknown}, "uncertain transport", "", ""},
	{"ended, and lost before an answer", 1, script(send(created("r1", ""), hello), read, send(ended("r1", "completed", ""))),
		[]loop.SteerAnswer{loop.SteerUnknown}, "uncertain transport", "", ""},
	{"lost once accepted", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "uncertain transport", "", ""},
	{"lost before the successor", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "uncertain transport", "", ""},
	{"lost in the successor", 1, script(send(created("r1", ""), hello), read, send(accepted("s1", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"))),
		[]loop.SteerAnswer{loop.SteerAccepted}, "uncertain transport", "", "in-1"},
}

func TestSteering(t *testing.T) {
	for _, c := range steerings {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 8)
			url := sockets(t, func(p *peer, _ int) {
				p.read()
				for _, s := range c.steps {
					if s.does == "send" {
						p.send(s.what)
						continue
					}
					asked <- p.read()
				}
			})
			k := start(t, adapter(t, url, socket), ask())
			k.hears("text Hello")
			for i := range c.inputs {
				id := []string{"in-1", "in-2"}[i]
				if got := receive(t, k.steer(id)); got != c.answers[i] {
					t.Errorf("%s: answer %d; want %d", id, got, c.answers[i])
				}
				if frame := receive(t, asked); !strings.HasPrefix(frame, `{"type":"response.steer","previous_response_id":"r`) || !strings.HasSuffix(frame, `,"input":"change `+id+`"}`) {
					t.Errorf("sent %s", frame)
				}
				if c.name == "one after the other" && i == 0 {
					k.hears("text B")
				}
			}
			outcome := k.ends()
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
			if done, ok := outcome.(loop.Completion); ok && done.Text != c.text {
				t.Errorf("text %q; want %q", done.Text, c.text)
			}
			if told := k.j.entries(); c.text == "B" && !slices.Contains(told, "message Hello") {
				t.Errorf("told %q; want the block before the boundary", told)
			}
			var applied []string
			for _, s := range k.j.entries() {
				if ids, ok := strings.CutPrefix(s, "applied "); ok {
					applied = append(applied, ids)
				}
			}
			if got := strings.Join(applied, ";"); got != c.applied {
				t.Errorf("applied %q; want %q", got, c.applied)
			}
		})
	}
}

// TestSteeringTimesOut: whoever asked has gone, and the server takes the input
// up nevertheless.
func TestSteeringTimesOut(t *testing.T) {
	sent, late := make(chan bool), make(chan bool)
	url := sockets(t, func(p *peer, _ int) {
		p.read()
		p.send(created("r1", ""), hello)
		p.read()
		close(sent)
		<-late
		p.send(accepted("s1", "r1"), ended("r1", "incomplete", steered), created("r2", "r1"), saying("B"), ended("r2", "completed", ""))
	})
	a := adapter(t, url, socket)
	k := start(t, a, ask())
	k.hears("text Hello")
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan loop.SteerAnswer, 1)
	go func() { answers <- a.Steer(ctx, "op-1", event.Input{InputID: "in-1", Text: "x"}) }()
	receive(t, sent)
	cancel()
	if got := receive(t, answers); got != loop.SteerUnknown {
		t.Errorf("answer %d; want unknown", got)
	}
	close(late)
	if got := say(k.ends()); got != "completion stop" || !slices.Contains(k.j.entries(), "applied in-1") {
		t.Errorf("outcome %s, told %q; want the late confirmation", got, k.j.entries())
	}
}

// TestSteeringSettles bounds the wait for what becomes of steering.
func TestSteeringSettles(t *testing.T) {
	for name, after := range map[string][]string{
		"no answer":    {ended("r1", "completed", "")},
		"not applied":  {accepted("s1", "r1"), ended("r1", "completed", "")},
		"no successor": {accepted("s1", "r1"), ended("r1", "incomplete", steered)},
	} {
		url := sockets(t, func(p *peer, _ int) {
			p.read()
			p.send(created("r1", ""), hello)
			p.read()
			p.send(after...)
			p.gone()
		})
		k := start(t, adapter(t, url, socket, func(c *responses.Config) { c.Socket.SettleTimeout = 30 * time.Millisecond }), ask())
		k.hears("text Hello")
		answer := k.steer("in-1")
		if got := say(k.ends()); got != "uncertain timeout" {
			t.Errorf("%s: outcome %s; want uncertain timeout", name, got)
		}
		want := loop.SteerAccepted
		if name == "no answer" {
			want = loop.SteerUnknown
		}
		if got := receive(t, answer); got != want {
			t.Errorf("%s: answer %d; want %d", name, got, want)
		}
	}
}

func TestNothingToSteer(t *testing.T) {
	go1 := make(chan bool)
	url := sockets(t, func(p *peer, _ int) {
		p.read()
		<-go1
		p.send(created("r1", ""), hello, ended("r1", "completed", ""))
		p.gone()
	})
	a := adapter(t, url, socket)
	in := event.Input{InputID: "in-1", Text: "x"}
	if got := a.Steer(t.Context(), "op-1", in); got != loop.SteerRefused {
		t.Errorf("before the operation: %d; want refused", got)
	}
	k := start(t, a, ask())
	answer := k.steer("in-2") // may come before the operation, before its response or while it runs
	close(go1)
	if got := say(k.ends()); got != "completion stop" && got != "uncertain transport" {
		t.Errorf("outcome %s", got)
	}
	if got := receive(t, answer); got == loop.SteerAccepted {
		t.Error("accepted, and nobody said so")
	}
	if got := a.Steer(t.Context(), "op-1", in); got != loop.SteerRefused {
		t.Errorf("after the operation: %d; want refused", got)
	}
	in.Attachments = []event.Attachment{event.Attachment(`{}`)}
	if got := a.Steer(t.Context(), "op-1", in); got != loop.SteerRefused {
		t.Errorf("with an attachment: %d; want refused", got)
	}
}

// TestSteerBeforeTheResponse: an input waits for the response to begin, and is
// refused if it never does: nothing of it left.
func TestSteerBeforeTheResponse(t *testing.T) {
	asked, proceed := make(chan bool), make(chan bool)
	url := sockets(t, func(p *peer, _ int) {
		p.read()
		close(asked)
		<-proceed
	})
	a := adapter(t, url, socket)
	k := start(t, a, ask())
	receive(t, asked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := a.Steer(ctx, "op-1", event.Input{InputID: "in-1", Text: "x"}); got != loop.SteerRefused {
		t.Errorf("given up: %d; want refused", got)
	}
	answer := k.steer("in-2")
	close(proceed)
	k.ends()
	if got := receive(t, answer); got != loop.SteerRefused {
		t.Errorf("no response: %d; want refused", got)
	}
}

// TestNotSteerable: what cannot be steered is refused, and nothing is sent.
func TestNotSteerable(t *testing.T) {
	plain := event.Input{InputID: "in-1", Text: "x"}
	attached := event.Input{InputID: "in-1", Text: "x", Attachments: []event.Attachment{event.Attachment(`{}`)}}
	for name, c := range map[string]struct {
		in       event.Input
		steering bool
	}{"an attachment": {attached, true}, "a model that takes none": {plain, false}} {
		next, finish := make(chan string, 1), make(chan bool)
		url := sockets(t, func(p *peer, _ int) {
			p.read()
			p.send(created("r1", ""), hello)
			<-finish
			p.send(ended("r1", "completed", ""))
			next <- p.read()
		})
		a := adapter(t, url, socket, func(cfg *responses.Config) { cfg.Steering = c.steering })
		k := start(t, a, ask())
		k.hears("text Hello")
		if got := a.Steer(t.Context(), "op-1", c.in); got != loop.SteerRefused {
			t.Errorf("%s: answer %d; want refused", name, got)
		}
		close(finish)
		if got := say(k.ends()); got != "completion stop" || receive(t, next) != "" {
			t.Errorf("%s: outcome %s; want stop, and nothing sent", name, got)
		}
	}
}

func call(id string) event.ToolCall {
	return event.ToolCall{ID: id, Name: "f", Arguments: "{}", Closed: true}
}

// followUp is the request after the results of calls came.
func followUp(calls ...string) loop.Request {
	r := ask()
	r.OperationID = "op-2"
	m := loop.Message{Role: loop.RoleAssistant, Text: "Hello", OperationID: "op-1"}
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, call(c))
	}
	r.Messages = append(r.Messages, m)
	for _, c := range calls {
		r.Messages = append(r.Messages, loop.Message{Role: loop.RoleTool, ToolCallID: c, Text: "result " + c})
	}
	return r
}

// TestSteeringWaitsForTools: the response stops for its tools, the results go
// on with it on the same connection, and the steering is applied there.
func TestSteeringWaitsForTools(t *testing.T) {
	for _, c := range []struct {
		name        string
		next        loop.Request
		age         time.Duration
		hangUp      bool
		goesOn      bool
		connections int
	}{
		{"the results", followUp("c1"), time.Hour, false, true, 1},
		{"the results and another turn", func() loop.Request {
			r := followUp("c1")
			r.Messages = append(r.Messages, loop.Message{Role: loop.RoleUser, Text: "and?"})
			return r
		}(), time.Hour, false, true, 1},
		{"other results", followUp("c1", "c2"), time.Hour, false, false, 2},
		{"fewer results", followUp("c1"), time.Hour, false, false, 2},
		{"another turn", ask(), time.Hour, false, false, 2},
		{"another operation's", func() loop.Request { r := followUp("c1"); r.Messages[1].OperationID = "op-0"; return r }(), time.Hour, false, false, 2},
		{"an old connection", followUp("c1"), time.Nanosecond, false, false, 2},
		{"a lost connection", followUp("c1"), time.Hour, true, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked, connections, lost := make(chan string, 4), make(chan int, 4), make(chan bool)
			url := sockets(t, func(p *peer, n int) {
				connections <- n
				asked <- p.read()
				if n == 1 {
					p.send(created("r1", ""), hello)
					p.read()
					p.send(accepted("s1", "r1"), calling("c1"), ended("r1", "completed", ""))
					if c.name == "fewer results" {
						p.send(waiting("s1", "r1", "c1", "c2"))
					} else {
						p.send(waiting("s1", "r1", "c1"))
					}
					if c.hangUp {
						p.conn.CloseNow()
						close(lost)
						return
					}
					next := p.read()
					if next == "" {
						return
					}
					asked <- next
					p.send(created("r2", "r1"), saying("B"), ended("r2", "completed", ""))
					p.gone()
					return
				}
				p.send(created("r3", ""), saying("B"), ended("r3", "completed", ""))
				p.gone()
			})
			a := adapter(t, url, socket, func(cfg *responses.Config) { cfg.Socket.MaxAge = c.age })
			k := start(t, a, ask())
			k.hears("text Hello")
			if got := receive(t, k.steer("in-1")); got != loop.SteerAccepted {
				t.Fatalf("answer %d; want accepted", got)
			}
			if got := say(k.ends()); got != "completion tool_calls" {
				t.Fatalf("outcome %s; want tool_calls", got)
			}
			if c.hangUp {
				receive(t, lost)
				responses.AwaitLoss(a, "s")
			}
			second := start(t, a, c.next)
			if got := say(second.ends()); got != "completion stop" {
				t.Errorf("second outcome %s; want stop", got)
			}
			receive(t, asked)
			frame := receive(t, asked)
			if strings.Contains(frame, `"previous_response_id":"r1"`) != c.goesOn || strings.Contains(frame, `"type":"function_call"`) == c.goesOn && c.next.OperationID == "op-2" {
				t.Errorf("sent %s; goes on: want %t", frame, c.goesOn)
			}
			if got := slices.Contains(second.j.entries(), "applied in-1"); got != c.goesOn {
				t.Errorf("applied: %t; want %t", got, c.goesOn)
			}
			if got := len(connections); got != c.connections {
				t.Errorf("%d connections; want %d", got, c.connections)
			}
		})
	}
}

// conversation is a file of messages, and the texts in it.
type conversation struct {
	path          string
	before, after string
}

func conversations(name string) []conversation {
	own := []conversation{{filepath.Join("testdata", name), "Plan A: zwei Wochen", "Plan B 🌱"}}
	shared := filepath.Join("..", "..", "..", "..", "shared", "fixtures", "synthetic", name)
	if _, err := os.Stat(shared); err == nil {
		own = append(own, conversation{shared, "第一版计划：", "两周内一人可完成的计划🌱"})
	}
	return own
}

// TestConversationFiles plays whole conversations over a real WebSocket: the
// adapter steers when the server's answer to it is due.
func TestConversationFiles(t *testing.T) {
	for _, name := range []string{"responses-ws-steered.jsonl", "responses-ws-steer-failed.jsonl"} {
		for _, c := range conversations(name) {
			b, err := os.ReadFile(c.path)
			if err != nil {
				t.Fatal(err)
			}
			url := sockets(t, func(p *peer, _ int) {
				p.read()
				for line := range strings.Lines(string(b)) {
					if strings.Contains(line, `"type":"response.steer.`) {
						p.read()
					}
					p.send(strings.TrimSuffix(line, "\n"))
				}
			})
			k := start(t, adapter(t, url, socket), ask())
			k.hears("text ")
			answer := receive(t, k.steer("in-1"))
			outcome := k.ends()
			if got := string(k.j.bytes()); got != string(b) {
				t.Errorf("%s: saved %q", c.path, got)
			}
			if name != "responses-ws-steered.jsonl" {
				if answer != loop.SteerRefused || say(outcome) != "uncertain transport" {
					t.Errorf("%s: answer %d, outcome %+v; want refused, uncertain", c.path, answer, outcome)
				}
				continue
			}
			done, ok := outcome.(loop.Completion)
			if answer != loop.SteerAccepted || !ok || done.Finish != event.FinishStop || done.Text != c.after || done.ResponseDigest != event.Digest(b) {
				t.Errorf("%s: answer %d, outcome %+v; want the successor's text %q", c.path, answer, outcome, c.after)
			}
			told := slices.DeleteFunc(k.j.entries(), func(s string) bool { return strings.HasPrefix(s, "text ") })
			if len(told) < 2 || told[0] != "message "+c.before || told[1] != "applied in-1" {
				t.Errorf("%s: told %q; want the text before, then applied", c.path, told)
			}
		}
	}
}

func TestSteeredUsage(t *testing.T) {
	b, err := os.ReadFile("testdata/responses-ws-steered.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	url := sockets(t, func(p *peer, _ int) {
		p.read()
		for line := range strings.Lines(string(b)) {
			p.send(strings.TrimSuffix(line, "\n"))
		}
	})
	// the steering is another client's: it is waited for, and not confirmed
	k := start(t, adapter(t, url, socket), ask())
	done, ok := k.ends().(loop.Completion)
	if !ok || done.Usage == nil || *done.Usage != (event.Usage{Input: 30, Output: 10, Reasoning: 3}) {
		t.Errorf("completion %+v; want the usage of both responses", done)
	}
	if slices.ContainsFunc(k.j.entries(), func(s string) bool { return strings.HasPrefix(s, "applied") }) {
		t.Errorf("told %q; want nothing applied", k.j.entries())
	}
}

// TestKeptConnections: they are few, they are not for ever, and Close ends
// them.
func TestKeptConnections(t *testing.T) {
	for name, change := range map[string]func(*responses.Config){
		"room for one": func(c *responses.Config) { c.Socket.MaxKept = 1 },
		"for a while":  func(c *responses.Config) { c.Socket.MaxAge = time.Second },
		"closed":       func(*responses.Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan int, 2)
			url := sockets(t, func(p *peer, n int) {
				p.read()
				p.send(created("r1", ""), hello)
				p.read()
				p.send(accepted("s1", "r1"), calling("c1"), ended("r1", "completed", ""), waiting("s1", "r1", "c1"))
				p.gone()
				gone <- n
			})
			a := adapter(t, url, socket, change)
			for _, session := range []string{"s1", "s2"} {
				req := ask()
				req.SessionID = session
				k := start(t, a, req)
				k.hears("text Hello")
				receive(t, k.steer("in-1"))
				if got := say(k.ends()); got != "completion tool_calls" {
					t.Fatalf("outcome %s; want tool_calls", got)
				}
			}
			if name == "closed" {
				a.Close()
			}
			if first := receive(t, gone); first != 1 && name == "room for one" {
				t.Errorf("connection %d ended first; want the oldest", first)
			}
			if name != "room for one" {
				receive(t, gone)
			}
		})
	}
}
