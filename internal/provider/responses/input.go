package responses

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/loop"
)

// continueText is the user turn that asks for the rest of a cut answer.
const continueText = "Your previous message was cut off by the output limit. " +
	"Continue it exactly where it stopped, without repeating anything and without any remark."

// message, callItem and outputItem are the items of an input array. Items
// carry no ids of the provider's: with one, the API would ask for the
// reasoning that came before it.
type message struct {
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content any    `json:"content"` // string, or parts
}

type callItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type outputItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

// Input writes a context as the protocol's input array.
//
//  1. A message without text and without calls is left out.
//  2. A call that no tool message answers is left out: a server would refuse
//     the history. An answer without its call is an error: nothing is lost in
//     silence.
//  3. A cut message is continued by the turn that follows; before another
//     assistant message, or at the end, by a user turn that asks to go on.
//     There is no prefill in this protocol.
func Input(in []loop.Message) (jsontext.Value, error) {
	w := writer{out: []any{}}
	for i := 0; i < len(in); i++ {
		m := in[i]
		switch m.Role {
		case loop.RoleSystem:
			w.say("system", m.Text)
		case loop.RoleUser:
			content, err := userContent(m)
			if err != nil {
				return nil, err
			}
			w.say("user", content)
		case loop.RoleAssistant:
			answers := answersTo(in, i)
			if err := w.assistant(m, answers); err != nil {
				return nil, err
			}
			i += len(answers)
		case loop.RoleTool:
			return nil, fmt.Errorf("responses: build input: %w: the result of call %q does not follow its call", errHistory, m.ToolCallID)
		default:
			return nil, fmt.Errorf("responses: build input: %w: role %q is not known", errHistory, m.Role)
		}
	}
	w.goOn()
	return w.array()
}

// answersTo are the tool messages right after message i.
func answersTo(in []loop.Message, i int) []loop.Message {
	end := i + 1
	for end < len(in) && in[end].Role == loop.RoleTool {
		end++
	}
	return in[i+1 : end]
}

// writer gathers items; cut says that the last of them is an assistant's text
// that the output budget cut.
type writer struct {
	out []any
	cut bool
}

func (w *writer) array() (jsontext.Value, error) {
	b, err := json.Marshal(w.out, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("responses: build input: %w", err)
	}
	return b, nil
}

func (w *writer) say(role string, content any) {
	w.out = append(w.out, message{Type: "message", Role: role, Content: content})
	w.cut = false
}

func (w *writer) goOn() {
	if w.cut {
		w.say("user", continueText)
	}
}

func (w *writer) assistant(m loop.Message, answers []loop.Message) error {
	calls, err := answered(m, answers)
	if err != nil {
		return err
	}
	if m.Text == "" && len(calls) == 0 {
		return nil
	}
	w.goOn()
	if m.Text != "" {
		w.say("assistant", m.Text)
	}
	for _, c := range calls {
		w.out = append(w.out, c)
	}
	w.results(answers)
	w.cut = m.Partial && len(calls) == 0
	return nil
}

func (w *writer) results(answers []loop.Message) {
	for _, a := range answers {
		w.out = append(w.out, outputItem{Type: "function_call_output", CallID: a.ToolCallID, Output: a.Text})
	}
}

// answered are the calls of a message that have an answer.
func answered(m loop.Message, answers []loop.Message) ([]callItem, error) {
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
			return nil, fmt.Errorf("responses: build input: %w: the result of call %q does not follow its call", errHistory, a.ToolCallID)
		}
		done[k] = true
	}
	var calls []callItem
	for i, c := range m.ToolCalls {
		if done[i] {
			calls = append(calls, callItem{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
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
		parts = append(parts, textPart{Type: "input_text", Text: m.Text})
	}
	for i, a := range m.Attachments {
		if !a.IsValid() || a.Kind() != '{' {
			return nil, fmt.Errorf("responses: build input: %w: attachment %d is not a JSON object; send a content part", errHistory, i+1)
		}
		parts = append(parts, a)
	}
	return parts, nil
}
