package anthropic

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// frame is the data of one event; which fields it has, its type says.
type frame struct {
	Type         string         `json:"type"`
	Index        *int           `json:"index"`
	Message      *startMessage  `json:"message"`
	ContentBlock *contentBlock  `json:"content_block"`
	Delta        *delta         `json:"delta"`
	Usage        jsontext.Value `json:"usage"`
	Error        jsontext.Value `json:"error"`
}

type startMessage struct {
	ID    string         `json:"id"`
	Usage jsontext.Value `json:"usage"`
}

type contentBlock struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
}

// delta is of a content block, or of the message.
type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	Thinking    string `json:"thinking"`
	StopReason  string `json:"stop_reason"`
}

// wholeMessage is a JSON body.
type wholeMessage struct {
	Type       string         `json:"type"`
	Content    []contentBlock `json:"content"`
	StopReason string         `json:"stop_reason"`
	Usage      jsontext.Value `json:"usage"`
	Error      jsontext.Value `json:"error"`
}

// answer is what the frames so far add up to.
type answer struct {
	started   bool   // message_start came
	id        string // of the message
	blocks    map[int]*block
	reasoning []byte
	reasons   []string // distinct native stop reasons, in order
	raw       []string // the same, repetitions included
	usage     usage
	err       *fault
	conflicts []string // evidence that contradicts itself
}

// block is one content block, keyed by its index.
type block struct {
	kind      string // text, tool_use, thinking, …
	id, name  string // of a call
	text      []byte // of a text: the text; of a call: its arguments as they came
	arguments jsontext.Value
	closed    bool // content_block_stop came
}

func (a *answer) conflict(what string) {
	if !slices.Contains(a.conflicts, what) {
		a.conflicts = append(a.conflicts, what)
	}
}

// ran reports whether anything shows that the model ran.
func (a *answer) ran() bool { return len(a.blocks)+len(a.reasons) > 0 }

// take folds one frame and reports whether it is the terminal one. Types that
// this version does not know are passed over, as the protocol asks.
func (a *answer) take(f frame, afterDone bool, out Sink) (terminal bool) {
	over := afterDone || len(a.reasons) > 0
	switch f.Type {
	case "message_start":
		a.start(f)
	case "content_block_start", "content_block_delta", "content_block_stop":
		if over {
			a.conflict("output_after_finish")
		}
		a.content(f, out)
	case "message_delta":
		a.messageDelta(f, afterDone)
	case "message_stop":
		return true
	case "error":
		a.fault(f.Error)
	case "":
		if empty(f.Error) {
			a.conflict("frame_without_type")
			return false
		}
		a.fault(f.Error)
	}
	return false
}

func (a *answer) fault(v jsontext.Value) {
	if a.err == nil {
		a.err = readFault(v)
	}
}

// start takes message_start. Relays are known to repeat it; another message's
// is a contradiction.
func (a *answer) start(f frame) {
	if f.Message == nil {
		a.conflict("unreadable_frame")
		return
	}
	if a.started && f.Message.ID != a.id {
		a.conflict("message_changed")
	}
	if !a.started {
		a.started, a.id = true, f.Message.ID
		a.usage.take(f.Message.Usage, false)
	}
}

func (a *answer) messageDelta(f frame, afterDone bool) {
	a.usage.take(f.Usage, true)
	if f.Delta == nil || f.Delta.StopReason == "" {
		return
	}
	if afterDone {
		a.conflict("reason_after_stop")
	}
	a.reason(f.Delta.StopReason)
}

func (a *answer) reason(r string) {
	a.raw = append(a.raw, r)
	if !slices.Contains(a.reasons, r) {
		a.reasons = append(a.reasons, r)
	}
}

func (a *answer) content(f frame, out Sink) {
	if f.Index == nil {
		a.conflict("block_without_index")
		return
	}
	b := a.blocks[*f.Index]
	switch {
	case f.Type == "content_block_start":
		if b != nil || f.ContentBlock == nil {
			a.conflict("block_repeated")
			return
		}
		a.blocks[*f.Index] = a.open(*f.ContentBlock, out)
	case b == nil, b.closed:
		a.conflict("block_not_open")
	case f.Type == "content_block_stop":
		b.close(out)
	case f.Delta != nil:
		a.delta(b, *f.Delta, out)
	}
}

// open begins a block; what its start already holds counts.
func (a *answer) open(c contentBlock, out Sink) *block {
	b := &block{kind: c.Type}
	switch c.Type {
	case "text":
		a.say(b, c.Text, out)
	case "thinking":
		a.think(c.Thinking, out)
	case "tool_use":
		b.id, b.name = c.ID, c.Name
		if !emptyObject(c.Input) {
			b.arguments = c.Input
		}
	}
	return b
}

