package gemini

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// frame is one response object: of a stream's event, or the whole JSON body.
type frame struct {
	Candidates []candidate     `json:"candidates"`
	Feedback   *promptFeedback `json:"promptFeedback"`
	Usage      jsontext.Value  `json:"usageMetadata"`
	Error      jsontext.Value  `json:"error"`
}

type promptFeedback struct {
	BlockReason string `json:"blockReason"`
}

type candidate struct {
	Index        int    `json:"index"`
	Content      parts  `json:"content"`
	FinishReason string `json:"finishReason"`
}

type parts struct {
	Parts []part `json:"parts"`
}

type part struct {
	Text         string        `json:"text"`
	Thought      bool          `json:"thought"`
	FunctionCall *callFragment `json:"functionCall"`
}

// callFragment is a call, or a piece of one whose arguments are streamed.
type callFragment struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Args         jsontext.Value `json:"args"`
	PartialArgs  []partialArg   `json:"partialArgs"`
	WillContinue bool           `json:"willContinue"`
}

// answer is what the frames so far add up to.
type answer struct {
	text           []byte // candidate 0
	block          []byte // of text: since the last block ended
	reasoning      []byte
	reason         string   // candidate 0: finish reason of the last frame that had a candidate
	raw            []string // every finish reason that came, in order
	blocked        string   // the prompt's block reason
	calls          []*call
	usage          *event.Usage
	err            *fault
	conflicts      []string // evidence that contradicts itself
	otherCandidate bool     // a candidate other than 0 came
}

// call is one function call.
type call struct {
	id, name string
	args     string   // the bytes that came
	pieces   assembly // of arguments that were streamed
	streamed bool     // args come in pieces
	closed   bool     // it came whole, or its closer came
}

func (a *answer) conflict(what string) {
	if !slices.Contains(a.conflicts, what) {
		a.conflicts = append(a.conflicts, what)
	}
}

// ran reports whether anything shows that the model ran.
func (a *answer) ran() bool {
	return len(a.text)+len(a.reasoning)+len(a.calls)+len(a.raw) > 0
}

// whole reports whether the answer has the reason that its last frame must
// have.
func (a *answer) whole() bool { return a.reason != "" || a.blocked != "" }

func (a *answer) take(f frame, out Sink) {
	if !empty(f.Error) && a.err == nil {
		a.err = readFault(f.Error)
	}
	if f.Feedback != nil && f.Feedback.BlockReason != "" {
		a.blocked = f.Feedback.BlockReason
	}
	for _, c := range f.Candidates {
		if c.Index != 0 {
			a.otherCandidate = true
			continue
		}
		a.candidate(c, out)
	}
	if u := readUsage(f.Usage); u != nil {
		a.usage = u
	}
}

// candidate takes a frame of candidate 0. A reason other than STOP must be the
// last one: nothing follows a cutoff.
func (a *answer) candidate(c candidate, out Sink) {
	if a.reason != "" && a.reason != "STOP" {
		a.conflict("frame_after_finish")
	}
	for _, p := range c.Content.Parts {
		a.part(p, out)
	}
	a.reason = c.FinishReason
	if c.FinishReason != "" {
		a.raw = append(a.raw, c.FinishReason)
	}
}

func (a *answer) part(p part, out Sink) {
	switch {
	case p.FunctionCall != nil:
		if len(a.block) > 0 {
			out.Message(string(a.block))
			a.block = nil
		}
		a.call(*p.FunctionCall)
	case p.Text == "":
	case p.Thought:
		a.reasoning = append(a.reasoning, p.Text...)
		out.Delta("reasoning", p.Text)
	default:
		a.text = append(a.text, p.Text...)
		a.block = append(a.block, p.Text...)
		out.Delta("text", p.Text)
	}
}

// call takes a whole call, the beginning of one whose arguments are streamed,
// or a piece of the one that is open.
func (a *answer) call(f callFragment) {
	if open := a.open(); open != nil && open.continues(f) {
		open.add(f, a)
		return
	}
	c := &call{id: f.ID, name: f.Name, streamed: f.WillContinue || len(f.PartialArgs) > 0}
	if f.Name == "" {
		a.conflict("call_without_name")
	}
	a.calls = append(a.calls, c)
	if c.streamed {
		if !noArguments(f.Args) {
			a.conflict("arguments_twice")
		}
		c.add(f, a)
		return
	}
	c.closed, c.args = true, string(f.Args)
	if empty(f.Args) {
		c.args = "{}"
	}
}

// open is the call whose arguments are still being streamed, nil for none.
func (a *answer) open() *call {
	if n := len(a.calls); n > 0 && !a.calls[n-1].closed {
		return a.calls[n-1]
	}
	return nil
}

// continues reports whether a fragment can be a piece of this call.
func (c *call) continues(f callFragment) bool {
	return (f.Name == "" || f.Name == c.name) && (f.ID == "" || f.ID == c.id) && noArguments(f.Args)
}

func (c *call) add(f callFragment, a *answer) {
	for _, p := range f.PartialArgs {
		if !c.pieces.add(p) {
			a.conflict("unreadable_arguments")
		}
	}
	if !f.WillContinue {
		c.closed = c.pieces.closed()
	}
}

func (c *call) arguments() string {
	if c.streamed {
		return c.pieces.String()
	}
	return c.args
}

// toolCalls are the calls in the order of the wire. whole says that the answer
// came to its own end.
func (a *answer) toolCalls(whole bool) []event.ToolCall {
	var calls []event.ToolCall
	for _, c := range a.calls {
		calls = append(calls, event.ToolCall{
			ID: c.id, Name: c.name, Arguments: c.arguments(), Closed: whole && c.closed && c.name != "",
		})
	}
	return calls
}

// native is the reason as the server gave it; without one, the prompt's block
// reason.
func (a *answer) native() string {
	if a.reason == "" {
		return a.blocked
	}
	return a.reason
}

// readUsage reads usageMetadata; nil if it does not say how much was put out.
// Output holds the thoughts, which the protocol counts apart.
func readUsage(v jsontext.Value) *event.Usage {
	var u struct {
		Prompt     int64  `json:"promptTokenCount"`
		ToolPrompt int64  `json:"toolUsePromptTokenCount"`
		Candidates *int64 `json:"candidatesTokenCount"`
		Thoughts   *int64 `json:"thoughtsTokenCount"`
	}
	if empty(v) || json.Unmarshal(v, &u) != nil || u.Candidates == nil && u.Thoughts == nil {
		return nil
	}
	var candidates, thoughts int64
	if u.Candidates != nil {
		candidates = *u.Candidates
	}
	if u.Thoughts != nil {
		thoughts = *u.Thoughts
	}
	if min(u.Prompt, u.ToolPrompt, candidates, thoughts) < 0 {
		return nil
	}
	return &event.Usage{Input: u.Prompt + u.ToolPrompt, Output: candidates + thoughts, Reasoning: thoughts}
}

// empty reports whether a field is missing or null.
func empty(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

// noArguments reports whether args are missing or {}.
func noArguments(v jsontext.Value) bool {
	if empty(v) {
		return true
	}
	c := v.Clone()
	return c.Compact() == nil && string(c) == "{}"
}
