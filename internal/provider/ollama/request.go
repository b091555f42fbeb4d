package ollama

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
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
	messages, err := Messages(req.Messages)
	if err != nil {
		return nil, err
	}
	fields := []field{
		{"model", c.Model}, {"stream", true}, {"truncate", false}, {"shift", false}, {"messages", messages},
	}
	if len(req.Tools) > 0 {
		fields = append(fields, field{"tools", tools(req.Tools)})
	}
	options, err := c.options(req.OutputBudget)
	if err != nil {
		return nil, err
	}
	if len(options) > 0 {
		fields = append(fields, field{"options", options})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		if name != "options" {
			fields = append(fields, field{name, c.Extra[name]})
		}
	}
	b, err := object(fields)
	if err != nil {
		return nil, fmt.Errorf("ollama: build request: %w", err)
	}
	return b, nil
}

// options are those of the settings with the output budget.
func (c Config) options(budget int64) (map[string]jsontext.Value, error) {
	out := map[string]jsontext.Value{}
	if v, ok := c.Extra["options"]; ok {
		if v.Kind() != '{' || json.Unmarshal(v, &out) != nil {
			return nil, errors.New("ollama: config: Extra: options is not a JSON object")
		}
	}
	if _, ok := out[budgetOption]; ok {
		return nil, errors.New("ollama: config: Extra: options may not set " + budgetOption + ": the adapter does")
	}
	if budget > 0 {
		out[budgetOption] = fmt.Appendf(nil, "%d", budget)
	}
	return out, nil
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
	Content    string     `json:"content"`
	Images     []string   `json:"images,omitzero"` // base64
	ToolCalls  []toolCall `json:"tool_calls,omitzero"`
	ToolName   string     `json:"tool_name,omitzero"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
}

type toolCall struct {
	ID       string   `json:"id,omitzero"`
	Function function `json:"function"`
}

type function struct {
	Index     int            `json:"index"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// Messages writes a context as the protocol's messages array.
//
//  1. The results of one message's calls follow it, in the order of the calls:
//     templates of older models match them by order alone. A call without a
//     result is left out; a result without its call is an error: nothing is
//     lost in silence.
//  2. A cut message is continued by the user message that follows, else by one
//     that asks to go on: whether a model continues its own last message
//     depends on its template.
//  3. An attachment is a JSON object whose data is an image in base64.
func Messages(in []loop.Message) (jsontext.Value, error) {
	var w writer
	for i := 0; i < len(in); i++ {
		m := in[i]
		switch m.Role {
		case loop.RoleSystem:
			w.add(message{Role: "system", Content: m.Text})
		case loop.RoleUser:
			images, err := images(m.Attachments)
			if err != nil {
				return nil, err
			}
			w.add(message{Role: "user", Content: m.Text, Images: images})
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
			return nil, unpaired(m)
		default:
			return nil, fmt.Errorf("ollama: build messages: %w: role %q is not known", errHistory, m.Role)
		}
	}
	w.goOn()
	if len(w.out) == 0 {
		return nil, fmt.Errorf("ollama: build messages: %w: it is empty, and would only load the model", errHistory)
	}
	b, err := json.Marshal(w.out)
	if err != nil {
		return nil, fmt.Errorf("ollama: build messages: %w", err)
	}
	return b, nil
}

func unpaired(m loop.Message) error {
	return fmt.Errorf("ollama: build messages: %w: the result of call %q does not follow its call", errHistory, m.ToolCallID)
}

// writer gathers messages; cut says that the last of them is an assistant's
// that the output budget cut.
type writer struct {
	out []message
	cut bool
}

func (w *writer) add(m message) {
	w.out = append(w.out, m)
	w.cut = false
}

// goOn asks for the rest of a cut answer that nothing else continues.
func (w *writer) goOn() {
	if w.cut {
		w.add(message{Role: "user", Content: continueText})
	}
}

func (w *writer) assistant(m loop.Message, answers []loop.Message) error {
	calls, results, err := paired(m, answers)
	if err != nil {
		return err
	}
	if m.Text == "" && len(calls) == 0 {
		return nil
	}
	w.goOn()
	out := message{Role: "assistant", Content: m.Text}
	for i, call := range calls {
		arguments := jsontext.Value(call.Arguments)
		if !arguments.IsValid() || arguments.Kind() != '{' {
			return fmt.Errorf("ollama: build messages: %w: the arguments of call %q are not a JSON object", errHistory, call.ID)
		}
		out.ToolCalls = append(out.ToolCalls, toolCall{ID: call.ID, Function: function{Index: i, Name: call.Name, Arguments: arguments}})
	}
	w.add(out)
	for i, result := range results {
		w.add(message{Role: "tool", Content: result, ToolName: calls[i].Name, ToolCallID: calls[i].ID})
	}
	w.cut = m.Partial && len(calls) == 0
	return nil
}

// paired are the calls of a message that have a result, and the results, in
// the order of the calls.
func paired(m loop.Message, answers []loop.Message) (calls []event.ToolCall, results []string, err error) {
	found := make([]*loop.Message, len(m.ToolCalls))
	for i := range answers {
		k := 0
		for k < len(found) && (found[k] != nil || m.ToolCalls[k].ID != answers[i].ToolCallID) {
			k++
		}
		if k == len(found) {
			return nil, nil, unpaired(answers[i])
		}
		found[k] = &answers[i]
	}
	for i, c := range m.ToolCalls {
		if found[i] != nil {
			calls, results = append(calls, c), append(results, found[i].Text)
		}
	}
	return calls, results, nil
}

func images(attachments []event.RawJSON) ([]string, error) {
	var images []string
	for i, a := range attachments {
		var image struct {
			Data string `json:"data"`
		}
		if json.Unmarshal(a, &image) != nil || image.Data == "" {
			return nil, fmt.Errorf("ollama: build messages: %w: attachment %d is not a JSON object with the image's base64 in data", errHistory, i+1)
		}
		if _, err := base64.StdEncoding.DecodeString(image.Data); err != nil {
			return nil, fmt.Errorf("ollama: build messages: %w: attachment %d: data: %w", errHistory, i+1, err)
		}
		images = append(images, image.Data)
	}
	return images, nil
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

// tools is the protocol's tools array.
func tools(specs []loop.ToolSpec) []tool {
	out := make([]tool, 0, len(specs))
	for _, s := range specs {
		parameters := s.Parameters
		if len(parameters) == 0 {
			parameters = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		out = append(out, tool{Type: "function", Function: toolSpec{Name: s.Name, Description: s.Description, Parameters: parameters}})
	}
	return out
}
