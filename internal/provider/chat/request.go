package chat

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/loop"
)

// continueText is the user turn that asks for the rest of a cut answer.
const continueText = "Your previous message was cut off by the output limit. " +
	"Continue it exactly where it stopped, without repeating anything and without any remark."

// errHistory is what errors about a context wrap that no server would take.
var errHistory = errors.New("invalid history")

// field is one member of a JSON object whose order is ours.
type field struct {
	name  string
	value any
}

// body is the request's bytes: the same for the same request and settings.
func (c Config) body(p Profile, req loop.Request) ([]byte, error) {
	messages, err := Messages(req.Messages, p.Continuation)
	if err != nil {
		return nil, err
	}
	fields := []field{
		{"model", c.Model},
		{"stream", true},
		{"stream_options", map[string]bool{"include_usage": true}},
		{"n", 1},
	}
	if req.OutputBudget > 0 {
		fields = append(fields, field{p.BudgetField, req.OutputBudget})
	}
	fields = append(fields, field{"messages", messages})
	if len(req.Tools) > 0 {
		tools, err := Tools(req.Tools)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{"tools", tools})
	}
	if c.Store {
		fields = append(fields, field{"store", true}, field{"metadata", map[string]string{storeKey: req.OperationID}})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		fields = append(fields, field{name, c.Extra[name]})
	}
	b, err := object(fields)
	if err != nil {
		return nil, fmt.Errorf("chat: build request: %w", err)
	}
	return b, nil
}

func object(fields []field) (jsontext.Value, error) {
	b := []byte{'{'}
	for i, f := range fields {
		v, err := json.Marshal(f.value, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = jsontext.AppendQuote(b, f.name); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.name, err)
		}
		b = append(append(b, ':'), v...)
	}
	return append(b, '}'), nil
}

// message is one entry of messages.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // string, parts, or null beside tool calls
	ToolCalls  []toolCall `json:"tool_calls,omitzero"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
	Partial    bool       `json:"partial,omitzero"`
	Prefix     bool       `json:"prefix,omitzero"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// Messages writes a context as the protocol's messages array.
//
//  1. A message without text and without calls is left out.
//  2. A call that no tool message answers is left out: a server would refuse
//     the history. An answer without its call is an error: nothing is lost in
//     silence.
//  3. A cut message is continued: by the turn that follows; before another
//     assistant message, or at the end, by a user turn that asks to go on, or
//     as a prefill, where the pieces so far are one message.
func Messages(in []loop.Message, form Continuation) (jsontext.Value, error) {
	w := writer{form: form}
	for i := 0; i < len(in); i++ {
		m := in[i]
		switch m.Role {
		case loop.RoleSystem:
			w.add(message{Role: "system", Content: m.Text})
		case loop.RoleUser:
			content, err := userContent(m)
			if err != nil {
				return nil, err
			}
			w.add(message{Role: "user", Content: content})
		case loop.RoleAssistant:
			answers := 0
			for answers < len(in)-i-1 && in[i+1+answers].Role == loop.RoleTool {
				answers++
			}
			if err := w.assistant(m, in[i+1:i+1+answers]); err != nil {
				return nil, err
			}
			i += answers
		case loop.RoleTool:
			return nil, fmt.Errorf("chat: build messages: %w: the result of call %q does not follow its call", errHistory, m.ToolCallID)
		default:
			return nil, fmt.Errorf("chat: build messages: %w: role %q is not known", errHistory, m.Role)
		}
	}
	w.end()
	b, err := json.Marshal(w.out)
	if err != nil {
		return nil, fmt.Errorf("chat: build messages: %w", err)
	}
	return b, nil
}

// writer gathers messages; cut says that the last of them is an assistant's
// that the output budget cut.
type writer struct {
	form Continuation
	out  []message
	cut  bool
}

func (w *writer) add(m message) {
	w.out = append(w.out, m)
	w.cut = false
}

func (w *writer) assistant(m loop.Message, answers []loop.Message) error {
	calls, err := answered(m, answers)
	if err != nil {
		return err
	}
	if m.Text == "" && len(calls) == 0 {
		return nil
	}
	text := m.Text
	if w.cut && w.form == ContinueUserTurn {
		w.add(message{Role: "user", Content: continueText})
	} else if w.cut {
		last := len(w.out) - 1
		before, _ := w.out[last].Content.(string)
		text = before + text
		w.out = w.out[:last]
	}
	out := message{Role: "assistant", ToolCalls: calls}
	if text != "" {
		out.Content = text
	}
	w.add(out)
	for _, a := range answers {
		w.add(message{Role: "tool", ToolCallID: a.ToolCallID, Content: a.Text})
	}
	w.cut = m.Partial && len(calls) == 0
	return nil
}

func (w *writer) end() {
	if !w.cut {
		return
	}
	last := &w.out[len(w.out)-1]
	switch w.form {
	case ContinuePartial:
		last.Partial = true
	case ContinuePrefix:
		last.Prefix = true
	default:
		w.add(message{Role: "user", Content: continueText})
	}
}

// answered are the calls of a message that have an answer.
func answered(m loop.Message, answers []loop.Message) ([]toolCall, error) {
	done := make([]bool, len(m.ToolCalls))
	for _, a := range answers {
		k := -1
		for i, c := range m.ToolCalls {
			if !done[i] && c.ID == a.ToolCallID {
				k = i
				break
			}
		}
		if k < 0 {
			return nil, fmt.Errorf("chat: build messages: %w: the result of call %q does not follow its call", errHistory, a.ToolCallID)
		}
		done[k] = true
	}
	var calls []toolCall
	for i, c := range m.ToolCalls {
		if done[i] {
			calls = append(calls, toolCall{ID: c.ID, Type: "function", Function: function{Name: c.Name, Arguments: c.Arguments}})
		}
	}
	return calls, nil
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// userContent is the text, or, with attachments, a text part and the
// attachments as they came.
func userContent(m loop.Message) (any, error) {
	if len(m.Attachments) == 0 {
		return m.Text, nil
	}
	var parts []any
	if m.Text != "" {
		parts = append(parts, textPart{Type: "text", Text: m.Text})
	}
	for i, a := range m.Attachments {
		if !a.IsValid() || a.Kind() != '{' {
			return nil, fmt.Errorf("chat: build messages: %w: attachment %d is not a JSON object; send a content part", errHistory, i+1)
		}
		parts = append(parts, a)
	}
	return parts, nil
}

type tool struct {
	Type     string   `json:"type"`
	Function toolSpec `json:"function"`
}

type toolSpec struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// Tools writes the protocol's tools array.
func Tools(specs []loop.ToolSpec) (jsontext.Value, error) {
	tools := make([]tool, 0, len(specs))
	for _, s := range specs {
		parameters := s.Parameters
		if len(parameters) == 0 {
			parameters = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, tool{Type: "function", Function: toolSpec{Name: s.Name, Description: s.Description, Parameters: parameters}})
	}
	b, err := json.Marshal(tools)
	if err != nil {
		return nil, fmt.Errorf("chat: build tools: %w", err)
	}
	return b, nil
}