func (a *answer) delta(b *block, d delta, out Sink) {
	switch d.Type {
	case "text_delta":
		if b.kind != "text" {
			a.conflict("delta_of_another_kind")
			return
		}
		a.say(b, d.Text, out)
	case "thinking_delta":
		a.think(d.Thinking, out)
	case "input_json_delta":
		switch b.kind {
		case "text", "thinking":
			a.conflict("delta_of_another_kind")
		case "tool_use":
			b.text = append(b.text, d.PartialJSON...)
			if len(b.text) > 0 && len(b.arguments) > 0 {
				a.conflict("arguments_twice")
			}
		}
	}
}

func (a *answer) say(b *block, text string, out Sink) {
	if text != "" {
		b.text = append(b.text, text...)
		out.Delta("text", text)
	}
}

func (a *answer) think(text string, out Sink) {
	if text != "" {
		a.reasoning = append(a.reasoning, text...)
		out.Delta("reasoning", text)
	}
}

func (b *block) close(out Sink) {
	b.closed = true
	if b.kind == "text" && len(b.text) > 0 {
		out.Message(string(b.text))
	}
}

// whole folds a JSON body, and reports whether it is a message.
func (a *answer) whole(m wholeMessage, out Sink) bool {
	if m.Type == "error" || !empty(m.Error) {
		a.fault(m.Error)
		return false
	}
	if m.Type != "message" || m.Content == nil {
		return false
	}
	a.started = true
	for i, c := range m.Content {
		b := a.open(c, out)
		b.close(out)
		if b.kind == "tool_use" {
			b.arguments = c.Input
		}
		a.blocks[i] = b
	}
	if m.StopReason != "" {
		a.reason(m.StopReason)
	}
	a.usage.take(m.Usage, true)
	return true
}

// ordered are the blocks of a kind, by index.
func (a *answer) ordered(kind string) []*block {
	var blocks []*block
	for _, index := range slices.Sorted(maps.Keys(a.blocks)) {
		if b := a.blocks[index]; b.kind == kind {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func (a *answer) text() string {
	var s strings.Builder
	for _, b := range a.ordered("text") {
		s.Write(b.text)
	}
	return s.String()
}

func (a *answer) toolCalls() []event.ToolCall {
	var calls []event.ToolCall
	for _, b := range a.ordered("tool_use") {
		arguments := string(b.text)
		if arguments == "" {
			arguments = string(b.arguments)
		}
		if arguments == "" && b.closed {
			arguments = "{}"
		}
		calls = append(calls, event.ToolCall{
			ID: b.id, Name: b.name, Arguments: arguments, Closed: b.closed && b.id != "" && b.name != "",
		})
	}
	return calls
}

// native is the stop reason as the server gave it: several are joined by a
// comma, an error without one gives its code.
func (a *answer) native() string {
	if len(a.reasons) == 0 && a.err != nil {
		return a.err.code
	}
	return strings.Join(a.reasons, ",")
}

// usage gathers what message_start and message_delta report: later numbers
// replace earlier ones.
type usage struct {
	input, created, cached, output int64
	final                          bool // the output is the whole one
}

func (u *usage) take(v jsontext.Value, final bool) {
	var n struct {
		Input   *int64 `json:"input_tokens"`
		Created *int64 `json:"cache_creation_input_tokens"`
		Read    *int64 `json:"cache_read_input_tokens"`
		Output  *int64 `json:"output_tokens"`
	}
	if empty(v) || json.Unmarshal(v, &n) != nil {
		return
	}
	replace := func(to, from *int64) {
		if from != nil && *from >= 0 {
			*to = *from
		}
	}
	replace(&u.input, n.Input)
	replace(&u.created, n.Created)
	replace(&u.cached, n.Read)
	replace(&u.output, n.Output)
	u.final = u.final || final && n.Output != nil
}

// read is the usage, nil if the whole output was never reported. Input is
// everything that was read: the protocol counts cached tokens apart.
func (u *usage) read() *event.Usage {
	if !u.final {
		return nil
	}
	return &event.Usage{Input: u.input + u.created + u.cached, Output: u.output}
}

// empty reports whether a field is missing or null.
func empty(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

func emptyObject(v jsontext.Value) bool {
	if empty(v) {
		return true
	}
	c := v.Clone()
	return c.Compact() == nil && string(c) == "{}"
}
