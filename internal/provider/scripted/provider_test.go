package scripted

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// gates are channels by name.
type gates struct {
	mu      sync.Mutex
	open    map[string]chan struct{}
	arrived chan string // each Wait that finds its gate shut
}

func newGates() *gates {
	return &gates{open: map[string]chan struct{}{}, arrived: make(chan string, 100)}
}

func (g *gates) gate(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[name] == nil {
		g.open[name] = make(chan struct{})
	}
	return g.open[name]
}

func (g *gates) Wait(ctx context.Context, name string) error {
	c := g.gate(name)
	select {
	case <-c:
		return nil
	default:
	}
	g.arrived <- name
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gates) Open(name string) {
	c := g.gate(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// stream notes what it gets.
type stream struct {
	raw   strings.Builder
	notes []string
	fail  error
}

func (s *stream) Raw(b []byte) error {
	if s.fail != nil {
		return s.fail
	}
	s.raw.Write(b)
	return nil
}
func (s *stream) Delta(kind, text string) { s.notes = append(s.notes, kind+" "+text) }
func (s *stream) Message(text string)     { s.notes = append(s.notes, "message "+text) }
func (s *stream) Applied(ids []string) {
	s.notes = append(s.notes, "applied "+strings.Join(ids, ","))
}

func request(id string) loop.Request { return loop.Request{OperationID: id} }

func TestFramesBecomeACompletion(t *testing.T) {
	usage := &event.Usage{Input: 1, Output: 2}
	p := New(Config{Gates: newGates(), Entries: []Entry{{Usage: usage, Frames: []Frame{
		Reasoning{"hm"}, Text{"before "}, Text{"it"}, BlockEnd{"text"}, Text{"lost"}, Applied{[]string{"in-2"}},
		Text{"after"}, BlockEnd{"text"}, BlockEnd{"reasoning"}, Text{", more"},
		ToolCall{"c1", "t", `{"a":1}`}, ToolCall{"c2", "t", `{"a":`}, Finish{"tool_calls"}, Text{"never"},
	}}}})
	s := &stream{}
	got := p.Generate(t.Context(), request("o"), s).(loop.Completion)
	if got.Text != "after, more" || got.Finish != event.FinishToolCalls || got.FinishReason != "tool_calls" || got.Usage != usage || got.Veto != "" {
		t.Errorf("completion %+v", got)
	}
	want := []event.ToolCall{{ID: "c1", Name: "t", Arguments: `{"a":1}`, Closed: true}, {ID: "c2", Name: "t", Arguments: `{"a":`}}
	if !reflect.DeepEqual(got.ToolCalls, want) {
		t.Errorf("calls %+v", got.ToolCalls)
	}
	notes := []string{"reasoning hm", "text before ", "text it", "message before it", "text lost", "applied in-2", "text after", "message after", "text , more"}
	if !reflect.DeepEqual(s.notes, notes) {
		t.Errorf("the stream got %q", s.notes)
	}
	if got.ResponseBytes != int64(s.raw.Len()) || got.ResponseDigest != event.Digest([]byte(s.raw.String())) {
		t.Errorf("digest and length are not those of the raw bytes %q", s.raw.String())
	}
	if p.Requests() != 1 {
		t.Errorf("%d requests", p.Requests())
	}
}

func TestFinishIsMappedByName(t *testing.T) {
	for reason, want := range map[string]event.Finish{
		"stop": "stop", "tool_calls": "tool_calls", "length": "output_budget", "context_window": "context_window",
		"content_filter": "content_filter", "refusal": "refusal", "paused": "paused", "steered": "steered", "error": "error",
		"output_budget": "unrecognised", "max_tokens": "unrecognised", "Length": "unrecognised", "": "unrecognised",
	} {
		if got := finish(reason); got != want {
			t.Errorf("%q is %s, want %s", reason, got, want)
		}
	}
}

func TestUsageAtTheBudgetVetoesCalls(t *testing.T) {
	for _, tc := range []struct {
		reason         string
		output, budget int64
		veto           bool
	}{
		{"tool_calls", 100, 100, true}, {"tool_calls", 99, 100, false}, {"tool_calls", 100, 0, false}, {"stop", 100, 100, false},
	} {
		c := newAnswer().completion(tc.reason, &event.Usage{Output: tc.output}, tc.budget)
		if (c.Veto != "") != tc.veto || c.Finish == event.FinishOutputBudget {
			t.Errorf("%+v: %+v", tc, c)
		}
	}
}

func TestEndsWithoutATerminalFrame(t *testing.T) {
	for name, tc := range map[string]struct {
		frames []Frame
		want   loop.Outcome
	}{
		"drop":            {[]Frame{Text{"a"}, Drop{}, Finish{"stop"}}, loop.Uncertain{Reason: event.UnknownNoTerminal}},
		"end of script":   {[]Frame{Text{"a"}}, loop.Uncertain{Reason: event.UnknownNoTerminal}},
		"no frame at all": {nil, loop.Uncertain{Reason: event.UnknownNoTerminal}},
		"error first":     {[]Frame{Error{429, "slow"}}, loop.Failure{Dispatch: event.DispatchRejected, Code: "slow", HTTPStatus: 429}},
		"error later":     {[]Frame{Reasoning{"a"}, Error{500, "x"}}, loop.Uncertain{Reason: event.UnknownTransport}},
	} {
		p := New(Config{Gates: newGates(), Entries: []Entry{{Frames: tc.frames}}})
		got := p.Generate(t.Context(), request("o"), &stream{})
		switch g := got.(type) {
		case loop.Uncertain:
			g.Detail = ""
			got = g
		case loop.Failure:
			g.NextAction = ""
			got = g
		}
		if got != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRawBytesThatAreNotSavedEndTheRequest(t *testing.T) {
	p := New(Config{Gates: newGates(), Entries: []Entry{{Frames: []Frame{Text{"a"}, Finish{"stop"}}}}})
	s := &stream{fail: errors.New("full")}
	if got, ok := p.Generate(t.Context(), request("o"), s).(loop.Uncertain); !ok || got.Reason != event.UnknownTransport || len(s.notes) != 0 {
		t.Errorf("%+v, the stream got %q", got, s.notes)
	}
}

func TestAnErrorAfterAWaitIsStillTheFirstFrame(t *testing.T) {
	g := newGates()
	g.Open("gate")
	p := New(Config{Gates: g, Entries: []Entry{{Frames: []Frame{Wait{"gate"}, Error{429, "slow"}}}}})
	if got, ok := p.Generate(t.Context(), request("o"), &stream{}).(loop.Failure); !ok || got.Dispatch != event.DispatchRejected {
		t.Errorf("%+v", got)
	}
}

func TestTheScriptOutlivesItsConnection(t *testing.T) {
	g := newGates()
	p := New(Config{Gates: g, Entries: []Entry{
		{Frames: []Frame{Text{"a"}, Wait{"never"}, Text{"b"}, Finish{"stop"}}, Lookup: []event.Observed{event.ObservedPending, event.ObservedComplete}},
		{Frames: []Frame{Finish{"stop"}}},
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan loop.Outcome)
	go func() { done <- p.Generate(ctx, request("o1"), &stream{}) }()
	if name := <-g.arrived; name != "never" {
		t.Fatalf("it waits at %q", name)
	}
	cancel()
	if got, ok := (<-done).(loop.Uncertain); !ok || got.Reason != event.UnknownCancelled {
		t.Errorf("a lost connection gave %+v", got)
	}
	if p.Inspect(t.Context(), request("o2")).Observed != event.ObservedMissing {
		t.Error("a request that never arrived is not missing")
	}
	for i, want := range []event.Observed{event.ObservedPending, event.ObservedComplete, event.ObservedComplete} {
		got := p.Inspect(t.Context(), request("o1"))
		if got.Observed != want || (got.Completion != nil) != (want == event.ObservedComplete) {
			t.Errorf("look-up %d: %+v", i, got)
		}
		if got.Completion != nil && got.Completion.Text != "ab" {
			t.Errorf("saved text %q", got.Completion.Text)
		}
	}
	p.Generate(t.Context(), request("o2"), &stream{})
	if got := p.Inspect(t.Context(), request("o2")); got.Observed != event.ObservedUnsupported {
		t.Errorf("the default look-up says %s", got.Observed)
	}
	if got := p.Generate(ctx, request("o3"), &stream{}); p.Requests() != 2 {
		t.Errorf("a request without a connection arrived: %+v", got)
	}
}

func TestASavedFailureIsAFailure(t *testing.T) {
	got := saved(&Entry{Frames: []Frame{Text{"a"}, Error{500, "broken"}}}, 0)
	if got.Failure == nil || got.Failure.Dispatch != event.DispatchRan || got.Completion != nil {
		t.Errorf("%+v", got)
	}
	got = saved(&Entry{Frames: []Frame{Text{"a"}, Error{500, "broken"}, Text{"b"}, Finish{"stop"}}}, 0)
	if got.Completion == nil || got.Completion.Text != "ab" {
		t.Errorf("what the provider saved after the break: %+v", got)
	}
}

func TestBeyondTheLastEntry(t *testing.T) {
	beyond := 0
	cfg := Config{Gates: newGates(), OnExcess: func(loop.Request) { beyond++ }}
	if got, ok := New(cfg).Generate(t.Context(), request("o"), &stream{}).(loop.Failure); !ok || got.Dispatch != event.DispatchRejected {
		t.Errorf("%+v", got)
	}
	cfg.Excess = &Entry{Frames: []Frame{Finish{"stop"}}}
	p := New(cfg)
	if got, ok := p.Generate(t.Context(), request("o"), &stream{}).(loop.Completion); !ok || got.Finish != event.FinishStop {
		t.Errorf("%+v", got)
	}
	if beyond != 2 || p.Requests() != 1 {
		t.Errorf("%d requests beyond the script were seen", beyond)
	}
}

func TestSteering(t *testing.T) {
	g := newGates()
	p := New(Config{Gates: g, Native: true, Entries: []Entry{{Frames: []Frame{
		Steer{[]SteerAnswer{{"yes", SteerAccepted}, {"no", SteerRefused}, {"odd", SteerRaises}, {"mute", SteerHangs}}},
		Wait{"end"}, Finish{"stop"},
	}}}})
	if !p.Service().Native {
		t.Error("the service is not native")
	}
	steer := func(ctx context.Context, id string) loop.SteerAnswer {
		return p.Steer(ctx, "o", event.Input{InputID: id})
	}
	early := make(chan loop.SteerAnswer)
	go func() { early <- steer(t.Context(), "yes") }()
	<-g.arrived // it asks before the request has come, and waits for it

	done := make(chan loop.Outcome)
	go func() { done <- p.Generate(t.Context(), request("o"), &stream{}) }()
	if got := <-early; got != loop.SteerAccepted {
		t.Errorf("yes: %v", got)
	}
	if got := steer(t.Context(), "no"); got != loop.SteerRefused {
		t.Errorf("no: %v", got)
	}
	if got := steer(t.Context(), "odd"); got != loop.SteerUnknown {
		t.Errorf("odd: %v", got)
	}
	if got := steer(t.Context(), "nobody"); got != loop.SteerRefused {
		t.Errorf("an input that the script does not name: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	mute := make(chan loop.SteerAnswer)
	go func() { mute <- steer(ctx, "mute") }()
	for name := <-g.arrived; !strings.HasSuffix(name, "never"); name = <-g.arrived {
	}
	cancel()
	if got := <-mute; got != loop.SteerUnknown {
		t.Errorf("mute: %v", got)
	}
	g.Open("end")
	if _, ok := (<-done).(loop.Completion); !ok {
		t.Error("the request did not end")
	}
}

func TestSteeringWhenTheConnectionEnds(t *testing.T) {
	g := newGates()
	p := New(Config{Gates: g, Native: true, Entries: []Entry{{Frames: []Frame{
		Wait{"go"}, Drop{}, Steer{[]SteerAnswer{{"a", SteerAccepted}, {"b", SteerAccepted}}},
	}}}})
	done := make(chan loop.Outcome)
	go func() { done <- p.Generate(t.Context(), request("o"), &stream{}) }()
	<-g.arrived
	answer := make(chan loop.SteerAnswer)
	go func() { answer <- p.Steer(t.Context(), "o", event.Input{InputID: "a"}) }()
	<-g.arrived
	g.Open("go")
	<-done
	if got := <-answer; got != loop.SteerUnknown {
		t.Errorf("asked before the end: %v", got)
	}
	if got := p.Steer(t.Context(), "o", event.Input{InputID: "b"}); got != loop.SteerRefused {
		t.Errorf("asked after the end: %v", got)
	}
}
