package nats

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/loop"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// ground is a server, the executor under test and the connection of a process
// that serves tools.
type ground struct {
	t      *testing.T
	server *natsembed.Server
	dir    string
	caller *natsgo.Conn
	worker *natsgo.Conn
	tools  *Tools
}

func newGround(t *testing.T, cfg Config) *ground {
	t.Helper()
	g := &ground{t: t, dir: t.TempDir()}
	g.start(0)
	t.Cleanup(func() { g.server.Shutdown() })
	g.caller, g.worker = g.connect(), g.connect()
	tools, err := New(g.caller, cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.tools = tools
	return g
}

func (g *ground) start(port int) {
	g.t.Helper()
	s, err := natsembed.Start(natsembed.Config{Dir: g.dir, Port: port})
	if err != nil {
		g.t.Fatal(err)
	}
	g.server = s
}

func (g *ground) connect() *natsgo.Conn {
	g.t.Helper()
	nc, err := natsgo.Connect(g.server.ClientURL(), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(5*time.Millisecond), natsgo.ReconnectJitter(0, 0))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

func (g *ground) serve(subject string, handle func(*natsgo.Msg)) {
	g.t.Helper()
	if _, err := g.worker.Subscribe(subject, handle); err != nil {
		g.t.Fatal(err)
	}
	if err := g.worker.Flush(); err != nil {
		g.t.Fatal(err)
	}
}

// restart lets the connections of caller and worker break and come back.
func (g *ground) restart() {
	g.t.Helper()
	up := []chan natsgo.Status{g.caller.StatusChanged(natsgo.CONNECTED), g.worker.StatusChanged(natsgo.CONNECTED)}
	port := g.server.Port()
	g.server.Shutdown()
	g.start(port)
	for _, ch := range up {
		await(g.t, ch, "a reconnect")
	}
}

func await[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}

func respond(t *testing.T, m *natsgo.Msg, text string) {
	if err := m.Respond([]byte(text)); err != nil {
		t.Error(err)
	}
}

var call = loop.ToolRequest{
	SessionID: "s1", InvocationID: "v1", ToolCallID: "c1", Tool: "lookup",
	Arguments: `{ "city" : "Turin", "n": 12345678901234567890, "x": 1.0e2, "u": "\u0041<&>" }`,
}

func TestTheRequest(t *testing.T) {
	g := newGround(t, Config{Prefix: "a.b"})
	got := make(chan *natsgo.Msg, 1)
	g.serve("a.b.tool.lookup", func(m *natsgo.Msg) { got <- m; respond(t, m, `{"result":"ok"}`) })
	if out := g.tools.Call(t.Context(), call); out != (loop.ToolOutcome{Result: "ok"}) {
		t.Fatalf("%+v", out)
	}
	m := await(t, got, "the request")
	want := `{"version":1,"session_id":"s1","invocation_id":"v1","tool_call_id":"c1","tool":"lookup","arguments":` + call.Arguments + `}`
	if string(m.Data) != want {
		t.Errorf("request\n%s, want\n%s", m.Data, want)
	}
	if m.Header.Get(HeaderInvocation) != "v1" {
		t.Errorf("headers %v", m.Header)
	}
}

func TestReplies(t *testing.T) {
	g := newGround(t, Config{MaxResult: 100})
	reply := make(chan *natsgo.Msg, 1)
	g.serve("loop.tool.lookup", func(m *natsgo.Msg) {
		r := <-reply
		if err := m.RespondMsg(r); err != nil {
			t.Error(err)
		}
	})
	long := strings.Repeat("x", 101)
	for _, c := range []struct {
		name, data string
		header     natsgo.Header
		result     string // a part of it, if it is a failure
		failed     bool
	}{
		{name: "a result", data: `{"result":"a\nb"}`, result: "a\nb"},
		{name: "with a version", data: `{"version":1,"result":"a"}`, result: "a"},
		{name: "an empty result", data: `{"result":""}`},
		{name: "a structured result", data: `{"result":{"b":1.0,"a":12345678901234567890}}`, result: `{"b":1.0,"a":12345678901234567890}`},
		{name: "an error", data: `{"error":"no such city"}`, result: "no such city", failed: true},
		{name: "a structured error", data: `{"error":{"code":7}}`, result: `{"code":7}`, failed: true},
		{name: "plain text", data: `warm, {"result":1}`, result: `warm, {"result":1}`},
		{name: "nothing", data: "", result: ""},
		{name: "JSON that is no reply", data: `{"result":1,"also":2}`, result: `{"result":1,"also":2}`},
		{name: "both", data: `{"result":1,"error":2}`, result: `{"result":1,"error":2}`},
		{name: "a repeated name", data: `{"error":"a","error":"b"}`, result: "repeats a name", failed: true},
		{name: "no text", data: "\xff\xfe", result: "not UTF-8", failed: true},
		{name: "the largest", data: long[:100], result: long[:100]},
		{name: "too large", data: long, result: "it has 101 bytes, at most 100", failed: true},
		{name: "too large an error", data: `{"error":"` + long + `"}`, result: "lookup ran, and what it did stands", failed: true},
		{name: "a service's error", data: "more", header: natsgo.Header{"Nats-Service-Error": {"down"}}, result: "down: more", failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply <- &natsgo.Msg{Data: []byte(c.data), Header: c.header}
			out := g.tools.Call(t.Context(), call)
			if out.Lost || out.Failed != c.failed || out.Result != c.result && (!c.failed || !strings.Contains(out.Result, c.result)) {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestCallsThatReachNobody(t *testing.T) {
	g := newGround(t, Config{MaxRequest: 200})
	with := func(change func(*loop.ToolRequest)) loop.ToolRequest {
		r := call
		change(&r)
		return r
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := g.connect()
	closed.Close()
	gone, err := New(closed, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		ctx   context.Context
		tools *Tools
		req   loop.ToolRequest
		text  string
	}{
		{"no process", t.Context(), g.tools, call, "no process serves it; start one that subscribes to loop.tool.lookup"},
		{"another name", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Tool = "a.b" }), "loop.tool.~YS5i"},
		{"no name", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Tool = "" }), "must have 1 to 512"},
		{"no object", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Arguments = `[]` }), "not one JSON object"},
		{"half an object", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Arguments = `{"a":` }), "not one JSON object"},
		{"a repeated name", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Arguments = `{"a":1,"a":2}` }), "not one JSON object"},
		{"too large", t.Context(), g.tools, with(func(r *loop.ToolRequest) { r.Arguments = `{"a":"` + strings.Repeat("x", 200) + `"}` }), "at most 200"},
		{"ended before", ended, g.tools, call, "context canceled"},
		{"closed", t.Context(), gone, call, "no connection to NATS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := c.tools.Call(c.ctx, c.req)
			if !out.Failed || out.Lost || !strings.Contains(out.Result, c.text) || !strings.Contains(out.Result, "was not run") {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	g := newGround(t, Config{})
	ran := make(chan string, 10)
	g.serve("loop.tool.lookup", func(m *natsgo.Msg) { ran <- m.Header.Get(HeaderInvocation); respond(t, m, "x") })
	down := g.caller.StatusChanged(natsgo.RECONNECTING)
	up := []chan natsgo.Status{g.caller.StatusChanged(natsgo.CONNECTED), g.worker.StatusChanged(natsgo.CONNECTED)}
	port := g.server.Port()
	g.server.Shutdown()
	await(t, down, "the break")
	if out := g.tools.Call(t.Context(), call); !out.Failed || !strings.Contains(out.Result, "no connection") {
		t.Errorf("%+v", out)
	}
	g.start(port)
	for _, ch := range up {
		await(t, ch, "a reconnect")
	}
	if err := g.worker.FlushTimeout(20 * time.Second); err != nil {
		t.Fatal(err) // it serves again
	}
	second := call
	second.InvocationID = "v2"
	if out := g.tools.Call(t.Context(), second); out.Result != "x" {
		t.Errorf("%+v", out)
	}
	if first := await(t, ran, "a run"); first != "v2" {
		t.Errorf("the call that failed ran later: %s", first)
	}
}

func TestSignsOfLifeAreNoReply(t *testing.T) {
	g := newGround(t, Config{})
	g.serve("loop.tool.lookup", func(m *natsgo.Msg) {
		for range 1000 {
			if err := m.RespondMsg(&natsgo.Msg{Header: natsgo.Header{HeaderPending: {"true"}}, Data: []byte("half way")}); err != nil {
				t.Error(err)
			}
		}
		respond(t, m, "done")
	})
	if out := g.tools.Call(t.Context(), call); out != (loop.ToolOutcome{Result: "done"}) {
		t.Errorf("%+v", out)
	}
}

// TestAReplyThatWasLost: the look-up after a silence finds what the reply said.
func TestAReplyThatWasLost(t *testing.T) {
	for _, c := range []struct {
		name string
		saw  []string // answers to look-ups, in order
		want loop.ToolOutcome
	}{
		{"complete", []string{`{"observed":"pending"}`, `{"observed":"complete","result":"kept"}`}, loop.ToolOutcome{Result: "kept"}},
		{"its error", []string{`{"observed":"complete","error":"no"}`}, loop.ToolOutcome{Result: "no", Failed: true}},
		{"missing", []string{`nonsense`, `{"observed":"pending"}`, `{"observed":"missing"}`}, loop.ToolOutcome{Lost: true}},
		{"expired", []string{`{"observed":"unsupported"}`, `{"observed":"expired"}`}, loop.ToolOutcome{Lost: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t, Config{Silence: 5 * time.Millisecond})
			var mu sync.Mutex
			runs, looks := 0, 0
			g.serve("loop.tool.lookup", func(*natsgo.Msg) { mu.Lock(); runs++; mu.Unlock() })
			g.serve("loop.tool.lookup.inspect", func(m *natsgo.Msg) {
				mu.Lock()
				defer mu.Unlock()
				respond(t, m, c.saw[min(looks, len(c.saw)-1)])
				looks++
			})
			if out := g.tools.Call(t.Context(), call); out != c.want {
				t.Errorf("%+v", out)
			}
			mu.Lock()
			defer mu.Unlock()
			if runs != 1 || looks != len(c.saw) {
				t.Errorf("%d runs, %d look-ups", runs, looks)
			}
		})
	}
}

