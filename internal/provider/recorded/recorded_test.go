package recorded_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/recorded"
	"github.com/loopd/loopd/loop"
)

// sink keeps what a stream carried, and breaks when it is told to.
type sink struct {
	raw    []byte
	text   string
	broken error
}

func (s *sink) Raw(b []byte) error          { s.raw = append(s.raw, b...); return s.broken }
func (s *sink) Delta(_ string, text string) { s.text += text }
func (*sink) Message(string)                {}
func (*sink) Applied([]string)              {}

func start(t *testing.T, c recorded.Config) (context.Context, *recorded.Server, *chat.Adapter) {
	t.Helper()
	s := recorded.New(c)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	t.Cleanup(s.Close)
	a, err := chat.New(chat.Config{BaseURL: web.URL + "/v1", Model: "m", Profile: "openai", Store: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx, s, a
}

func request(id string) loop.Request {
	return loop.Request{OperationID: id, Segment: 1, Messages: []loop.Message{{Role: loop.RoleUser, Text: "Hello"}}}
}

// What the adapter reads off the wire and what it looks up later are the same.
func TestAnswerAndLookUpAgree(t *testing.T) {
	answer := recorded.Compose("chatcmpl-1", "m", "Grüße, ", "\"quoted\" ", "and\nbroken")
	ctx, s, a := start(t, recorded.Config{Answers: []recorded.Answer{answer}})
	if found := a.Inspect(ctx, request("op-1")); found.Observed != event.ObservedMissing {
		t.Errorf("before the request: %v", found.Observed)
	}
	var out sink
	got, ok := a.Generate(ctx, request("op-1"), &out).(loop.Completion)
	if !ok || got.Text != answer.Text() || got.Finish != event.FinishStop || out.text != answer.Text() {
		t.Fatalf("generated %+v", got)
	}
	if string(out.raw) != strings.Join(answer.Frames, "") {
		t.Error("the bytes on the wire are not those of the answer")
	}
	<-s.Kept(1)
	found := a.Inspect(ctx, request("op-1"))
	if found.Observed != event.ObservedComplete || found.Completion.Text != got.Text || found.Completion.Usage.Output != got.Usage.Output {
		t.Errorf("looked up %+v, want the answer %+v", found, got)
	}
	if n := len(s.Requests()); n != 1 || s.Lookups() != 2 {
		t.Errorf("%d requests and %d look-ups, want 1 and 2", n, s.Lookups())
	}
}

// An answer goes on when its reader is gone, and waits only where it is held.
func TestAnswerOutlivesItsReader(t *testing.T) {
	answer := recorded.Compose("chatcmpl-1", "m", "one ", "two ", "three ", "four")
	ctx, s, a := start(t, recorded.Config{Answers: []recorded.Answer{answer}, Hold: func(int) int { return answer.Middle() }})
	reader, leave := context.WithCancel(ctx)
	done := make(chan loop.Outcome, 1)
	go func() { done <- a.Generate(reader, request("op-1"), &sink{}) }()
	<-s.Held(1)
	leave()
	if o, ok := (<-done).(loop.Uncertain); !ok {
		t.Fatalf("a reader that left got %+v", o)
	}
	if found := a.Inspect(ctx, request("op-1")); found.Observed != event.ObservedMissing {
		t.Errorf("a half answer was found: %v", found.Observed)
	}
	s.Release(1)
	<-s.Kept(1)
	if found := a.Inspect(ctx, request("op-1")); found.Observed != event.ObservedComplete || found.Completion.Text != answer.Text() {
		t.Errorf("looked up %+v", found)
	}
}

func TestParseRefusesWhatItCannotPlay(t *testing.T) {
	whole := strings.Join(recorded.Compose("id", "m", "text").Frames, "")
	for name, body := range map[string]string{
		"empty":      "",
		"no [DONE]":  strings.ReplaceAll(whole, "data: [DONE]", ": done"),
		"no JSON":    strings.Replace(whole, "data: {", "data: {{", 1),
		"tool calls": strings.Replace(whole, `"content":""`, `"tool_calls":[{"index":0}]`, 1),
		"no reason":  strings.Replace(whole, `"stop"`, "null", 1),
	} {
		if _, err := recorded.Parse([]byte(body)); !errors.Is(err, recorded.ErrUnsuitable) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if a, err := recorded.Parse([]byte(strings.ReplaceAll(whole, "\n", "\r\n"))); err != nil || a.Text() != "text" {
		t.Errorf("CRLF: %v", err)
	}
	if _, err := recorded.Load("testdata/none.sse"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Recordings of real servers, where they lie beside the repository, play as
// they came; whatever is no plain text answer is refused.
func TestRealRecordings(t *testing.T) {
	bodies := map[string]string{"own": "testdata/own.sse"}
	files, err := filepath.Glob("../../../../shared/fixtures/*/*.sse")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		bodies[f] = f
	}
	played := 0
	for name, file := range bodies {
		answer, err := recorded.Load(file)
		if errors.Is(err, recorded.ErrUnsuitable) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		played++
		ctx, _, a := start(t, recorded.Config{Answers: []recorded.Answer{answer}})
		var out sink
		if got, ok := a.Generate(ctx, request("op-1"), &out).(loop.Completion); !ok || got.Text != answer.Text() {
			t.Errorf("%s: %+v, want the text %q", name, got, answer.Text())
		}
	}
	if played == 0 {
		t.Error("nothing was played")
	}
}
