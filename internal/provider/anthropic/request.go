package anthropic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

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
func (c Config) body(req loop.Request) ([]byte, error) {
	system, messages, err := Messages(req.Messages, c.Prefill == PrefillYes)
	if err != nil {
		return nil, err
	}
	budget := req.OutputBudget
	if budget <= 0 {
		budget = c.MaxTokens
	}
	fields := []field{{"model", c.Model}, {"max_tokens", budget}, {"stream", true}}
	if system != "" {
		fields = append(fields, field{"system", system})
	}
	fields = append(fields, field{"messages", messages})
	if len(req.Tools) > 0 {
		fields = append(fields, field{"tools", tools(req.Tools)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		fields = append(fields, field{name, c.Extra[name]})
	}
	b, err := object(fields)
	if err != nil {
		return nil, fmt.Errorf("anthropic: build request: %w", err)
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
	Role    string `json:"role"`
	Content []any  `json:"content"` // blocks, and attachments as they came
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolUse struct {
	Type  string         `json:"type"`
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content,omitzero"`
}

// Messages writes a context as the protocol's system text and messages array.
//
//  1. User and assistant take turns: neighbours of one role are one message.
//  2. The results of one assistant message's calls stand first in the next user
//     message, before the texts of inputs. A call without a result is left out;
//     a result without its call is an error: nothing is lost in silence.
//  3. A text of blank space alone is left out of an assistant message: a server
//     would refuse it.
//  4. A cut message is continued: by the user message that follows; else by a
//     user message that asks to go on, or, with prefill, by being the last one.
//     A prefill may not end in blank space, so such a text is continued by a
//     user message.
func Messages(in []loop.Message, prefill bool) (system string, messages jsontext.Value, err error) {
	w := writer{prefill: prefill}
	var systems []string
	for i := 0; i < len(in); i++ {
		m := in[i]
		switch m.Role {
		case loop.RoleSystem:
			if m.Text != "" {
				systems = append(systems, m.Text)
			}
		case loop.RoleUser:
			if err := w.user(m); err != nil {
				return "", nil, err
			}
		case loop.RoleAssistant:
			answers := 0
			for answers < len(in)-i-1 && in[i+1+answers].Role == loop.RoleTool {
				answers++
			}
			if err := w.assistant(m, in[i+1:i+1+answers]); err != nil {
				return "", nil, err
			}
			i += answers
		case loop.RoleTool:
			return "", nil, unpaired(m)
		default:
			return "", nil, fmt.Errorf("anthropic: build messages: %w: role %q is not known", errHistory, m.Role)
		}
	}
	w.end()
	if len(w.out) == 0 || w.out[0].Role != "user" {
		return "", nil, fmt.Errorf("anthropic: build messages: %w: it does not begin with a message of the user", errHistory)
	}
	b, err := json.Marshal(w.out)
	if err != nil {
		return "", nil, fmt.Errorf("anthropic: build messages: %w", err)
	}
	return strings.Join(systems, "\n\n"), b, nil
}

func unpaired(m loop.Message) error {
	return fmt.Errorf("anthropic: build messages: %w: the result of call %q does not follow its call", errHistory, m.ToolCallID)
}

// writer gathers messages; cut is the text of the last of them if it is an
// assistant's that the output budget cut.
type writer struct {
	prefill bool
	out     []message
	cut     string
}

// add appends a block to the last message if it has this role, else to a new
// one.
func (w *writer) add(role string, block any) {
	w.cut = ""
	if last := len(w.out) - 1; last >= 0 && w.out[last].Role == role {
		w.out[last].Content = append(w.out[last].Content, block)
		return
	}
	w.out = append(w.out, message{Role: role, Content: []any{block}})
}

func (w *writer) text(role, text string) { w.add(role, textBlock{Type: "text", Text: text}) }

func (w *writer) user(m loop.Message) error {
	if !blank(m.Text) {
		w.text("user", m.Text)
	}
	for i, a := range m.Attachments {
		if !a.IsValid() || a.Kind() != '{' {
			return fmt.Errorf("anthropic: build messages: %w: attachment %d is not a JSON object; send a content block", errHistory, i+1)
		}
		w.add("user", a)
	}
	return nil
}

func (w *writer) assistant(m loop.Message, answers []loop.Message) error {
	calls, err := answered(m, answers)
	if err != nil {
		return err
	}
	if blank(m.Text) && len(calls) == 0 {
		return nil
	}
	text := m.Text
	switch {
	case w.cut == "":
	case w.prefill && !trailing(w.cut):
		text = w.cut + text
		w.dropLast()
	default:
		w.text("user", continueText)
	}
	if !blank(text) {
		w.text("assistant", text)
	}
	for _, c := range calls {
		w.add("assistant", c)
	}
	for _, a := range answers {
		w.add("user", toolResult{Type: "tool_result", ToolUseID: a.ToolCallID, Content: a.Text})
	}
	if m.Partial && len(calls) == 0 {
		w.cut = text
	}
	return nil
}

// dropLast takes the last block away.
func (w *writer) dropLast() {
	last := &w.out[len(w.out)-1]
	last.Content = last.Content[:len(last.Content)-1]
	if len(last.Content) == 0 {
		w.out = w.out[:len(w.out)-1]
	}
}

func (w *writer) end() {
	if w.cut != "" && (!w.prefill || trailing(w.cut)) {
		w.text("user", continueText)
	}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// trailing reports whether s ends in blank space.
func trailing(s string) bool { return strings.TrimRightFunc(s, unicode.IsSpace) != s }

// answered are the calls of a message that have a result.
func answered(m loop.Message, answers []loop.Message) ([]toolUse, error) {
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
			return nil, unpaired(a)
		}
		done[k] = true
	}
	var calls []toolUse
	for i, c := range m.ToolCalls {
		if !done[i] {
			continue
		}
		input := jsontext.Value(c.Arguments)
		if !input.IsValid() || input.Kind() != '{' {
			return nil, fmt.Errorf("anthropic: build messages: %w: the arguments of call %q are not a JSON object", errHistory, c.ID)
		}
		calls = append(calls, toolUse{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input})
	}
	return calls, nil
}

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
}

// tools is the protocol's tools array.
func tools(specs []loop.ToolSpec) []tool {
	out := make([]tool, 0, len(specs))
	for _, s := range specs {
		schema := s.Parameters
		if len(schema) == 0 {
			schema = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		out = append(out, tool{Name: s.Name, Description: s.Description, InputSchema: schema})
	}
	return out
}