var errReason = errors.New("the job was asked to end")

func TestCancelling(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		asked bool
	}{
		{"for a reason", errReason, true},
		{"the owner goes away", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGround(t, Config{})
			started, cancelled := make(chan struct{}, 1), make(chan string, 1)
			g.serve("loop.tool.lookup", func(*natsgo.Msg) { started <- struct{}{} })
			g.serve("loop.tool.lookup.cancel", func(m *natsgo.Msg) { cancelled <- string(m.Data) })
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan loop.ToolOutcome, 1)
			go func() { done <- g.tools.Call(ctx, call) }()
			await(t, started, "the call")
			cancel(c.cause)
			if out := await(t, done, "the outcome"); out != (loop.ToolOutcome{Lost: true}) {
				t.Errorf("%+v", out)
			}
			if !c.asked {
				// What the caller sends next comes after a cancellation.
				if err := g.caller.Publish("loop.tool.lookup.cancel", []byte("none")); err != nil {
					t.Fatal(err)
				}
			}
			got := await(t, cancelled, "the cancellation")
			if c.asked != (got == `{"version":1,"session_id":"s1","invocation_id":"v1"}`) {
				t.Errorf("the tool saw %s", got)
			}
		})
	}
}

func TestMaxWait(t *testing.T) {
	g := newGround(t, Config{MaxWait: 20 * time.Millisecond})
	cancelled := make(chan struct{}, 1)
	g.serve("loop.tool.lookup", func(*natsgo.Msg) {})
	g.serve("loop.tool.lookup.cancel", func(*natsgo.Msg) { cancelled <- struct{}{} })
	if out := g.tools.Call(t.Context(), call); out != (loop.ToolOutcome{Lost: true}) {
		t.Errorf("%+v", out)
	}
	await(t, cancelled, "the cancellation")
}

