package ollama

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
)

// line is one line of an answer.
type line struct {
	Message *said `json:"message"`

	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason"`
	Prompt     *int64 `json:"prompt_eval_count"`
	Eval       *int64 `json:"eval_count"`

	Error jsontext.Value `json:"error"`
}

type said struct {
	Content   string       `json:"content"`
	Thinking  string       `json:"thinking"`
	ToolCalls []calledTool `json:"tool_calls"`
}

type calledTool struct {
	ID       string `json:"id"`
	Function struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
}

// answer is what the lines so far add up to.
type answer struct {
	text      []byte
	block     []byte // of text: since the last block ended
	reasoning []byte
	calls     []calledTool
	done      bool   // a line said done
	reason    string // its reason
	usage     *event.Usage
	failed    string // code of an error line, "" = none came
	conflicts []string
}

func (a *answer) conflict(what string) {
	if !slices.Contains(a.conflicts, what) {
		a.conflicts = append(a.conflicts, what)
	}
}

// ran reports whether anything shows that the model ran.
func (a *answer) ran() bool {
	return len(a.text)+len(a.reasoning)+len(a.calls) > 0 || a.done
}

func (a *answer) take(l line, out Sink) {
	if !empty(l.Error) {
		if a.failed == "" {
			a.failed = errorCode(l.Error)
		}
		return
	}
	if a.done {
		a.conflict("line_after_done")
		return
	}
	if l.Message == nil && !l.Done {
		a.conflict("line_without_message")
	}
	if l.Message != nil {
		a.say(*l.Message, out)
	}
	if l.Done {
		a.done, a.reason, a.usage = true, l.DoneReason, l.usage()
	}
}

func (a *answer) say(m said, out Sink) {
	if m.Thinking != "" {
		a.reasoning = append(a.reasoning, m.Thinking...)
		out.Delta("reasoning", m.Thinking)
	}
	if m.Content != "" {
		a.text = append(a.text, m.Content...)
		a.block = append(a.block, m.Content...)
		out.Delta("text", m.Content)
	}
	if len(m.ToolCalls) > 0 && len(a.block) > 0 {
		out.Message(string(a.block))
		a.block = nil
	}
	a.calls = append(a.calls, m.ToolCalls...)
}

// toolCalls are the calls in the order of the wire. whole says that the answer
// came to its own end.
func (a *answer) toolCalls(whole bool) []event.ToolCall {
	var calls []event.ToolCall
	for _, c := range a.calls {
		calls = append(calls, event.ToolCall{
			ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments),
			Closed: whole && c.Function.Name != "",
		})
	}
	return calls
}

// usage is what the line reports; nil if it does not say how much was put
// out. The server leaves a count of 0 out, and so the prompt's when all of it
// was cached.
func (l *line) usage() *event.Usage {
	if l.Eval == nil || *l.Eval < 0 {
		return nil
	}
	u := &event.Usage{Output: *l.Eval}
	if l.Prompt != nil && *l.Prompt >= 0 {
		u.Input = *l.Prompt
	}
	return u
}

// errorCode is the code of an error: the server sends prose, which is none.
func errorCode(v jsontext.Value) string {
	var s string
	var o struct {
		Code string `json:"code"`
		Type string `json:"type"`
	}
	switch v.Kind() {
	case '"':
		_ = json.Unmarshal(v, &s) // not a string with strict UTF-8: no code
	case '{':
		if json.Unmarshal(v, &o) == nil {
			s = o.Code
			if s == "" {
				s = o.Type
			}
		}
	}
	if code := httpwire.Code(s); code != "" {
		return code
	}
	return "provider_error"
}

// bodyCode is the code in the body of an answer that is not 2xx; "" if it has
// none: the status then says more.
func bodyCode(body []byte) string {
	var l line
	if json.Unmarshal(body, &l) != nil || empty(l.Error) {
		return ""
	}
	if code := errorCode(l.Error); code != "provider_error" {
		return code
	}
	return ""
}

// empty reports whether a field is missing, null or "".
func empty(v jsontext.Value) bool {
	return len(v) == 0 || v.Kind() == 'n' || string(v) == `""`
}
