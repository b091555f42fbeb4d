package ollama_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/ollama"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

var _ runner.Provider = (*ollama.Adapter)(nil)

const key = "sk-very-secret"

const (
	hello = `{"model":"m","message":{"role":"assistant","content":"Hello"},"done":false}` + "\n"
	end   = `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}` + "\n"
)

// server counts requests and answers each with handle. The body is read first:
// only then does a handler hear of a client that goes.
func server(t *testing.T, handle http.HandlerFunc) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func adapter(t *testing.T, url string, change ...func(*ollama.Config)) *ollama.Adapter {
	t.Helper()
	cfg := ollama.Config{BaseURL: url, Model: "m", APIKey: key}
	for _, c := range change {
		c(&cfg)
	}
	a, err := ollama.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// journal is a Stream that keeps what it is told, in order.
type journal struct {
	raw    []byte
	log    []string
	refuse int // Raw fails from this call on; 0 = never
}

func (j *journal) Raw(b []byte) error {
	j.log = append(j.log, "raw")
	if j.refuse--; j.refuse == 0 {
		return errors.New("disk full")
	}
	j.raw = append(j.raw, b...)
	return nil
}
func (j *journal) Delta(kind, text string) { j.log = append(j.log, kind+" "+text) }
func (j *journal) Message(text string)     { j.log = append(j.log, "message "+text) }
func (j *journal) Applied([]string)        { j.log = append(j.log, "applied") }

func ask() loop.Request {
	return loop.Request{OperationID: "op-1", Messages: []loop.Message{{Role: loop.RoleUser, Text: "hi"}}}
}

func say(o loop.Outcome) string {
	switch o := o.(type) {
	case loop.Completion:
		return "completion " + string(o.Finish)
	case loop.Failure:
		return fmt.Sprintf("failure %s %s %d", o.Dispatch, o.Code, o.HTTPStatus)
	case loop.Uncertain:
		return "uncertain " + o.Reason
	}
	return fmt.Sprintf("%T", o)
}

func write(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	w.(http.Flusher).Flush()
}

// hangUp closes the connection as it is.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

func TestGenerate(t *testing.T) {
	var body []byte
	var header http.Header
	var path string
	url, requests := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header, path = r.Header, r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, part := range []string{hello, end, "\n\n"} {
			write(w, part)
		}
	})
	a := adapter(t, url, func(c *ollama.Config) { c.Headers = map[string]string{"X-Title": "t"} })
	j := &journal{}
	outcome := a.Generate(t.Context(), ask(), j)
	c, ok := outcome.(loop.Completion)
	if !ok || c.Finish != event.FinishStop || c.Text != "Hello" {
		t.Fatalf("outcome %+v; want Hello, stop", outcome)
	}
	if want := hello + end + "\n\n"; string(j.raw) != want {
		t.Errorf("raw %q; want every byte, late ones too", j.raw)
	}
	if c.ResponseDigest != event.Digest(j.raw) || c.ResponseBytes != int64(len(j.raw)) {
		t.Errorf("digest of %d bytes; want that of the %d raw bytes", c.ResponseBytes, len(j.raw))
	}
	if j.log[0] != "raw" || slices.Index(j.log, "text Hello") < 1 {
		t.Errorf("order %q; want raw before text", j.log)
	}
	if !bytes.HasPrefix(body, []byte(`{"model":"m","stream":true,"truncate":false,"shift":false`)) || path != "/api/chat" {
		t.Errorf("sent %s to %s", body, path)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "Accept-Encoding": "identity", "Accept": "application/x-ndjson",
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

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		write(w, body)
	}
}

const apiError = `{"error":"unauthorized: ` + key + `"}`

