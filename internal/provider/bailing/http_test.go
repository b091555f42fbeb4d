package bailing

import (
	"bytes"
	"context"
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
	"github.com/loopd/loopd/loop"
)

// answer is a whole stream.
var answer = frames(started, provider(hello+stop+fin), receipt(completed(hello+stop+fin)))

func TestGenerate(t *testing.T) {
	var body []byte
	var header http.Header
	var path string
	url, requests := hub(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header, path = r.Header, r.Method+" "+r.URL.RequestURI()
		w.Header().Set("Content-Type", "text/event-stream")
		write(w, answer)
		write(w, ": keep-alive\n\n")
	})
	j := &journal{}
	outcome := adapter(t, url+"/base/").Generate(t.Context(), ask(), j)
	c, ok := outcome.(loop.Completion)
	if !ok || c.Finish != event.FinishStop || c.Text != "Hello" || c.FinishReason != "stop" {
		t.Fatalf("outcome %+v; want Hello, stop", outcome)
	}
	if want := answer + ": keep-alive\n\n"; string(j.raw) != want {
		t.Errorf("raw %q; want every byte of the hub's, late ones too", j.raw)
	}
	inner := hello + stop + fin
	if c.ResponseDigest != event.Digest([]byte(inner)) || c.ResponseBytes != int64(len(inner)) {
		t.Errorf("digest of %d bytes; want that of the provider's %d", c.ResponseBytes, len(inner))
	}
	if j.log[0] != "raw" || !slices.Contains(j.log, "text Hello") {
		t.Errorf("told %q; want raw before text", j.log)
	}
	if want := `{"operation_id":"op_segment_1","service_id":"svc","messages":[{"role":"user","content":"hi"}]}`; string(body) != want {
		t.Errorf("sent %s\nwant %s", body, want)
	}
	if want := "POST /base/usage/v1/model/requests/stream"; path != want {
		t.Errorf("asked %s; want %s", path, want)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + key, "Accept-Encoding": "identity",
		"Accept": "text/event-stream", "Content-Type": "application/json",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("header %s %q; want %q", name, got, want)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests; want 1", n)
	}
}

// TestReceiptComesLate: the provider's own end is here long before the hub's
// receipt; text shows, and nothing else counts until the receipt.
func TestReceiptComesLate(t *testing.T) {
	body := hello + calls + fin
	ends := make(chan string, 1)
	shown := make(chan struct{})
	url, _ := hub(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, frames(started, provider(body)))
		write(w, ": keep-alive\n\n")
		<-shown
		if rest := <-ends; rest != "" {
			write(w, rest)
			return
		}
		hangUp(w)
	})
	for rest, want := range map[string]string{
		frame(3, receipt(completed(body))):                        "completion tool_calls",
		frame(3, receipt(view("unknown", "unknown", "unknown"))):  "uncertain transport",
		frame(3, receipt(completed(body+" "))):                    "uncertain no_terminal",
		frame(4, receipt(completed(body))):                        "uncertain no_terminal",
		frame(3, receipt(completed(body))) + frame(4, started):    "uncertain no_terminal",
		strings.TrimSpace(frame(3, receipt(completed(body)))):     "uncertain no_terminal",
		": keep-alive\n\n":                                        "uncertain no_terminal",
		"":                                                        "uncertain transport",
		frame(3, receipt(view("failed", "failed", "rejected"))):   "failure rejected no_code 0",
		frame(3, receipt(view("cancelled", "cancelled", "none"))): "uncertain no_terminal",
	} {
		ends <- rest
		j := &journal{told: func() { shown <- struct{}{} }}
		if got := say(adapter(t, url).Generate(t.Context(), ask(), j)); got != want {
			t.Errorf("end %.80q: %s; want %s", rest, got, want)
		}
		if !slices.Contains(j.log, "text Hello") {
			t.Errorf("end %.80q: told %q; want the text early", rest, j.log)
		}
	}
}

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

func refuse(code int, name, dispatch, next string) http.HandlerFunc {
	return status(code, "application/json", refusal(name, dispatch, next))
}

