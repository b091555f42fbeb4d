package responses

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// item is one output item, keyed by its output index: its id may change from
// event to event.
type item struct {
	kind   string
	status string   // of its last event, "" until it is done
	done   bool     //
	ids    []string // those it went by

	parts map[int]*part // kindMessage, by content index
	spoke bool          // kindReasoning: a delta came

	callID, name string // kindCall
	arguments    []byte
}

// part is one content part of a message.
type part struct {
	kind partKind
	text []byte
	told bool // the sink knows that it ended
}

type partKind int

const (
	partText partKind = iota
	partRefusal
)

const (
	kindMessage   = "message"
	kindReasoning = "reasoning"
	kindCall      = "function_call"
)

// harmless are kinds of items that a server deals with itself. Any other kind
// may wait for an answer that we cannot give.
var harmless = map[string]bool{
	kindMessage: true, kindReasoning: true, kindCall: true,
	"web_search_call": true, "file_search_call": true, "code_interpreter_call": true,
	"image_generation_call": true, "mcp_call": true, "mcp_list_tools": true, "compaction": true,
}

type itemObject struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Status    jsontext.Value `json:"status"`
	CallID    jsontext.Value `json:"call_id"`
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Content   jsontext.Value `json:"content"`
	Summary   jsontext.Value `json:"summary"`
}

type partObject struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// output folds an event about an item.
func (a *answer) output(e eventObject, out Sink) {
	if a.gone[e.ItemID] {
		return
	}
	delta := lenientString(e.Delta)
	switch e.Type {
	case "response.output_item.added", "response.output_item.done":
		a.item(e.OutputIndex, e.Item, e.Type == "response.output_item.done", out)
		return
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		it := a.at(e, kindReasoning)
		it.spoke = true
		a.think(delta, out)
		return
	case "response.output_text.delta":
		a.at(e, kindMessage).part(a, e.ContentIndex, partText).grow(delta, out)
	case "response.output_text.done":
		p := a.at(e, kindMessage).part(a, e.ContentIndex, partText)
		a.settle(p.settle(lenientString(e.Text), out))
		p.announce(out)
	case "response.refusal.delta":
		a.at(e, kindMessage).part(a, e.ContentIndex, partRefusal).grow(delta, out)
	case "response.refusal.done":
		p := a.at(e, kindMessage).part(a, e.ContentIndex, partRefusal)
		a.settle(p.settle(lenientString(e.Refusal), out))
	case "response.function_call_arguments.delta":
		it := a.at(e, kindCall)
		it.arguments = append(it.arguments, delta...)
	case "response.function_call_arguments.done":
		a.settle(a.at(e, kindCall).settleArguments(lenientString(e.Arguments)))
	}
}

func (a *answer) settle(agrees bool) {
	if !agrees {
		a.conflict("deltas_differ")
	}
}

func (a *answer) think(text string, out Sink) {
	if text != "" {
		a.reasoning = append(a.reasoning, text...)
		out.Delta("reasoning", text)
	}
}

// at is the item that an event adds to.
func (a *answer) at(e eventObject, kind string) *item {
	it := a.open(e.OutputIndex, kind, e.ItemID)
	if it.done {
		a.conflict("output_after_done")
	}
	return it
}

func (a *answer) open(index int, kind, id string) *item {
	if a.ended() {
		a.conflict("output_after_end")
	}
	it := a.items[index]
	if it == nil {
		it = &item{kind: kind, parts: map[int]*part{}}
		a.items[index] = it
	}
	if it.kind != kind {
		a.conflict("item_changed")
	}
	if id != "" && !slices.Contains(it.ids, id) {
		it.ids = append(it.ids, id)
	}
	return it
}

// item takes an item as its events carry it. Its content counts when it is
// done: before, deltas bring it.
func (a *answer) item(index int, raw jsontext.Value, done bool, out Sink) {
	var o itemObject
	if json.Unmarshal(raw, &o) != nil || o.Type == "" {
		a.conflict("unreadable_event")
		return
	}
	if a.gone[o.ID] {
		return
	}
	if !harmless[o.Type] {
		a.conflict("unknown_item")
	}
	it := a.open(index, o.Type, o.ID)
	if !keepFirst(&it.callID, lenientString(o.CallID)) || !keepFirst(&it.name, lenientString(o.Name)) {
		a.conflict("call_changed")
	}
	if !done {
		return
	}
	it.done = true
	it.status = lenientString(o.Status)
	switch o.Type {
	case kindMessage:
		a.content(it, o.Content, out)
	case kindReasoning:
		if !it.spoke {
			a.think(joined(o.Summary)+joined(o.Content), out)
		}
	case kindCall:
		a.settle(it.settleArguments(lenientString(o.Arguments)))
	}
}

// content takes the parts of a message that is done.
func (a *answer) content(it *item, raw jsontext.Value, out Sink) {
	var parts []partObject
	if !empty(raw) && json.Unmarshal(raw, &parts) != nil {
		a.conflict("unreadable_event")
		return
	}
	for i, p := range parts {
		switch p.Type {
		case "output_text":
			a.settle(it.part(a, i, partText).settle(p.Text, out))
		case "refusal":
			a.settle(it.part(a, i, partRefusal).settle(p.Refusal, out))
		default:
			a.conflict("unknown_part")
		}
	}
	it.announce(out)
}

// joined is the text of a reasoning item's parts.
func joined(raw jsontext.Value) string {
	var parts []partObject
	if empty(raw) || json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func (it *item) part(a *answer, index int, kind partKind) *part {
	p := it.parts[index]
	if p == nil {
		p = &part{kind: kind}
		it.parts[index] = p
	}
	if p.kind != kind {
		a.conflict("part_changed")
	}
	return p
}

// announce tells of the message's text parts that have ended.
func (it *item) announce(out Sink) {
	for _, index := range slices.Sorted(maps.Keys(it.parts)) {
		it.parts[index].announce(out)
	}
}

// write appends the parts of one kind, in order.
func (it *item) write(b *strings.Builder, kind partKind) {
	if it.kind != kindMessage {
		return
	}
	for _, index := range slices.Sorted(maps.Keys(it.parts)) {
		if p := it.parts[index]; p.kind == kind {
			b.Write(p.text)
		}
	}
}

// settleArguments takes the arguments as a whole, and reports whether they
// agree with the deltas.
func (it *item) settleArguments(whole string) bool {
	if len(it.arguments) == 0 {
		it.arguments = []byte(whole)
	}
	return whole == "" || whole == string(it.arguments)
}

func (p *part) grow(text string, out Sink) {
	p.text = append(p.text, text...)
	if text != "" && p.kind == partText {
		out.Delta("text", text)
	}
}

// settle takes the part's text as a whole, and reports whether it agrees with
// the deltas.
func (p *part) settle(whole string, out Sink) bool {
	if len(p.text) == 0 {
		p.grow(whole, out)
	}
	return whole == "" || whole == string(p.text)
}

func (p *part) announce(out Sink) {
	if p.told || p.kind != partText || len(p.text) == 0 {
		return
	}
	p.told = true
	out.Message(string(p.text))
}

// keepFirst sets an empty *s, and reports whether next agrees with it.
func keepFirst(s *string, next string) bool {
	if *s == "" {
		*s = next
	}
	return next == "" || next == *s
}