var answers = []struct {
	name   string
	handle http.HandlerFunc
	want   string
}{
	{"stream", status(200, "application/x-ndjson", hello+end), "completion stop"},
	{"one line", status(200, "application/json", `{"message":{"content":"x"},"done":true,"done_reason":"stop"}`), "completion stop"},
	{"JSON error in a 200", status(200, "application/json", apiError), "failure ran provider_error 200"},
	{"page in a 200", status(200, "text/html", "<html></html>"), "uncertain no_terminal"},
	{"empty 200", status(200, "application/x-ndjson", ""), "uncertain no_terminal"},
	{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "uncertain no_terminal"},
	{"polite early end", status(200, "application/x-ndjson", hello), "uncertain no_terminal"},
	{"400", status(400, "application/json", apiError), "failure rejected http_400 400"},
	{"401", status(401, "application/json", apiError), "failure rejected http_401 401"},
	{"402", status(402, "application/json", `{"error":{"code":"no_credit"}}`), "failure rejected no_credit 402"},
	{"403 page", status(403, "text/html", "<html>"+key+"</html>"), "failure rejected http_403 403"},
	{"404", status(404, "text/plain", "404 page not found"), "failure rejected http_404 404"},
	{"405", status(405, "text/plain", ""), "failure rejected http_405 405"},
	{"413", status(413, "text/plain", ""), "failure rejected http_413 413"},
	{"415", status(415, "text/plain", ""), "failure rejected http_415 415"},
	{"422", status(422, "application/json", `{"detail":[{"msg":"x"}]}`), "failure rejected http_422 422"},
	{"429", status(429, "application/json", apiError), "failure rejected http_429 429"},
	{"408", status(408, "text/plain", ""), "uncertain timeout"},
	{"409", status(409, "text/plain", ""), "uncertain transport"},
	{"425", status(425, "text/plain", ""), "uncertain transport"},
	{"499", status(499, "text/plain", ""), "uncertain transport"},
	{"418", status(418, "text/plain", ""), "uncertain transport"},
	{"500", status(500, "application/json", apiError), "uncertain transport"},
	{"502 page", status(502, "text/html", "<html>Bad Gateway</html>"), "uncertain transport"},
	{"503", status(503, "text/plain", ""), "uncertain transport"},
	{"504", status(504, "text/plain", ""), "uncertain timeout"},
	{"524", status(524, "text/plain", ""), "uncertain timeout"},
	{"529", status(529, "application/json", apiError), "uncertain transport"},
	{"redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, "failure rejected redirect 307"},
	{"hang up before the answer", func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, "uncertain transport"},
	{"hang up in the answer", func(w http.ResponseWriter, _ *http.Request) {
		write(w, hello)
		hangUp(w)
	}, "uncertain transport"},
	{"chunks cut", func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nff\r\ndata: {", len(hello), hello)
		buf.Flush()
		conn.Close()
	}, "uncertain transport"},
	{"fewer bytes than announced", func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n%s", hello)
		buf.Flush()
		conn.Close()
	}, "uncertain transport"},
	{"hang up after the end", func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n%s", hello+end)
		buf.Flush()
		conn.Close()
	}, "completion stop"},
	{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		buf.WriteString("SSH-2.0-x\r\n")
		buf.Flush()
		conn.Close()
	}, "uncertain transport"},
}

func TestAnswers(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := server(t, c.handle)
			j := &journal{}
			outcome := adapter(t, url).Generate(t.Context(), ask(), j)
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

func TestErrorBodyIsSaved(t *testing.T) {
	long := strings.Repeat("x", 4096)
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(429)
		write(w, long)
	})
	a := adapter(t, url, func(c *ollama.Config) { c.HTTP.MaxErrorBody = 1000 })
	j := &journal{}
	f, ok := a.Generate(t.Context(), ask(), j).(loop.Failure)
	if !ok || !strings.Contains(f.NextAction, "20s") {
		t.Errorf("outcome %+v; want a failure that says to wait 20 s", f)
	}
	if string(j.raw) != long[:1000] {
		t.Errorf("%d bytes saved; want the first 1000", len(j.raw))
	}
}

func TestGzipStaysAsItCame(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, hello+end)
	z.Close()
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped.Bytes())
	})
	j := &journal{}
	u, ok := adapter(t, url).Generate(t.Context(), ask(), j).(loop.Uncertain)
	if !ok || u.Reason != event.UnknownNoTerminal || !strings.Contains(u.Detail, "gzip") {
		t.Errorf("outcome %+v; want no_terminal, with the encoding in its detail", u)
	}
	if !bytes.Equal(j.raw, zipped.Bytes()) {
		t.Errorf("raw %d bytes; want the %d of the wire", len(j.raw), zipped.Len())
	}
}

func TestBodyTooLarge(t *testing.T) {
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			write(w, hello)
		}
	})
	a := adapter(t, url, func(c *ollama.Config) { c.HTTP.MaxBodyBytes = 5000 })
	j := &journal{}
	u, ok := a.Generate(t.Context(), ask(), j).(loop.Uncertain)
	if !ok || u.Reason != event.UnknownNoTerminal || !strings.Contains(u.Detail, "MaxBodyBytes") {
		t.Errorf("outcome %+v; want no_terminal that names the limit", u)
	}
	if len(j.raw) != 5000 {
		t.Errorf("%d bytes saved; want 5000", len(j.raw))
	}
}

// forever writes s and holds the answer open until the client goes.
func forever(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s != "" {
			write(w, s)
		}
		<-r.Context().Done()
	}
}

func TestTimeouts(t *testing.T) {
	const short = 30 * time.Millisecond
	cases := []struct {
		name, body string
		limit      func(*httpwire.Config)
		want       string
	}{
		{"no answer", "", func(c *httpwire.Config) { c.HeaderTimeout = short }, "uncertain timeout"},
		{"silence in the answer", hello, func(c *httpwire.Config) { c.IdleTimeout = short }, "uncertain timeout"},
		{"silence after the end", hello + end, func(c *httpwire.Config) { c.DrainTime = short }, "completion stop"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t, forever(c.body))
			a := adapter(t, url, func(cfg *ollama.Config) { c.limit(&cfg.HTTP) })
			outcome := a.Generate(t.Context(), ask(), &journal{})
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
		})
	}
}

