package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopd/loopd/loop"
)

// legacy is a version of the protocol with sessions.
const legacy = "2025-11-25"

// web is the executor under test over an HTTP server that can be made to
// misbehave.
type web struct {
	*Tools
	t   *testing.T
	url string

	mu      sync.Mutex
	handler http.Handler
	servers []*sdk.Server
	wrap    func(w http.ResponseWriter, r *http.Request, next http.Handler) // nil = nothing
	notes   []string
	came    chan string
}

func overHTTP(t *testing.T, change func(*Config)) *web {
	t.Helper()
	h := &web{t: t, came: make(chan string, 1000)}
	h.renew()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		for _, s := range h.servers {
			for session := range s.Sessions() {
				_ = session.Close()
			}
		}
		server.Close()
	})
	h.url = server.URL
	cfg := Config{Name: "test", URL: server.URL}
	if change != nil {
		change(&cfg)
	}
	tools, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Tools = tools
	t.Cleanup(tools.Close)
	return h
}

// renew lets the server forget all its sessions.
func (h *web) renew() {
	s := newServer(func(call string) {
		h.mu.Lock()
		h.notes = append(h.notes, call)
		h.mu.Unlock()
		h.came <- call
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = append(h.servers, s)
	h.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

func (h *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	next, wrap := h.handler, h.wrap
	h.mu.Unlock()
	if wrap != nil {
		wrap(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// onCalls misbehaves on calls of tools alone.
func (h *web) onCalls(do func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		if r.Method == http.MethodPost && bytes.Contains(b, []byte(`"tools/call"`)) {
			do(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func (h *web) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notes)
}

func TestACallOverHTTP(t *testing.T) {
	for _, version := range []string{"", legacy} {
		t.Run("version "+version, func(t *testing.T) {
			h := overHTTP(t, func(c *Config) { c.Headers, c.Protocol = map[string]string{"Authorization": "Bearer x"}, version })
			var bare sync.Map
			h.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Header.Get("Authorization") != "Bearer x" {
					bare.Store(r.Method, true)
				}
				next.ServeHTTP(w, r)
			}
			req := ask("echo")
			req.Arguments = `{ "n": 12345678901234567890, "u": "\u0041<&> é" }`
			want := loop.ToolOutcome{Result: `{"n":12345678901234567890,"u":"\u0041<&> é"}` + "\nv1"}
			for range 2 {
				if out := h.Call(t.Context(), req); out != want {
					t.Errorf("%+v", out)
				}
			}
			if out := h.Call(t.Context(), ask("refuse")); out != (loop.ToolOutcome{Result: "no such city", Failed: true}) {
				t.Errorf("%+v", out)
			}
			if out := h.Call(t.Context(), ask("crash")); !out.Failed || !strings.Contains(out.Result, "out of paper") {
				t.Errorf("%+v", out)
			}
			if specs, err := h.Specs(t.Context()); err != nil || len(specs) != 12 {
				t.Errorf("%d tools, %v", len(specs), err)
			}
			h.Close()
			bare.Range(func(method, _ any) bool { t.Errorf("a %v without the header", method); return true })
		})
	}
}

// TestHTTPEndings: what each ending means, and that nothing is run twice.
func TestHTTPEndings(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
	}
	abort := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	after := func(do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			do(w, r, next)
		}
	}
	body := func(media, text string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, c := range []struct {
		name string
		do   func(http.ResponseWriter, *http.Request, http.Handler)
		text string // "" = lost
		runs int
	}{
		{"unauthorised", status(401), "HTTP 401 Unauthorized", 0},
		{"forbidden", status(403), "HTTP 403", 0},
		{"not found", status(404), "HTTP 404", 0},
		{"too many", status(429), "HTTP 429", 0},
		{"a reason beside the status", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"bad moon"}}`)
		}, "HTTP 400 Bad Request: bad moon", 0},
		{"a redirect", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "it redirects (HTTP 307)", 0},
		{"the server failed", after(status(500)), "", 1},
		{"the gateway gave up", after(status(504)), "", 1},
		{"an error beside a 500", after(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"bad moon"}}`)
		}), "", 1},
		{"an unknown status", after(status(418)), "", 1},
		{"the connection broke", after(abort), "", 1},
		{"a web page", after(body("text/html", "<p>hello")), "", 1},
		{"no JSON", after(body("application/json", "{")), "", 1},
		{"an end without an answer", after(body("text/event-stream", ": nothing\n\n")), "", 1},
	} {
		for _, version := range []string{"", legacy} {
			t.Run(c.name+version, func(t *testing.T) {
				h := overHTTP(t, func(c *Config) { c.Protocol = version })
				if out := h.Call(t.Context(), ask("echo")); out.Failed || out.Lost { // it is connected
					t.Fatalf("%+v", out)
				}
				h.onCalls(c.do)
				out := h.Call(t.Context(), ask("refuse"))
				switch {
				case c.text == "" && out != isLost,
					c.text != "" && (!out.Failed || out.Lost || !strings.Contains(out.Result, c.text) || !strings.Contains(out.Result, "was not run")):
					// A session that is not known is tried anew, once.
					if c.name != "not found" || !strings.Contains(out.Result, "no longer knows our session") {
						t.Errorf("%+v", out)
					}
				}
				h.onCalls(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
				if out := h.Call(t.Context(), ask("read-only")); out.Result != "ok" {
					t.Errorf("the next call: %+v", out)
				}
				want := append([]string{"echo"}, slices.Repeat([]string{"refuse"}, c.runs)...)
				if seen := h.seen(); !slices.Equal(seen, append(want, "read-only")) {
					t.Errorf("ran %v", seen)
				}
			})
		}
	}
}

// TestAForgottenSession: the server began anew between two calls.
func TestAForgottenSession(t *testing.T) {
	h := overHTTP(t, func(c *Config) { c.Protocol = legacy })
	for range 3 {
		if out := h.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
			t.Errorf("%+v", out)
		}
		h.renew()
	}
	if _, err := h.Specs(t.Context()); err != nil {
		t.Error(err)
	}
	if seen := h.seen(); !slices.Equal(seen, []string{"echo", "echo", "echo"}) {
		t.Errorf("ran %v", seen)
	}
}

