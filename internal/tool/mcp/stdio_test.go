package mcp

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// ground is the executor under test over a server process, and the file where
// the server notes its calls.
type ground struct {
	*Tools
	t       *testing.T
	effects string
	log     *memory
}

func stdio(t *testing.T, role string, change func(*Config)) *ground {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t, effects: filepath.Join(t.TempDir(), "effects"), log: &memory{}}
	cfg := Config{
		Name: "test", Command: self, Env: []string{roleVar + "=" + role, effectsVar + "=" + g.effects}, Grace: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	if g.Tools, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// seen are the calls that the server noted.
func (g *ground) seen() []string {
	g.t.Helper()
	b, err := os.ReadFile(g.effects)
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(b), " ", "_"))
}

// until waits for a call that the server notes.
func (g *ground) until(call string) {
	g.t.Helper()
	tick, deadline := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !slices.Contains(g.seen(), call) {
		select {
		case <-tick.C:
		case <-deadline:
			g.t.Fatalf("waited too long for %s; saw %v", call, g.seen())
		}
	}
}

// untilNobodyListens waits for the end of the process that holds an address.
func (g *ground) untilNobodyListens(address string) {
	g.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		if time.Now().After(deadline) {
			g.t.Fatal("the child of a server that died goes on")
		}
	}
}

// memory keeps what was logged.
type memory struct {
	mu   sync.Mutex
	text strings.Builder
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(b)
}

func (m *memory) has(part string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(m.text.String(), part)
}

func ask(tool string) loop.ToolRequest {
	return loop.ToolRequest{SessionID: "s1", InvocationID: "v1", ToolCallID: "c1", Tool: tool, Arguments: `{}`}
}

var isLost = loop.ToolOutcome{Lost: true}

func await[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}

func TestACall(t *testing.T) {
	g := stdio(t, "plain", nil)
	req := ask("echo")
	req.Arguments = `{ "n": 12345678901234567890, "x": 1.0e2, "u": "\u0041<&> é", "z":1,"a":2 }`
	want := `{"n":12345678901234567890,"x":1.0e2,"u":"\u0041<&> é","z":1,"a":2}` + "\nv1"
	for range 2 {
		if out := g.Call(t.Context(), req); out.Result != want || out.Failed || out.Lost {
			t.Errorf("%+v", out)
		}
	}
	if got := g.Inspect(t.Context(), req); got.Observed != event.ObservedUnsupported {
		t.Errorf("%+v", got)
	}
	if !g.log.has("serving as plain") {
		t.Error("what the process wrote to its standard error is not in the log")
	}
}

