package responses_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/responses"
	"github.com/loopd/loopd/loop"
)

func TestGenerate(t *testing.T) {
	var body []byte
	var header http.Header
	var path string
	url, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header, path = r.Header, r.Method+" "+r.URL.RequestURI()
		w.Header().Set("Content-Type", "text/event-stream")
		write(w, answer)
		write(w, ": late\n\n")
	})
	a := adapter(t, url, func(c *responses.Config) { c.Headers = map[string]string{"X-Title": "t"} })
	j := &journal{}
	outcome := a.Generate(t.Context(), ask(), j)
	c, ok := outcome.(loop.Completion)
	if !ok || c.Finish != event.FinishStop || c.Text != "Hello" || c.FinishReason != "completed" {
		t.Fatalf("outcome %+v; want Hello, stop", outcome)
	}
	if want := answer + ": late\n\n"; string(j.raw) != want {
		t.Errorf("raw %q; want every byte, late ones too", j.raw)
	}
	if c.ResponseDigest != event.Digest(j.raw) || c.ResponseBytes != int64(len(j.raw)) {
		t.Errorf("digest of %d bytes; want that of the %d raw bytes", c.ResponseBytes, len(j.raw))
	}
	if j.log[0] != "raw" || !slices.Equal(j.entries(), []string{"text Hello", "message Hello"}) {
		t.Errorf("order %q; want raw before text", j.log)
	}
	if !bytes.HasPrefix(body, []byte(`{"model":"m","stream":true`)) || path != "POST /v1/responses" {
		t.Errorf("sent %s to %s", body, path)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "Accept-Encoding": "identity", "Accept": "text/event-stream",
		"Content-Type": "application/json", "X-Title": "t",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("header %s %q; want %q", name, got, want)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests; want 1", n)
	}
}

func TestAzureAddress(t *testing.T) {
	var got string
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.RequestURI() + " " + r.Header.Get("Api-Key") + r.Header.Get("Authorization")
		write(w, answer)
	})
	a := adapter(t, url, func(c *responses.Config) {
		c.Profile, c.BaseURL = "azure", url+"/openai/v1?api-version=preview"
	})
	a.Generate(t.Context(), ask(), &journal{})
	if want := "/openai/v1/responses?api-version=preview " + key; got != want {
		t.Errorf("asked %s; want %s", got, want)
	}
}

const apiError = `{"error":{"message":"Incorrect API key ` + key + `","type":"t_error","code":"the_code","param":null}}`

// raw answers with bytes that no HTTP library would send.
func raw(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buf.WriteString(s)
		buf.Flush()
		conn.Close()
	}
}