// TestARefusedSession: a server that spells "unknown session" in its own way
// gets a new one from the next call.
func TestARefusedSession(t *testing.T) {
	h := overHTTP(t, func(c *Config) { c.Protocol = legacy })
	first := ""
	h.onCalls(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		id := r.Header.Get("Mcp-Session-Id")
		if first == "" {
			first = id
		}
		if id != first {
			next.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no valid session"}}`)
	})
	if out := h.Call(t.Context(), ask("echo")); !out.Failed || !strings.Contains(out.Result, "no valid session") {
		t.Errorf("%+v", out)
	}
	if out := h.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
		t.Errorf("%+v", out)
	}
}

func TestNobodyListens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL + "/?token=secret"
	server.Close()
	tools, err := New(Config{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	out := tools.Call(t.Context(), ask("echo"))
	if !out.Failed || out.Lost || !strings.Contains(out.Result, "was not run") || !strings.Contains(out.Result, "refused") {
		t.Errorf("%+v", out)
	}
	if strings.Contains(out.Result, "secret") {
		t.Errorf("the address is told: %s", out.Result)
	}
}

// TestTheServerGoesAway between two calls, and comes back.
func TestTheServerGoesAway(t *testing.T) {
	h := overHTTP(t, nil)
	if out := h.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
		t.Fatalf("%+v", out)
	}
	h.mu.Lock()
	h.wrap = func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	h.mu.Unlock()
	if out := h.Call(t.Context(), ask("echo")); out != isLost {
		t.Errorf("%+v", out)
	}
	h.mu.Lock()
	h.wrap = nil
	h.mu.Unlock()
	if out := h.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
		t.Errorf("%+v", out)
	}
}

func TestACancelledCallOverHTTP(t *testing.T) {
	for _, version := range []string{"", legacy} {
		h := overHTTP(t, func(c *Config) { c.Protocol = version })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan loop.ToolOutcome, 1)
		go func() { done <- h.Call(ctx, ask("hang")) }()
		await(t, h.came, "the call")
		cancel()
		if out := await(t, done, "the outcome"); out != isLost {
			t.Errorf("%+v", out)
		}
		if note := await(t, h.came, "the cancellation"); note != "hang was cancelled" {
			t.Error(note)
		}
		// Close ends what still runs.
		go func() { done <- h.Call(t.Context(), ask("hang")) }()
		await(t, h.came, "the call")
		h.Close()
		if out := await(t, done, "the outcome"); out != isLost {
			t.Errorf("%+v", out)
		}
		if note := await(t, h.came, "the cancellation"); note != "hang was cancelled" {
			t.Error(note)
		}
	}
}

func TestAnAnswerThatIsTooLarge(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			h := overHTTP(t, func(c *Config) { c.MaxMessage, c.MaxResult = 100_000, 1<<20 })
			h.onCalls(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				var id int
				b, _ := io.ReadAll(r.Body)
				_, rest, _ := bytes.Cut(b, []byte(`"id":`))
				_, _ = fmt.Sscanf(string(rest), "%d", &id)
				answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("x", 200_000))
				w.Header().Set("Content-Type", media)
				if media == "text/event-stream" {
					answer = "data: " + answer + "\n\n"
				}
				_, _ = io.WriteString(w, answer)
			})
			if out := h.Call(t.Context(), ask("huge")); out != isLost {
				t.Errorf("lost %v, failed %v, %.100s", out.Lost, out.Failed, out.Result)
			}
		})
	}
	h := overHTTP(t, func(c *Config) { c.MaxResult = 1 << 20 })
	if out := h.Call(t.Context(), ask("huge")); len(out.Result) != 200_000 || out.Failed {
		t.Errorf("failed %v, %d bytes", out.Failed, len(out.Result))
	}
}

// TestAnAnswerThatBreaksOff: the SDK asks for the rest, read-only.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	h := overHTTP(t, nil)
	h.onCalls(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
	})
	if out := h.Call(t.Context(), ask("echo")); out != isLost {
		t.Errorf("%+v", out)
	}
	if seen := h.seen(); !slices.Equal(seen, []string{"echo"}) {
		t.Errorf("ran %v", seen)
	}
}

// TestAListWithoutAnEnd: pages that lead back, and a tool that comes twice.
func TestAListWithoutAnEnd(t *testing.T) {
	for text, page := range map[string]*sdk.ListToolsResult{
		"do not end":   {NextCursor: "again"},
		"listed twice": {NextCursor: "again", Tools: []*sdk.Tool{object("echo")}},
	} {
		h := overHTTP(t, nil)
		h.servers[0].AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "tools/list" {
					return page, nil
				}
				return next(ctx, method, req)
			}
		})
		if _, err := h.Specs(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
		if out := h.Call(t.Context(), ask("echo")); out.Result != "{}\nv1" {
			t.Errorf("a server that cannot list: %+v", out)
		}
	}
}
