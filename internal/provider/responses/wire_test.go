package responses_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loopd/loopd/internal/provider/responses"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

var (
	_ runner.Provider = (*responses.Adapter)(nil)
	_ runner.Steerer  = (*responses.Adapter)(nil)
	_ runner.Rereader = (*responses.Adapter)(nil)
)

const key = "sk-very-secret"

// Events of a short answer. created, begun and completed are of response id.
const (
	hello = `{"type":"response.output_text.delta","sequence_number":1,"output_index":0,"content_index":0,"delta":"Hello"}`
	block = `{"type":"response.output_text.done","sequence_number":2,"output_index":0,"content_index":0,"text":"Hello"}`
)

func created(id, previous string) string {
	return fmt.Sprintf(`{"type":"response.created","sequence_number":0,"response":{"id":%q,"object":"response","status":"in_progress","previous_response_id":%q}}`, id, previous)
}

func ended(id, status, more string) string {
	return fmt.Sprintf(`{"type":"response.%s","sequence_number":9,"response":{"id":%q,"object":"response","status":%q%s}}`, status, id, status, more)
}

func saying(text string) string {
	return fmt.Sprintf(`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":%q}`, text)
}

func calling(id string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","status":"completed","call_id":%q,"name":"f","arguments":"{}"}}`, id)
}

// sse writes events as a stream.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

var answer = sse(created("r1", ""), hello, block, ended("r1", "completed", ""))

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

func adapter(t *testing.T, url string, change ...func(*responses.Config)) *responses.Adapter {
	t.Helper()
	cfg := responses.Config{BaseURL: url + "/v1", Model: "m", APIKey: key}
	for _, c := range change {
		c(&cfg)
	}
	a, err := responses.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// journal is a Stream that keeps what it is told, in order, and signals it.
type journal struct {
	mu     sync.Mutex
	raw    []byte
	log    []string
	refuse int              // Raw fails from this call on; 0 = never
	told   func(log string) // sees each entry
}

func (j *journal) note(s string) {
	j.mu.Lock()
	j.log = append(j.log, s)
	j.mu.Unlock()
	if j.told != nil {
		j.told(s)
	}
}

func (j *journal) Raw(b []byte) error {
	j.mu.Lock()
	j.refuse--
	refused := j.refuse == 0
	if !refused {
		j.raw = append(j.raw, b...)
	}
	j.mu.Unlock()
	j.note("raw")
	if refused {
		return errors.New("disk full")
	}
	return nil
}
func (j *journal) Delta(kind, text string) { j.note(kind + " " + text) }
func (j *journal) Message(text string)     { j.note("message " + text) }
func (j *journal) Applied(ids []string)    { j.note("applied " + strings.Join(ids, ",")) }

// entries are those that are not of raw bytes.
func (j *journal) entries() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, s := range j.log {
		if s != "raw" {
			out = append(out, s)
		}
	}
	return out
}

func (j *journal) bytes() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.raw)
}

func ask() loop.Request {
	return loop.Request{SessionID: "s", OperationID: "op-1", Messages: []loop.Message{{Role: loop.RoleUser, Text: "hi"}}}
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

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		write(w, body)
	}
}

// hangUp closes the connection as it is.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
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