func TestOutcomes(t *testing.T) {
	g := stdio(t, "plain", func(c *Config) { c.MaxResult, c.MaxArguments = 1000, 100 })
	with := func(tool, arguments string) loop.ToolRequest {
		r := ask(tool)
		r.Arguments = arguments
		return r
	}
	for _, c := range []struct {
		name string
		req  loop.ToolRequest
		text string
		runs int
	}{
		{"isError", ask("refuse"), "no such city", 1},
		{"a protocol error", ask("crash"), "out of paper", 1},
		{"an unknown tool", ask("unheard-of"), `unknown tool "unheard-of"`, 0},
		{"too long", ask("long"), "ran, and what it did stands, but its result cannot be used: it has 2000 bytes, at most 1000", 1},
		{"asks back", ask("ask"), "asks for more input", 1},
		{"no object", with("echo", `[]`), "was not run by the MCP server test: its arguments are not one JSON object", 0},
		{"half an object", with("echo", `{"a":`), "not one JSON object", 0},
		{"too large", with("echo", `{"a":"`+strings.Repeat("x", 100)+`"}`), "at most 100", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(g.seen())
			if out := g.Call(t.Context(), c.req); !out.Failed || out.Lost || !strings.Contains(out.Result, c.text) {
				t.Errorf("%+v", out)
			}
			if n := len(g.seen()) - before; n != c.runs {
				t.Errorf("ran %d times", n)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if out := g.Call(ended, ask("echo")); !out.Failed || out.Lost || !strings.Contains(out.Result, "not run") {
		t.Errorf("ended before it began: %+v", out)
	}
}

// TestTheServerDies: the call that killed it is lost, and run once; the next
// one finds a new process.
func TestTheServerDies(t *testing.T) {
	for _, tool := range []string{"die", "die-with-child"} {
		t.Run(tool, func(t *testing.T) {
			g := stdio(t, "plain", func(c *Config) { c.Grace = 200 * time.Millisecond })
			hung := make(chan loop.ToolOutcome, 1)
			go func() { hung <- g.Call(t.Context(), ask("hang")) }()
			g.until("hang")
			if out := g.Call(t.Context(), ask(tool)); out != isLost {
				t.Errorf("%+v", out)
			}
			if out := await(t, hung, "the other call"); out != isLost {
				t.Errorf("the other call: %+v", out)
			}
			if out := g.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
				t.Errorf("the next call: %+v", out)
			}
			seen := g.seen()
			if i := slices.IndexFunc(seen, func(s string) bool { return strings.HasPrefix(s, "child@") }); i >= 0 {
				g.untilNobodyListens(strings.TrimPrefix(seen[i], "child@"))
				seen = slices.Delete(seen, i, i+1)
			}
			if !slices.Equal(seen, []string{"hang", tool, "echo"}) {
				t.Errorf("ran %v", seen)
			}
		})
	}
}

func TestACallIsCancelled(t *testing.T) {
	g := stdio(t, "plain", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan loop.ToolOutcome, 1)
	go func() { done <- g.Call(ctx, ask("hang")) }()
	g.until("hang")
	cancel()
	if out := await(t, done, "the outcome"); out != isLost {
		t.Errorf("%+v", out)
	}
	g.until("hang_was_cancelled")
	if out := g.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
		t.Errorf("the next call: %+v", out)
	}
}

func TestMaxWait(t *testing.T) {
	g := stdio(t, "plain", func(c *Config) { c.MaxWait = 500 * time.Millisecond })
	if out := g.Call(t.Context(), ask("echo")); out.Failed || out.Lost { // it is connected
		t.Fatalf("%+v", out)
	}
	if out := g.Call(t.Context(), ask("hang")); out != isLost {
		t.Errorf("%+v", out)
	}
}

// TestADeafServer: a process that does not read any more holds nobody up; the
// call that left in part is lost, and the process with it.
func TestADeafServer(t *testing.T) {
	g := stdio(t, "plain", func(c *Config) { c.Grace = 200 * time.Millisecond })
	hung := make(chan loop.ToolOutcome, 1)
	go func() { hung <- g.Call(t.Context(), ask("hang")) }()
	g.until("hang")
	if out := g.Call(t.Context(), ask("deafen")); out.Failed || out.Lost {
		t.Fatalf("%+v", out)
	}
	large := ask("echo")
	large.Arguments = `{"a":"` + strings.Repeat("x", 300_000) + `"}`
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if out := g.Call(ctx, large); out != isLost {
		t.Errorf("a call that left in part: %+v", out)
	}
	if out := await(t, hung, "the other call"); out != isLost {
		t.Errorf("the other call: %+v", out)
	}
	if out := g.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
		t.Errorf("the next call: %.200s", out.Result)
	}
	if seen := g.seen(); !slices.Equal(seen, []string{"hang", "echo"}) {
		t.Errorf("ran %v", seen)
	}
}

// TestWritesEndWithTheirContext, in the pipe to a process that does not read.
func TestWritesEndWithTheirContext(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	p := &process{stdin: w, stdout: r}
	conn, err := p.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := conn.(*pipes).out
	write := func(size int) (*dispatch, context.CancelFunc, chan error) {
		d, done := newDispatch(), make(chan error, 1)
		ctx, cancel := context.WithCancel(d.context(t.Context()))
		go func() {
			done <- conn.Write(ctx, &jsonrpc.Request{Method: "m", Params: []byte(`"` + strings.Repeat("x", size) + `"`)})
		}()
		return d, cancel, done
	}
	first, cancelFirst, firstDone := write(1 << 20)
	for deadline := time.Now().Add(20 * time.Second); out.written.Load() == 0 && len(conn.(*pipes).turn) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("waited too long for a write")
		}
		runtime.Gosched()
	}
	second, cancelSecond, secondDone := write(10)
	cancelSecond()
	if err := await(t, secondDone, "the second write"); err == nil || second.sent.Load() {
		t.Errorf("the second: %v, sent %v", err, second.sent.Load())
	}
	before := out.written.Load()
	cancelFirst()
	err = await(t, firstDone, "the first write")
	if left := out.written.Load() > 0; err == nil || first.sent.Load() != left {
		t.Errorf("the first: %v, sent %v, %d bytes before", err, first.sent.Load(), before)
	}
	if _, _, done := write(10); await(t, done, "the third write") == nil && first.sent.Load() {
		t.Error("something is written behind half a message")
	}
	_ = conn.Close()
}

