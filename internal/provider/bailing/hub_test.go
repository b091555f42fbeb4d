package bailing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

var (
	_ runner.Provider = (*Adapter)(nil)
	_ runner.Rereader = (*Adapter)(nil)
)

const (
	key   = "bhu_s_very-secret_0123456789"
	opID  = "op_segment_1"
	svcID = "svc"
)

// hub counts requests and answers each with handle. The body is read first:
// only then does a handler hear of a client that goes.
func hub(t *testing.T, handle http.HandlerFunc) (url string, requests *atomic.Int32) {
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

func adapter(t *testing.T, url string, change ...func(*Config)) *Adapter {
	t.Helper()
	cfg := Config{BaseURL: url, ServiceID: svcID, Profile: "openai", APIKey: key, LookUpWait: time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ask() loop.Request {
	return loop.Request{
		SessionID: "s1", GenerationID: "g1", OperationID: opID,
		Messages: []loop.Message{{Role: loop.RoleUser, Text: "hi"}},
	}
}

// journal is a Stream that keeps what it is told, in order.
type journal struct {
	raw    []byte
	log    []string
	refuse int    // Raw fails at this call; 0 = never
	told   func() // called at each Delta
}

func (j *journal) Raw(b []byte) error {
	j.log = append(j.log, "raw")
	if j.refuse--; j.refuse == 0 {
		return errors.New("disk full")
	}
	j.raw = append(j.raw, b...)
	return nil
}

func (j *journal) Delta(kind, text string) {
	j.log = append(j.log, kind+" "+text)
	if j.told != nil {
		j.told()
	}
}
func (j *journal) Message(text string) { j.log = append(j.log, "message "+text) }
func (j *journal) Applied([]string)    { j.log = append(j.log, "applied") }

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

func saw(in loop.Inspection) string {
	switch {
	case in.Completion != nil:
		return string(in.Observed) + ": " + say(*in.Completion)
	case in.Failure != nil:
		return string(in.Observed) + ": " + say(*in.Failure)
	}
	return string(in.Observed)
}

func write(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	w.(http.Flusher).Flush()
}

// hangUp closes the connection as it is.
func hangUp(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		write(w, body)
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

// refusal is an error body of the hub.
func refusal(code, dispatch, next string) string {
	return fmt.Sprintf(`{"schema":"bailing.usage-error.v1","error":%q,"message":"key %s","feedback":{"schema":"bailing.usage-feedback.v1","code":%q,"dispatch":%q,"next_action":%q,"retryable":false}}`,
		code, key, code, dispatch, next)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// frames numbers the frames of a stream, each given from its type on.
func frames(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(frame(i+1, p))
	}
	return b.String()
}

func frame(seq int, part string) string {
	return fmt.Sprintf("data: {\"schema\":%q,\"operation_id\":%q,\"seq\":%d,\"type\":%s}\n\n", streamSchema, opID, seq, part)
}

const started = `"started"`

func provider(data string) string {
	return `"provider","provider":{"schema":"bailing.provider-response.v1","format":"sse","status":200,"content_type":"text/event-stream","data":` + quote(data) + `}`
}

func receipt(view string) string { return `"operation","operation":` + view }

// view is an operation in a state; more stands at its end, each with a comma
// before it.
func view(state, result, dispatch string, more ...string) string {
	return fmt.Sprintf(`{"schema":"bailing.model-operation.v1","operation_id":%q,"account_id":"a","user_id":"u","service_id":%q,"conversation_id":null,"turn_id":null,`+
		`"state":%q,"result_state":%q,"billing_state":"pending","dispatch":%q,"next_action":"none","revision":3%s}`,
		opID, svcID, state, result, dispatch, strings.Join(more, ""))
}

func completed(body string, more ...string) string {
	return view("completed", "complete", "completed", append(more, `,"response":`+whole(body))...)
}

func whole(body string) string {
	return `{"schema":"bailing.provider-response.v1","format":"sse","status":200,"content_type":"text/event-stream","body":` + quote(body) + `}`
}

// The provider's answer inside.
const (
	hello = `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"
	stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	limit = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	calls = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n"
	fin   = "data: [DONE]\n\n"
)

func want(t *testing.T) original {
	t.Helper()
	p, err := chat.LookupProfile("openai")
	if err != nil {
		t.Fatal(err)
	}
	return original{operationID: opID, serviceID: svcID, profile: p, maxBytes: 4 << 20}
}

// files are those of testdata that match, and of the public set beside a
// checkout where there is one, by name.
func files(t *testing.T, own, public string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{own, filepath.Join(root(t), "..", "shared", "fixtures", "synthetic", public)} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.Base(p)] = string(b)
		}
	}
	return found
}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if len(dir) > 64 {
			t.Fatal("no go.mod above the test")
		}
	}
}

// sum is what stands of an outcome, for comparison.
func sum(o loop.Outcome) string {
	switch o := o.(type) {
	case loop.Completion:
		return fmt.Sprintf("%s %q %q %+v %q %+v %s %d", say(o), o.FinishReason, o.Text, o.ToolCalls, o.Veto, o.Usage, o.ResponseDigest, o.ResponseBytes)
	case loop.Failure:
		return say(o) + " " + o.NextAction
	case loop.Uncertain:
		return say(o) + " " + o.Detail
	}
	return "nothing"
}

// executable reports whether the loop would run a call of it.
func executable(o loop.Outcome) bool {
	c, ok := o.(loop.Completion)
	return ok && c.Finish == event.FinishToolCalls && c.Veto == ""
}