func TestDrainBytes(t *testing.T) {
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, hello+end)
		for r.Context().Err() == nil {
			write(w, "       \n")
		}
	})
	a := adapter(t, url, func(c *ollama.Config) { c.HTTP.DrainBytes, c.HTTP.DrainTime = 1000, time.Minute })
	j := &journal{}
	if got := say(a.Generate(t.Context(), ask(), j)); got != "completion stop" {
		t.Errorf("outcome %s; want completion stop", got)
	}
	const oneRead = 32 << 10 // may hold late bytes beside the terminal frame
	if n := len(j.raw) - len(hello+end); n < 1000 || n > 1000+oneRead {
		t.Errorf("%d late bytes saved; want 1000, or one read more", n)
	}
}

// cancelling ends its context when the first text came.
type cancelling struct {
	journal
	cancel context.CancelFunc
}

func (c *cancelling) Delta(string, string) { c.cancel() }

func TestContextEnds(t *testing.T) {
	url, requests := server(t, forever(hello))
	a := adapter(t, url)

	ctx, cancel := context.WithCancel(t.Context())
	if got := say(a.Generate(ctx, ask(), &cancelling{cancel: cancel})); got != "uncertain cancelled" {
		t.Errorf("cancelled in the answer: %s; want uncertain cancelled", got)
	}
	deadline, stopClock := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stopClock()
	if got := say(a.Generate(deadline, ask(), &journal{})); got != "uncertain timeout" {
		t.Errorf("deadline in the answer: %s; want uncertain timeout", got)
	}
	sent := requests.Load()
	if got := say(a.Generate(ctx, ask(), &journal{})); got != "failure not_dispatched cancelled 0" {
		t.Errorf("cancelled before: %s; want not_dispatched", got)
	}
	if requests.Load() != sent {
		t.Error("a request left after its context had ended")
	}
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f, ok := adapter(t, "http://"+address).Generate(t.Context(), ask(), &journal{}).(loop.Failure)
	if !ok || f.Dispatch != event.DispatchNotDispatched || f.Code != "connect_failed" || f.NextAction == "" {
		t.Errorf("outcome %+v; want not_dispatched, connect_failed", f)
	}
}

func TestUnknownCertificate(t *testing.T) {
	requests := atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	f, ok := adapter(t, s.URL).Generate(t.Context(), ask(), &journal{}).(loop.Failure)
	if !ok || f.Dispatch != event.DispatchNotDispatched || f.Code != "tls_failed" || requests.Load() != 0 {
		t.Errorf("outcome %+v after %d requests; want not_dispatched, tls_failed", f, requests.Load())
	}
}

func TestJournalFails(t *testing.T) {
	for n := 1; n <= 2; n++ {
		url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
			write(w, hello+end)
			<-r.Context().Done()
		})
		if n == 2 { // the second Raw is of a late byte
			url, _ = server(t, func(w http.ResponseWriter, _ *http.Request) {
				write(w, hello)
				write(w, strings.Repeat("\n", 100_000))
				write(w, end)
			})
		}
		j := &journal{refuse: n}
		outcome := adapter(t, url).Generate(t.Context(), ask(), j)
		if got := say(outcome); got != "uncertain transport" {
			t.Errorf("Raw fails at call %d: %s; want uncertain transport", n, got)
		}
		if n == 1 && slices.Contains(j.log, "text Hello") {
			t.Error("bytes were read that are not saved")
		}
	}
}

func TestNothingIsSentOfAnInvalidHistory(t *testing.T) {
	url, requests := server(t, forever(""))
	req := ask()
	req.Messages = append(req.Messages, loop.Message{Role: loop.RoleTool, ToolCallID: "x"})
	if got := say(adapter(t, url).Generate(t.Context(), req, &journal{})); got != "failure not_dispatched invalid_history 0" || requests.Load() != 0 {
		t.Errorf("outcome %s after %d requests; want not_dispatched", got, requests.Load())
	}
}

func TestSecretIsHidden(t *testing.T) {
	cfg := ollama.Config{APIKey: key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, cfg); strings.Contains(s, key) {
			t.Errorf("%s tells the key: %s", verb, s)
		}
	}
}

func TestNothingToLookUp(t *testing.T) {
	url, requests := server(t, forever(""))
	in := adapter(t, url).Inspect(t.Context(), ask())
	if in.Observed != event.ObservedUnsupported || in.Completion != nil || in.Failure != nil || requests.Load() != 0 {
		t.Errorf("inspection %+v after %d requests; want unsupported, nothing asked", in, requests.Load())
	}
}
