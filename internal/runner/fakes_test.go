package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// kit are the tools of the tests.
var kit = map[string]loop.Tool{
	"look":  {Effect: event.EffectRead},
	"write": {Effect: event.EffectWrite},
	"ask":   {Effect: event.EffectWrite, Approval: event.ApprovalRequired},
	"job":   {Effect: event.EffectWrite, Background: true},
}

func body(in event.Input) []byte {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return b
}

// provider answers by the last message of the context, and remembers what it
// was asked and what it said, as a provider with a look-up does. It outlives
// the runners that ask it.
type provider struct {
	answer  func(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome // nil = converse
	inspect func(ctx context.Context, req loop.Request) loop.Inspection               // nil = what was said
	steer   func(ctx context.Context, operation string, in event.Input) loop.SteerAnswer

	mu    sync.Mutex
	asked map[string]int             // requests, by operation
	said  map[string]loop.Completion // by operation
	looks map[string]int             // look-ups, by operation
}

func newProvider() *provider {
	return &provider{asked: map[string]int{}, said: map[string]loop.Completion{}, looks: map[string]int{}}
}

func (*provider) Service() loop.Service { return loop.Service{ID: "fake/1", Revision: "1"} }

func (p *provider) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	p.mu.Lock()
	p.asked[req.OperationID]++
	p.mu.Unlock()
	if p.answer != nil {
		return p.answer(ctx, req, out)
	}
	return p.converse(req, out)
}

func (p *provider) Inspect(ctx context.Context, req loop.Request) loop.Inspection {
	p.mu.Lock()
	p.looks[req.OperationID]++
	c, ok := p.said[req.OperationID]
	p.mu.Unlock()
	switch {
	case p.inspect != nil:
		return p.inspect(ctx, req)
	case ok:
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &c}
	}
	return loop.Inspection{Observed: event.ObservedMissing}
}

// steerer is a provider that can be steered.
type steerer struct{ *provider }

func (s steerer) Service() loop.Service {
	return loop.Service{ID: "fake/1", Revision: "1", Native: true}
}

func (s steerer) Steer(ctx context.Context, operation string, in event.Input) loop.SteerAnswer {
	return s.steer(ctx, operation, in)
}

// converse answers a text with a text, and calls the tools that a user names
// ("call look, write"). "cut" is cut off twice.
func (p *provider) converse(req loop.Request, out loop.Stream) loop.Outcome {
	m := lastHeard(req)
	words, calls := strings.CutPrefix(m.Text, "call ")
	switch {
	case req.Segment > 1 && req.Segment < 3, req.Segment == 1 && m.Text == "cut":
		return p.tell(req, out, loop.Completion{Finish: event.FinishOutputBudget, Text: fmt.Sprintf("part %d;", req.Segment)})
	case req.Segment > 1:
		return p.tell(req, out, loop.Completion{Finish: event.FinishStop, Text: "the end"})
	case m.Role == loop.RoleUser && calls:
		c := loop.Completion{Finish: event.FinishToolCalls}
		for i, tool := range strings.Split(words, ", ") {
			arguments := fmt.Sprintf(`{"of":%q,"n":%d}`, m.InputIDs, i)
			c.ToolCalls = append(c.ToolCalls, event.ToolCall{ID: fmt.Sprintf("%s-%d", req.OperationID, i), Name: tool, Arguments: arguments, Closed: true})
		}
		return p.tell(req, out, c)
	}
	return p.tell(req, out, loop.Completion{Finish: event.FinishStop, Text: "re: " + m.Text})
}

// lastHeard is the last message that the model did not say.
func lastHeard(req loop.Request) loop.Message {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role != loop.RoleAssistant {
			return m
		}
	}
	return loop.Message{}
}

// tell sends an answer whole, and keeps it for who looks it up.
func (p *provider) tell(req loop.Request, out loop.Stream, c loop.Completion) loop.Outcome {
	raw := []byte(string(c.Finish) + " " + c.Text)
	c.FinishReason, c.ResponseBytes, c.ResponseDigest = string(c.Finish), int64(len(raw)), event.Digest(raw)
	p.mu.Lock()
	p.said[req.OperationID] = c
	p.mu.Unlock()
	for chunk := range slices.Chunk(raw, max(len(raw)/3, 1)) {
		if err := out.Raw(chunk); err != nil {
			return loop.Uncertain{Reason: event.UnknownTransport, Detail: err.Error()}
		}
	}
	out.Delta("text", c.Text)
	if c.Text != "" {
		out.Message(c.Text)
	}
	return c
}

// mostAsked is the operation that was requested most often.
func (p *provider) mostAsked() (operation string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, n := range p.asked {
		if n > times {
			operation, times = id, n
		}
	}
	return operation, times
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, times := range p.asked {
		n += times
	}
	return n
}

// workshop runs tools, and remembers what it ran. It outlives the runners.
type workshop struct {
	call    func(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome // nil = done at once
	inspect func(ctx context.Context, req loop.ToolRequest) loop.ToolInspection

	mu  sync.Mutex
	ran map[string]int // by "tool invocation"
}

func newWorkshop() *workshop { return &workshop{ran: map[string]int{}} }

func (s *workshop) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	s.mu.Lock()
	s.ran[req.Tool+" "+req.InvocationID]++
	s.mu.Unlock()
	if s.call != nil {
		return s.call(ctx, req)
	}
	return loop.ToolOutcome{Result: "done " + req.Tool}
}

func (s *workshop) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	s.mu.Lock()
	inspect := s.inspect
	s.mu.Unlock()
	if inspect != nil {
		return inspect(ctx, req)
	}
	return loop.ToolInspection{Observed: event.ObservedUnsupported}
}

// look changes how the next look-ups are answered.
func (s *workshop) look(inspect func(context.Context, loop.ToolRequest) loop.ToolInspection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = inspect
}

// repeated are the writes that ran more than once.
func (s *workshop) repeated() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, n := range s.ran {
		if n > 1 && !strings.HasPrefix(name, "look ") {
			names = append(names, fmt.Sprintf("%s: %d times", name, n))
		}
	}
	return names
}

// clock moves only when a test moves it.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

type timer struct {
	due time.Time
	f   func()
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{due: c.now.Add(max(d, 0)), f: f}
	c.timers = append(c.timers, t)
	if d <= 0 {
		c.fire()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(have *timer) bool { return have == t })
	}
}

// armed is how many timers are not due yet.
func (c *clock) armed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// advance moves the clock; what is due by then is called.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

func (c *clock) fire() {
	c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool {
		if t.due.After(c.now) {
			return false
		}
		go t.f()
		return true
	})
}