func TestServersThatDoNotStart(t *testing.T) {
	for _, c := range []struct {
		name, role, text string
		change           func(*Config)
	}{
		{"no such program", "plain", "check its command", func(c *Config) { c.Command = "loopd-no-such-program" }},
		{"no MCP", "broken", "check that it is an MCP server", nil},
		{"no answer", "mute", "check that it is an MCP server", func(c *Config) { c.ConnectTimeout = 200 * time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := stdio(t, c.role, c.change)
			for range 2 {
				if out := g.Call(t.Context(), ask("echo")); !out.Failed || out.Lost || !strings.Contains(out.Result, c.text) {
					t.Errorf("%+v", out)
				}
			}
			if _, err := g.Specs(t.Context()); err == nil || !strings.Contains(err.Error(), "mcp: server test: list tools: no connection") {
				t.Errorf("specs: %v", err)
			}
		})
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	for _, role := range []string{"plain", "stubborn"} {
		t.Run(role, func(t *testing.T) {
			g := stdio(t, role, func(c *Config) {
				if role == "stubborn" {
					c.Grace = 50 * time.Millisecond
				}
			})
			done := make(chan loop.ToolOutcome, 1)
			go func() { done <- g.Call(t.Context(), ask("hang")) }()
			g.until("hang")
			closed := make(chan struct{})
			go func() { g.Close(); close(closed) }()
			if out := await(t, done, "the outcome"); out != isLost {
				t.Errorf("%+v", out)
			}
			await(t, closed, "the end")
			if !g.log.has("process ended") {
				t.Error("Close returned before the process had ended")
			}
			if out := g.Call(t.Context(), ask("echo")); !out.Failed || !strings.Contains(out.Result, "shut down") {
				t.Errorf("after the end: %+v", out)
			}
			if _, err := g.Specs(t.Context()); err == nil {
				t.Error("after the end it lists tools")
			}
			g.Close()
		})
	}
}

func TestTheEnvironmentHoldsNoSecrets(t *testing.T) {
	t.Setenv("LOOPD_TEST_SECRET", "x")
	g := stdio(t, "plain", nil)
	out := g.Call(t.Context(), ask("environment"))
	var names []string
	for s := bufio.NewScanner(strings.NewReader(out.Result)); s.Scan(); {
		name, _, _ := strings.Cut(s.Text(), "=")
		names = append(names, name)
	}
	if !slices.Contains(names, "PATH") || !slices.Contains(names, roleVar) || slices.Contains(names, "LOOPD_TEST_SECRET") {
		t.Errorf("the process sees %v", names)
	}
}

func TestSpecs(t *testing.T) {
	g := stdio(t, "plain", nil)
	specs, err := g.Specs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 13 { // five pages
		t.Errorf("%d tools", len(specs))
	}
	echo := specs["echo"]
	if echo.Description != "does echo" || string(echo.Parameters) != `{"properties":{"a":{"maximum":10},"b":{}},"type":"object"}` {
		t.Errorf("%+v", echo)
	}
	for tool, want := range map[string]string{
		"echo": event.EffectWrite, "read-only": event.EffectRead, "idempotent": event.EffectIdempotent,
	} {
		if got := specs[tool].HintedEffect; got != want {
			t.Errorf("%s is hinted %s", tool, got)
		}
	}
	for _, c := range []struct {
		text   string
		change func(*Config)
	}{
		{"more than 5 tools", func(c *Config) { c.MaxTools = 5 }},
		{"at most 10 are allowed", func(c *Config) { c.MaxSpec = 10 }},
	} {
		if _, err := stdio(t, "plain", c.change).Specs(t.Context()); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v", err)
		}
	}
}

func TestCallsSideBySide(t *testing.T) {
	g := stdio(t, "plain", nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if out := g.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
				t.Errorf("%+v", out)
			}
		})
	}
	wg.Wait()
	if n := len(g.seen()); n != 20 {
		t.Errorf("%d runs", n)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		text string
	}{
		{Config{}, "a command to start or a url"},
		{Config{Command: "x", URL: "http://x"}, "one of them"},
		{Config{URL: "ftp://x"}, "http://"},
		{Config{URL: "http://"}, "http://"},
		{Config{URL: "http://x", Args: []string{"a"}}, "belong to a command"},
		{Config{Command: "x", Headers: map[string]string{"a": "b"}}, "belong to a url"},
		{Config{Command: "x", Env: []string{"abc"}}, "NAME=value"},
		{Config{Command: "x", MaxResult: -1}, "negative"},
		{Config{Command: "x", MaxWait: -1}, "negative"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