var answers = []struct {
	name   string
	handle http.HandlerFunc
	want   string
}{
	{"stream", status(200, "text/event-stream", answer), "completion stop"},
	{"JSON", status(200, "application/json", `{"object":"response","id":"r","status":"completed","output":[]}`), "completion stop"},
	{"JSON error in a 200", status(200, "application/json", apiError), "failure ran the_code 200"},
	{"other JSON in a 200", status(200, "application/json", `{}`), "uncertain no_terminal"},
	{"page in a 200", status(200, "text/html", "<html></html>"), "uncertain no_terminal"},
	{"empty 200", status(200, "text/event-stream", ""), "uncertain no_terminal"},
	{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "uncertain no_terminal"},
	{"polite early end", status(200, "text/event-stream", sse(created("r", ""), hello, block)), "uncertain no_terminal"},
	{"polite early end, done marker", status(200, "text/event-stream", sse(created("r", ""), hello, block, "[DONE]")), "uncertain no_terminal"},
	{"400", status(400, "application/json", apiError), "failure rejected the_code 400"},
	{"400, context", status(400, "application/json", `{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}`), "failure rejected context_length_exceeded 400"},
	{"401", status(401, "application/json", apiError), "failure rejected the_code 401"},
	{"403 page", status(403, "text/html", "<html>"+key+"</html>"), "failure rejected http_403 403"},
	{"404", status(404, "text/plain", "404 page not found"), "failure rejected http_404 404"},
	{"413", status(413, "text/plain", ""), "failure rejected http_413 413"},
	{"422", status(422, "application/json", `{"detail":[{"msg":"x"}]}`), "failure rejected http_422 422"},
	{"429", status(429, "application/json", apiError), "failure rejected the_code 429"},
	{"408", status(408, "text/plain", ""), "uncertain timeout"},
	{"409", status(409, "text/plain", ""), "uncertain transport"},
	{"500", status(500, "application/json", apiError), "uncertain transport"},
	{"502 page", status(502, "text/html", "<html>Bad Gateway</html>"), "uncertain transport"},
	{"503", status(503, "text/plain", ""), "uncertain transport"},
	{"504", status(504, "text/plain", ""), "uncertain timeout"},
	{"529", status(529, "application/json", apiError), "uncertain transport"},
	{"redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, "failure rejected redirect 307"},
	{"hang up before the answer", func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, "uncertain transport"},
	{"hang up in the answer", func(w http.ResponseWriter, _ *http.Request) {
		write(w, sse(created("r", ""), hello))
		hangUp(w)
	}, "uncertain transport"},
	{"chunks cut", raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nff\r\ndata: {", len(sse(hello)), sse(hello))), "uncertain transport"},
	{"fewer bytes than announced", raw("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + sse(created("r", ""), hello)), "uncertain transport"},
	{"hang up after the end", raw("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + answer), "completion stop"},
	{"no HTTP", raw("SSH-2.0-x\r\n"), "uncertain transport"},
}

func TestAnswers(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := server(t, c.handle)
			outcome := adapter(t, url).Generate(t.Context(), ask(), &journal{})
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests; want 1", n)
			}
			if s := fmt.Sprintf("%+v", outcome); strings.Contains(s, key) {
				t.Errorf("the outcome tells the key: %s", s)
			}
			if f, ok := outcome.(loop.Failure); ok && f.NextAction == "" {
				t.Error("a failure without a next action")
			}
			if u, ok := outcome.(loop.Uncertain); ok && u.Detail == "" {
				t.Error("an uncertain outcome without detail")
			}
		})
	}
}

// TestRecordedRefusal answers with the error body that a real server gave for
// a history that it would not take.
func TestRecordedRefusal(t *testing.T) {
	body := []byte(`{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","type":"invalid_request_error","param":"input","code":null}}`)
	shared := filepath.Join("..", "..", "..", "..", "shared", "fixtures", "errors", "openai-responses-400-reasoning-without-following-item.json")
	if b, err := os.ReadFile(shared); err == nil {
		body = b
	}
	url, _ := server(t, status(400, "application/json", string(body)))
	j := &journal{}
	if got := say(adapter(t, url).Generate(t.Context(), ask(), j)); got != "failure rejected invalid_request_error 400" {
		t.Errorf("outcome %s; want rejected, invalid_request_error", got)
	}
	if !bytes.Equal(j.raw, body) {
		t.Errorf("saved %q; want the body", j.raw)
	}
}

func TestTimeouts(t *testing.T) {
	const short = 30 * time.Millisecond
	for _, c := range []struct {
		name, body string
		limit      func(*httpwire.Config)
		want       string
	}{
		{"no answer", "", func(c *httpwire.Config) { c.HeaderTimeout = short }, "uncertain timeout"},
		{"silence in the answer", sse(created("r1", "")), func(c *httpwire.Config) { c.IdleTimeout = short }, "uncertain timeout"},
		{"silence after the end", answer, func(c *httpwire.Config) { c.DrainTime = short }, "completion stop"},
		{"silence after an error", sse(`{"type":"error","code":"server_error"}`), func(c *httpwire.Config) { c.DrainTime = short }, "failure ran server_error 200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t, forever(c.body))
			a := adapter(t, url, func(cfg *responses.Config) { c.limit(&cfg.HTTP) })
			outcome := a.Generate(t.Context(), ask(), &journal{})
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	url, requests := server(t, forever(sse(created("r1", ""), hello)))
	a := adapter(t, url, func(c *responses.Config) { c.Store, c.Background = true, true })
	ctx, cancel := context.WithCancel(t.Context())
	if got := say(a.Generate(ctx, ask(), &journal{told: func(string) { cancel() }})); got != "uncertain cancelled" {
		t.Errorf("cancelled in the answer: %s; want uncertain cancelled", got)
	}
	deadline, stopClock := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stopClock()
	if got := say(a.Generate(deadline, ask(), &journal{})); got != "uncertain timeout" {
		t.Errorf("deadline in the answer: %s; want uncertain timeout", got)
	}
	sent := requests.Load()
	if sent != 2 {
		t.Errorf("%d requests; want 2: nobody waits for the rest", sent)
	}
	if got := say(a.Generate(ctx, ask(), &journal{})); got != "failure not_dispatched cancelled 0" || requests.Load() != sent {
		t.Errorf("cancelled before: %s; want not_dispatched", got)
	}
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	for _, transport := range []responses.Transport{responses.TransportHTTP, responses.TransportWebSocket} {
		a := adapter(t, "http://"+address, func(c *responses.Config) { c.Transport = transport })
		f, ok := a.Generate(t.Context(), ask(), &journal{}).(loop.Failure)
		if !ok || f.Dispatch != event.DispatchNotDispatched || f.Code != "connect_failed" || f.NextAction == "" {
			t.Errorf("%s: outcome %+v; want not_dispatched, connect_failed", transport, f)
		}
	}
}

func TestUnknownCertificate(t *testing.T) {
	requests := atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, transport := range []responses.Transport{responses.TransportHTTP, responses.TransportWebSocket} {
		a := adapter(t, s.URL, func(c *responses.Config) { c.Transport = transport })
		f, ok := a.Generate(t.Context(), ask(), &journal{}).(loop.Failure)
		if !ok || f.Dispatch != event.DispatchNotDispatched || f.Code != "tls_failed" || requests.Load() != 0 {
			t.Errorf("%s: outcome %+v after %d requests; want not_dispatched, tls_failed", transport, f, requests.Load())
		}
	}
}

func TestJournalFails(t *testing.T) {
	url, requests := server(t, forever(answer))
	j := &journal{refuse: 1}
	a := adapter(t, url, func(c *responses.Config) { c.Store, c.Background = true, true })
	if got := say(a.Generate(t.Context(), ask(), j)); got != "uncertain transport" || requests.Load() != 1 {
		t.Errorf("%s after %d requests; want uncertain transport, 1", got, requests.Load())
	}
	if slices.Contains(j.log, "text Hello") {
		t.Error("bytes were read that are not saved")
	}
}

func TestNothingIsSentOfAnInvalidHistory(t *testing.T) {
	url, requests := server(t, forever(""))
	req := ask()
	req.Messages = append(req.Messages, loop.Message{Role: loop.RoleTool, ToolCallID: "x"})
	for _, transport := range []responses.Transport{responses.TransportHTTP, responses.TransportWebSocket} {
		a := adapter(t, url, func(c *responses.Config) { c.Transport = transport })
		if got := say(a.Generate(t.Context(), req, &journal{})); got != "failure not_dispatched invalid_history 0" || requests.Load() != 0 {
			t.Errorf("%s: outcome %s after %d requests; want not_dispatched", transport, got, requests.Load())
		}
	}
}

func TestSecretIsHidden(t *testing.T) {
	cfg := responses.Config{APIKey: key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, cfg); strings.Contains(s, key) {
			t.Errorf("%s tells the key: %s", verb, s)
		}
	}
}

// broken is a background stream that breaks off after its first events, and
// what reading on gives: one handler an attempt.
func broken(first string, attempts ...http.HandlerFunc) (http.HandlerFunc, func() []string) {
	asked := make(chan string, 32)
	n := atomic.Int32{}
	handle := func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.RequestURI()
		if r.Method == http.MethodPost {
			write(w, first)
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close() // in order, so that nothing of it is lost
			}
			return
		}
		attempts[min(int(n.Add(1)), len(attempts))-1](w, r)
	}
	return handle, func() []string {
		var all []string
		for len(asked) > 0 {
			all = append(all, <-asked)
		}
		return all
	}
}

func TestBackground(t *testing.T) {
	post, get := "POST /v1/responses", "GET /v1/responses/r1?starting_after=1&stream=true"
	begun := sse(created("r1", ""), hello)
	rest := sse(`{"type":"response.output_text.delta","sequence_number":2,"output_index":0,"delta":" you"}`, strings.Replace(ended("r1", "completed", ""), ":9", ":3", 1))
	drop := func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }
	for _, c := range []struct {
		name     string
		first    string
		attempts []http.HandlerFunc
		want     string
		asked    []string
	}{
		{"goes on", begun, []http.HandlerFunc{status(200, "text/event-stream", rest)}, "completion stop", []string{post, get}},
		{"goes on at the third", begun, []http.HandlerFunc{drop, status(503, "text/plain", "busy"), status(200, "text/event-stream", rest)}, "completion stop", []string{post, get, get, get}},
		{"never", begun, []http.HandlerFunc{drop}, "uncertain transport", []string{post, get, get, get}},
		{"not found", begun, []http.HandlerFunc{status(404, "application/json", apiError)}, "uncertain transport", []string{post, get}},
		{"events left out", begun, []http.HandlerFunc{status(200, "text/event-stream", strings.NewReplacer(`"sequence_number":2`, `"sequence_number":3`, `"sequence_number":3`, `"sequence_number":4`).Replace(rest))}, "uncertain no_terminal", []string{post, get}},
		{"events left out, and no end", begun, []http.HandlerFunc{status(200, "text/event-stream", sse(`{"type":"response.in_progress","sequence_number":7,"response":{"id":"r1"}}`))}, "uncertain no_terminal", []string{post, get}},
		{"no id", "", []http.HandlerFunc{drop}, "uncertain transport", []string{post}},
		{"cut inside an event", begun + `data: {"type":"resp`, []http.HandlerFunc{status(200, "text/event-stream", rest)}, "completion stop", []string{post, get}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			handle, asked := broken(c.first, c.attempts...)
			url, _ := server(t, handle)
			j := &journal{}
			a := adapter(t, url, func(cfg *responses.Config) {
				cfg.Store, cfg.Background, cfg.Resumes, cfg.ResumeWait = true, true, 3, time.Millisecond
			})
			outcome := a.Generate(t.Context(), ask(), j)
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
			if got := asked(); !slices.Equal(got, c.asked) {
				t.Errorf("asked %q; want %q", got, c.asked)
			}
			if done, ok := outcome.(loop.Completion); ok {
				if done.Text != "Hello you" || done.ResponseDigest != event.Digest(j.raw) || done.ResponseBytes != int64(len(j.raw)) {
					t.Errorf("completion %+v; want Hello you, over the %d bytes that were saved", done, len(j.raw))
				}
			}
		})
	}
}

// TestForegroundIsNotReadOn: closing its stream ended that response.
func TestForegroundIsNotReadOn(t *testing.T) {
	handle, asked := broken(sse(created("r1", ""), hello), forever(""))
	url, _ := server(t, handle)
	a := adapter(t, url, func(c *responses.Config) { c.Store = true })
	if got := say(a.Generate(t.Context(), ask(), &journal{})); got != "uncertain transport" || len(asked()) != 1 {
		t.Errorf("outcome %s; want uncertain transport after one request", got)
	}
}
