package chat

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// chunk is one frame of a stream, or the whole of a JSON body. Fields that
// servers are known to send in more than one shape are read leniently later;
// every other surprise makes the frame unreadable.
type chunk struct {
	Object  jsontext.Value `json:"object"`
	Choices []choice       `json:"choices"`
	Usage   jsontext.Value `json:"usage"`
	Error   jsontext.Value `json:"error"`

	// of an error that is the whole object
	Code     jsontext.Value `json:"code"`
	Type     jsontext.Value `json:"type"`
	Metadata jsontext.Value `json:"metadata"`
}

type choice struct {
	Index        int            `json:"index"`
	Delta        *delta         `json:"delta"`
	Message      *delta         `json:"message"` // of a JSON body
	FinishReason string         `json:"finish_reason"`
	Filter       jsontext.Value `json:"content_filter_results"`
}

type delta struct {
	Content          jsontext.Value `json:"content"`
	ReasoningContent jsontext.Value `json:"reasoning_content"`
	Reasoning        jsontext.Value `json:"reasoning"`
	Refusal          string         `json:"refusal"`
	ToolCalls        []callDelta    `json:"tool_calls"`
	FunctionCall     *function      `json:"function_call"` // the protocol's older form
}

type callDelta struct {
	Index    *int     `json:"index"`
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// answer is what the frames so far add up to.
type answer struct {
	seen        bool     // a chunk of this protocol came
	text        []byte   // choice 0
	block       []byte   // of text: since the last block ended
	reasoning   []byte   //
	refusal     []byte   //
	reasons     []string // choice 0: distinct native finish reasons, in order
	raw         []string // the same, repetitions included
	calls       map[int]*call
	usage       *event.Usage
	err         *fault
	conflicts   []string // evidence that contradicts itself
	otherChoice bool     // a choice other than 0 came
	filtered    bool     // a content filter struck
}

// call is one tool call, keyed by its index.
type call struct {
	id, name  string
	arguments []byte
}

func (a *answer) conflict(what string) {
	if !slices.Contains(a.conflicts, what) {
		a.conflicts = append(a.conflicts, what)
	}
}

// ran reports whether anything shows that the model ran.
func (a *answer) ran() bool {
	return len(a.text)+len(a.reasoning)+len(a.refusal)+len(a.calls)+len(a.reasons) > 0
}

func (a *answer) take(c chunk, isError, afterDone bool, p Profile, out Sink) {
	a.seen = a.seen || c.Choices != nil
	if e := c.fault(isError); e != nil && a.err == nil {
		a.err = e
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			a.otherChoice = true
			continue
		}
		a.choice(ch, afterDone, out)
	}
	if u := readUsage(c.Usage); u != nil {
		a.usage = u
	}
}

func (a *answer) choice(ch choice, afterDone bool, out Sink) {
	closed := afterDone || len(a.reasons) > 0
	before := a.output()
	for _, d := range []*delta{ch.Delta, ch.Message} {
		if d != nil {
			a.delta(d, out)
		}
	}
	if closed && a.output() != before {
		a.conflict("output_after_finish")
	}
	if filterStruck(ch.Filter) {
		a.filtered = true
	}
	if ch.FinishReason == "" {
		return
	}
	a.raw = append(a.raw, ch.FinishReason)
	if !slices.Contains(a.reasons, ch.FinishReason) {
		a.reasons = append(a.reasons, ch.FinishReason)
		if afterDone {
			a.conflict("reason_after_done")
		}
	}
}

// output counts what was put out, to tell whether a delta held any.
func (a *answer) output() int {
	n := len(a.text) + len(a.reasoning) + len(a.refusal) + len(a.calls)
	for _, c := range a.calls {
		n += len(c.arguments)
	}
	return n
}

func (a *answer) delta(d *delta, out Sink) {
	reasoning := lenientString(d.ReasoningContent)
	if reasoning == "" {
		reasoning = lenientString(d.Reasoning)
	}
	if reasoning != "" {
		a.reasoning = append(a.reasoning, reasoning...)
		out.Delta("reasoning", reasoning)
	}
	text, ok := contentText(d.Content)
	if !ok {
		a.conflict("unreadable_content")
	}
	if text != "" {
		a.text = append(a.text, text...)
		a.block = append(a.block, text...)
		out.Delta("text", text)
	}
	a.refusal = append(a.refusal, d.Refusal...)
	for _, c := range d.ToolCalls {
		a.call(c, out)
	}
	if d.FunctionCall != nil {
		legacy := 0
		a.call(callDelta{Index: &legacy, Function: *d.FunctionCall}, out)
	}
}

// call adds a delta to the call of its index. An empty id or name never
// overwrites one; a different one is a contradiction.
func (a *answer) call(d callDelta, out Sink) {
	index := a.index(d)
	c := a.calls[index]
	if c == nil {
		c = &call{}
		a.calls[index] = c
		if len(a.block) > 0 {
			out.Message(string(a.block))
			a.block = nil
		}
	}
	if !keepFirst(&c.id, d.ID) || !keepFirst(&c.name, d.Function.Name) {
		a.conflict("call_changed")
	}
	c.arguments = append(c.arguments, d.Function.Arguments...)
}

// index is the call that a delta belongs to. Without an index (JSON bodies, some
// servers that send a call whole) the id tells.
func (a *answer) index(d callDelta) int {
	if d.Index != nil {
		return *d.Index
	}
	if d.ID == "" {
		a.conflict("call_without_index")
	}
	next := 0
	for index, c := range a.calls {
		if d.ID != "" && c.id == d.ID {
			return index
		}
		next = max(next, index+1)
	}
	return next
}

// keepFirst sets an empty *s, and reports whether next agrees with it.
func keepFirst(s *string, next string) bool {
	if *s == "" {
		*s = next
	}
	return next == "" || next == *s
}

// toolCalls are the calls in the order of their index. whole says that the
// protocol closed what came.
func (a *answer) toolCalls(whole bool) []event.ToolCall {
	var calls []event.ToolCall
	for _, index := range slices.Sorted(maps.Keys(a.calls)) {
		c := a.calls[index]
		calls = append(calls, event.ToolCall{
			ID: c.id, Name: c.name, Arguments: string(c.arguments),
			Closed: whole && c.id != "" && c.name != "",
		})
	}
	return calls
}

// native is the finish reason as the server gave it: several are joined by a
// comma, an error without one gives its code.
func (a *answer) native() string {
	if len(a.reasons) == 0 && a.err != nil {
		return a.err.code
	}
	return strings.Join(a.reasons, ",")
}