func TestABrokenConnection(t *testing.T) {
	for _, c := range []struct {
		name    string
		inspect string // "" = not served
		reply   bool   // the tool replies after the reconnect
		want    loop.ToolOutcome
	}{
		{"nobody knows", "", false, loop.ToolOutcome{Lost: true}},
		{"complete", `{"observed":"complete","result":"kept"}`, false, loop.ToolOutcome{Result: "kept"}},
		{"still at work", `{"observed":"pending"}`, true, loop.ToolOutcome{Result: "late"}},
		{"an answer that is none", `{}`, false, loop.ToolOutcome{Lost: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{}
			if c.want.Lost {
				cfg.LookupWait = 300 * time.Millisecond // it is waited for
			}
			g := newGround(t, cfg)
			started, looked := make(chan *natsgo.Msg, 1), make(chan struct{}, 10)
			g.serve("loop.tool.lookup", func(m *natsgo.Msg) { started <- m })
			if c.inspect != "" {
				g.serve("loop.tool.lookup.inspect", func(m *natsgo.Msg) { respond(t, m, c.inspect); looked <- struct{}{} })
			}
			done := make(chan loop.ToolOutcome, 1)
			go func() { done <- g.tools.Call(t.Context(), call) }()
			m := await(t, started, "the call")
			g.restart()
			if c.reply {
				await(t, looked, "a look-up")
				respond(t, m, "late")
			}
			if out := await(t, done, "the outcome"); out != c.want {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestAfterAPendingTheReplyIsWaitedFor: once the tool was heard of after a
// reconnect, look-ups that find nobody end nothing.
func TestAfterAPendingTheReplyIsWaitedFor(t *testing.T) {
	g := newGround(t, Config{Silence: 10 * time.Millisecond, LookupWait: 500 * time.Millisecond})
	started, looked := make(chan *natsgo.Msg, 1), make(chan struct{})
	g.serve("loop.tool.lookup", func(m *natsgo.Msg) { started <- m })
	var mu sync.Mutex
	back, looks := false, 0
	g.serve("loop.tool.lookup.inspect", func(m *natsgo.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if !back {
			respond(t, m, `{"observed":"unsupported"}`)
			return
		}
		if looks++; looks == 1 {
			respond(t, m, `{"observed":"pending"}`)
			return
		}
		respond(t, m, `{"observed":"unsupported"}`)
		if looks == 70 {
			close(looked)
		}
	})
	done := make(chan loop.ToolOutcome, 1)
	go func() { done <- g.tools.Call(t.Context(), call) }()
	m := await(t, started, "the call")
	mu.Lock()
	back = true
	mu.Unlock()
	g.restart()
	await(t, looked, "look-ups")
	respond(t, m, "late")
	if out := await(t, done, "the outcome"); out != (loop.ToolOutcome{Result: "late"}) {
		t.Errorf("%+v", out)
	}
}

func TestAClosedConnection(t *testing.T) {
	g := newGround(t, Config{})
	started := make(chan struct{}, 1)
	g.serve("loop.tool.lookup", func(*natsgo.Msg) { started <- struct{}{} })
	done := make(chan loop.ToolOutcome, 1)
	go func() { done <- g.tools.Call(t.Context(), call) }()
	await(t, started, "the call")
	g.caller.Close()
	if out := await(t, done, "the outcome"); out != (loop.ToolOutcome{Lost: true}) {
		t.Errorf("%+v", out)
	}
}

// TestAStreamInTheWay: the receipt of a stream that captures the subject is
// not taken for the reply.
func TestAStreamInTheWay(t *testing.T) {
	g := newGround(t, Config{})
	js, err := g.worker.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&natsgo.StreamConfig{Name: "WIDE", Subjects: []string{"loop.tool.*"}}); err != nil {
		t.Fatal(err)
	}
	g.serve("loop.tool.lookup", func(m *natsgo.Msg) {
		for {
			info, err := js.StreamInfo("WIDE")
			if err != nil {
				t.Error(err)
				return
			}
			if info.State.Msgs > 0 {
				break // its receipt was sent before
			}
		}
		respond(t, m, "real")
	})
	if out := g.tools.Call(t.Context(), call); out.Result != "real" || out.Failed {
		t.Errorf("%+v", out)
	}
}

func TestInspect(t *testing.T) {
	g := newGround(t, Config{LookupWait: 100 * time.Millisecond})
	if got := g.tools.Inspect(t.Context(), call); got.Observed != event.ObservedUnsupported {
		t.Errorf("with nobody to ask: %+v", got)
	}
	answer, asked := make(chan string, 1), make(chan *natsgo.Msg, 1)
	g.serve("loop.tool.lookup.inspect", func(m *natsgo.Msg) {
		asked <- m
		if a := <-answer; a != "silence" {
			respond(t, m, a)
		}
	})
	for _, c := range []struct {
		answer   string
		observed event.Observed
		outcome  loop.ToolOutcome
	}{
		{`{"version":1,"observed":"complete","result":"x"}`, event.ObservedComplete, loop.ToolOutcome{Result: "x"}},
		{`{"observed":"complete","error":"no"}`, event.ObservedComplete, loop.ToolOutcome{Result: "no", Failed: true}},
		{`{"observed":"pending"}`, event.ObservedPending, loop.ToolOutcome{}},
		{`{"observed":"missing","more":1}`, event.ObservedMissing, loop.ToolOutcome{}},
		{`{"observed":"complete"}`, event.ObservedError, loop.ToolOutcome{}},
		{`{"observed":"complete","result":1,"error":2}`, event.ObservedError, loop.ToolOutcome{}},
		{`{"Observed":"complete","result":1}`, event.ObservedError, loop.ToolOutcome{}},
		{`{"observed":"maybe"}`, event.ObservedError, loop.ToolOutcome{}},
		{`complete`, event.ObservedError, loop.ToolOutcome{}},
		{`silence`, event.ObservedError, loop.ToolOutcome{}},
	} {
		answer <- c.answer
		got := g.tools.Inspect(t.Context(), call)
		if got.Observed != c.observed || got.Outcome != c.outcome {
			t.Errorf("%s: %+v", c.answer, got)
		}
		m := await(t, asked, "the look-up")
		if string(m.Data) != `{"version":1,"session_id":"s1","invocation_id":"v1"}` || m.Header.Get(HeaderInvocation) != "v1" {
			t.Errorf("asked with %s, %v", m.Data, m.Header)
		}
	}
}

func TestSubjectsSpellNamesAsTheLogDoes(t *testing.T) {
	for _, name := range []string{"lookup", "a.b", "*", ">", "~x", "Größe", "a b", strings.Repeat("x", 129)} {
		token, err := eventlog.Token(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Subject("loop", name); err != nil || got != "loop.tool."+token {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	g := newGround(t, Config{})
	for _, c := range []Config{
		{MaxWait: -1}, {Silence: -1}, {LookupWait: -1}, {MaxRequest: -1}, {MaxResult: -1}, {Prefix: "a b"}, {Prefix: "a..b"}, {Prefix: "a.*"},
	} {
		if _, err := New(g.caller, c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no connection is accepted")
	}
}