func TestAnswers(t *testing.T) {
	begun := frames(started, provider(hello))
	cases := []struct {
		name   string
		handle http.HandlerFunc
		want   string
	}{
		{"stream", status(200, "text/event-stream", answer), "completion stop"},
		{"replay", status(200, "text/event-stream", frames(receipt(completed(hello+stop+fin)))), "completion stop"},
		{"polite early end", status(200, "text/event-stream", begun), "uncertain no_terminal"},
		{"second receipt in the drain", func(w http.ResponseWriter, _ *http.Request) {
			write(w, answer)
			write(w, frame(4, receipt(completed(hello+stop+fin))))
		}, "uncertain no_terminal"},
		{"bare operation", status(202, "application/json", view("admitted", "pending", "not_dispatched")), "uncertain no_terminal"},
		{"page in a 200", status(200, "text/html", "<html></html>"), "uncertain no_terminal"},
		{"empty 200", status(200, "text/event-stream", ""), "uncertain no_terminal"},
		{"hang up in the stream", func(w http.ResponseWriter, _ *http.Request) { write(w, begun); hangUp(w) }, "uncertain transport"},
		{"hang up before the answer", func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, "uncertain transport"},
		{"hang up after the end", raw("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + answer), "completion stop"},
		{"chunks cut", raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nff\r\ndata: {", len(begun), begun)), "uncertain transport"},
		{"no HTTP", raw("SSH-2.0-x\r\n"), "uncertain transport"},

		{"402 allowance", refuse(402, "ALLOWANCE_INSUFFICIENT", "not_dispatched", "upgrade_required"), "failure not_dispatched ALLOWANCE_INSUFFICIENT 402"},
		{"403 entitlement", refuse(403, "SERVICE_NOT_ENTITLED", "not_dispatched", "contact_operator"), "failure not_dispatched SERVICE_NOT_ENTITLED 403"},
		{"401 key", refuse(401, "USAGE_CREDENTIAL_INVALID", "not_dispatched", "reauthenticate"), "failure not_dispatched USAGE_CREDENTIAL_INVALID 401"},
		{"400 input", refuse(400, "USAGE_INPUT_INVALID", "not_dispatched", "resolve_error"), "failure not_dispatched USAGE_INPUT_INVALID 400"},
		{"413 input", refuse(413, "USAGE_INPUT_LIMIT", "not_dispatched", "resolve_error"), "failure not_dispatched USAGE_INPUT_LIMIT 413"},
		{"409 revision", refuse(409, "USAGE_REVISION_CONFLICT", "not_dispatched", "resolve_error"), "failure not_dispatched USAGE_REVISION_CONFLICT 409"},
		{"409 identity", refuse(409, "USAGE_IDEMPOTENCY_CONFLICT", "not_dispatched", "inspect_original"), "failure not_dispatched USAGE_IDEMPOTENCY_CONFLICT 409"},
		{"409 identity, dispatch unknown", refuse(409, "USAGE_IDEMPOTENCY_CONFLICT", "unknown", "inspect_original"), "failure rejected USAGE_IDEMPOTENCY_CONFLICT 409"},
		{"409 pending", refuse(409, "USAGE_PENDING", "unknown", "inspect_original"), "uncertain transport"},
		{"409 rejected", refuse(409, "USAGE_REQUEST_REJECTED", "rejected", "resolve_error"), "failure rejected USAGE_REQUEST_REJECTED 409"},
		{"400 dispatch unknown", refuse(400, "USAGE_RESPONSE_INVALID", "unknown", "inspect_original"), "uncertain transport"},
		{"400 unknown word", refuse(400, "USAGE_INPUT_INVALID", "perhaps", "resolve_error"), "uncertain transport"},
		{"400 without feedback", status(400, "application/json", `{"schema":"bailing.usage-error.v1","error":"USAGE_INPUT_INVALID","message":"x"}`), "uncertain transport"},
		{"429 quota", refuse(429, "QUOTA_WINDOW_EXHAUSTED", "not_dispatched", "wait_for_reset"), "failure not_dispatched QUOTA_WINDOW_EXHAUSTED 429"},
		{"503 paused", refuse(503, "METERING_UNAVAILABLE", "not_dispatched", "wait_for_capacity"), "failure not_dispatched METERING_UNAVAILABLE 503"},
		{"503 rejected", refuse(503, "USAGE_REQUEST_REJECTED", "rejected", "wait_for_capacity"), "uncertain transport"},
		{"500 unknown", refuse(500, "USAGE_STORAGE_ERROR", "unknown", "inspect_original"), "uncertain transport"},
		{"500 identity", refuse(500, "USAGE_IDEMPOTENCY_CONFLICT", "unknown", "inspect_original"), "uncertain transport"},
		{"500 of another schema", status(500, "application/json", strings.Replace(refusal("X", "not_dispatched", ""), "error.v1", "error.v2", 1)), "uncertain transport"},
		{"502 page", status(502, "text/html", "<html>Bad Gateway</html>"), "uncertain transport"},
		{"504 page", status(504, "text/html", ""), "uncertain timeout"},
		{"409 page", status(409, "text/html", ""), "uncertain transport"},
		{"403 page", status(403, "text/html", "<html>"+key+"</html>"), "failure rejected http_403 403"},
		{"404 page", status(404, "text/plain", "404 page not found"), "failure rejected http_404 404"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "failure rejected redirect 307"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := hub(t, c.handle)
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

func TestNextActions(t *testing.T) {
	reset := strings.Replace(refusal("QUOTA_WINDOW_EXHAUSTED", "not_dispatched", "wait_for_reset"), `"retryable"`, `"resetAt":1767225600000,"retryable"`, 1)
	for body, want := range map[string]string{
		reset: "wait for its reset, then send the input again (reset at 2026-01-01T00:00:00Z)",
		strings.Replace(reset, "1767225600000", `"soon"`, 1):                         "then send the input again; the hub's message",
		refusal("USAGE_IDEMPOTENCY_CONFLICT", "not_dispatched", "inspect_original"):  "holds another request",
		refusal("SERVICE_NOT_ENTITLED", "not_dispatched", "select_model"):            "ServiceID",
		refusal("USAGE_INPUT_INVALID", "not_dispatched", "a word of another season"): "correct the request",
	} {
		url, _ := hub(t, status(402, "application/json", body))
		f, ok := adapter(t, url).Generate(t.Context(), ask(), &journal{}).(loop.Failure)
		if !ok || !strings.Contains(f.NextAction, want) {
			t.Errorf("next action %q; want %q", f.NextAction, want)
		}
	}
}

func TestErrorBodyIsSaved(t *testing.T) {
	body := refusal("SERVICE_NOT_ENTITLED", "not_dispatched", "contact_operator")
	url, _ := hub(t, status(403, "application/json", body))
	j := &journal{}
	adapter(t, url).Generate(t.Context(), ask(), j)
	if string(j.raw) != body {
		t.Errorf("saved %q; want the body", j.raw)
	}
	j = &journal{refuse: 1}
	if got := say(adapter(t, url).Generate(t.Context(), ask(), j)); got != "uncertain transport" {
		t.Errorf("refusal that is not saved: %s; want uncertain transport", got)
	}
	url, _ = hub(t, status(403, "application/json", body+strings.Repeat(" ", 40<<10)))
	j = &journal{refuse: 2}
	if got := say(adapter(t, url).Generate(t.Context(), ask(), j)); got != "uncertain transport" {
		t.Errorf("refusal that is saved in part: %s; want uncertain transport", got)
	}
}

func TestDetails(t *testing.T) {
	url, _ := hub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req-7")
		for r.Context().Err() == nil {
			write(w, ": keep-alive\n\n")
		}
	})
	a := adapter(t, url, func(c *Config) { c.HTTP.MaxBodyBytes = 1000 })
	u, ok := a.Generate(t.Context(), ask(), &journal{}).(loop.Uncertain)
	if !ok || u.Reason != event.UnknownNoTerminal || !strings.Contains(u.Detail, "MaxBodyBytes") || !strings.Contains(u.Detail, "req-7") {
		t.Errorf("outcome %+v; want no_terminal that names the limit and the request", u)
	}
	url, _ = hub(t, status(200, "text/event-stream", answer))
	a = adapter(t, url, func(c *Config) { c.MaxAnswerBytes = 100 })
	if u, ok := a.Generate(t.Context(), ask(), &journal{}).(loop.Uncertain); !ok || !strings.Contains(u.Detail, "MaxAnswerBytes") {
		t.Errorf("outcome %+v; want uncertain, MaxAnswerBytes", u)
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
		{"silence before the receipt", frames(started, provider(hello+stop+fin)), func(c *httpwire.Config) { c.IdleTimeout = short }, "uncertain timeout"},
		{"silence after the receipt", answer, func(c *httpwire.Config) { c.DrainTime = short }, "completion stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, _ := hub(t, forever(c.body))
			a := adapter(t, url, func(cfg *Config) { c.limit(&cfg.HTTP) })
			if got := say(a.Generate(t.Context(), ask(), &journal{})); got != c.want {
				t.Errorf("outcome %s; want %s", got, c.want)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	url, requests := hub(t, forever(frames(started, provider(hello))))
	a := adapter(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	if got := say(a.Generate(ctx, ask(), &journal{told: cancel})); got != "uncertain cancelled" {
		t.Errorf("cancelled in the answer: %s; want uncertain cancelled", got)
	}
	sent := requests.Load()
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
	url, requests := hub(t, forever(answer))
	j := &journal{refuse: 1}
	if got := say(adapter(t, url).Generate(t.Context(), ask(), j)); got != "uncertain transport" || requests.Load() != 1 {
		t.Errorf("%s after %d requests; want uncertain transport, 1", got, requests.Load())
	}
	if slices.Contains(j.log, "text Hello") {
		t.Error("bytes were read that are not saved")
	}
}

func TestKeyIsHidden(t *testing.T) {
	cfg := Config{APIKey: key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, cfg); strings.Contains(s, key) {
			t.Errorf("%s tells the key: %s", verb, s)
		}
	}
	one := adapter(t, "http://hub.example")
	two := adapter(t, "http://hub.example", func(c *Config) { c.APIKey = key + "x" })
	if one.Service() != two.Service() {
		t.Error("the revision depends on the key")
	}
	if s := fmt.Sprint(one.Service()); strings.Contains(s, key) {
		t.Errorf("the service tells the key: %s", s)
	}
}

func TestBodyIsTheSameEachTime(t *testing.T) {
	a := adapter(t, "http://hub.example", func(c *Config) {
		c.Extra = map[string]event.RawJSON{"top_p": event.RawJSON("0.5"), "seed": event.RawJSON("7"), "stop": event.RawJSON(`["x"]`)}
	})
	first, err := a.cfg.body(a.profile, ask())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if b, _ := a.cfg.body(a.profile, ask()); !bytes.Equal(b, first) {
			t.Fatalf("body %s\nthen %s", first, b)
		}
	}
}
