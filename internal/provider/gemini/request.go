package gemini

import (
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
	system, contents, err := c.contents(req.Messages)
	if err != nil {
		return nil, err
	}
	var fields []field
	if len(system.Parts) > 0 {
		fields = append(fields, field{"systemInstruction", system})
	}
	fields = append(fields, field{"contents", contents})
	if len(req.Tools) > 0 {
		fields = append(fields, field{"tools", c.tools(req.Tools)})
	}
	generation, err := c.generation(req.OutputBudget)
	if err != nil {
		return nil, err
	}
	if len(generation) > 0 {
		fields = append(fields, field{"generationConfig", generation})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		if name != "generationConfig" {
			fields = append(fields, field{name, c.Extra[name]})
		}
	}
	b, err := object(fields)
	if err != nil {
		return nil, fmt.Errorf("gemini: build request: %w", err)
	}
	return b, nil
}

// generation is the generationConfig of the settings with the output budget.
func (c Config) generation(budget int64) (map[string]jsontext.Value, error) {
	out := map[string]jsontext.Value{}
	if v, ok := c.Extra["generationConfig"]; ok {
		if v.Kind() != '{' || json.Unmarshal(v, &out) != nil {
			return nil, errors.New("gemini: config: Extra: generationConfig is not a JSON object")
		}
	}
	for _, name := range ownGeneration {
		if _, ok := out[name]; ok {
			return nil, fmt.Errorf("gemini: config: Extra: generationConfig may not set %s: the adapter does", name)
		}
	}
	if budget > 0 {
		out["maxOutputTokens"] = fmt.Appendf(nil, "%d", budget)
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

// content is one entry of contents, or the system instruction.
type content struct {
	Role  string `json:"role,omitzero"`
	Parts []any  `json:"parts"` // parts, and attachments as they came
}

type textPart struct {
	Text string `json:"text"`
}

type callPart struct {
	FunctionCall     functionCall `json:"functionCall"`
	ThoughtSignature string       `json:"thoughtSignature,omitzero"`
}

type functionCall struct {
	ID   string         `json:"id,omitzero"`
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type resultPart struct {
	FunctionResponse functionResponse `json:"functionResponse"`
}

type functionResponse struct {
	ID       string     `json:"id,omitzero"`
	Name     string     `json:"name"`
	Response resultText `json:"response"`
}

// resultText is a tool's result: the protocol wants an object, and names this
// member for it.
type resultText struct {
	Output string `json:"output"`
}

// contents writes a context as the protocol's system instruction and contents
// array.
//
//  1. User and model take turns: neighbours of one role are one content.
//  2. The results of one model content's calls stand in the next user content,
//     in the order of the calls, before the texts of inputs. A call without a
//     result is left out; a result without its call is an error: nothing is
//     lost in silence.
//  3. A cut message is continued by the user content that follows, else by one
//     that asks to go on: the protocol documents no prefill.
func (c Config) contents(in []loop.Message) (system content, contents []content, err error) {
	w := writer{cfg: c}
	for i := 0; i < len(in); i++ {
		m := in[i]
		switch m.Role {
		case loop.RoleSystem:
			if m.Text != "" {
				system.Parts = append(system.Parts, textPart{m.Text})
			}
		case loop.RoleUser:
			if err := w.user(m); err != nil {
				return content{}, nil, err
			}
		case loop.RoleAssistant:
			answers := 0
			for answers < len(in)-i-1 && in[i+1+answers].Role == loop.RoleTool {
				answers++
			}
			if err := w.model(m, in[i+1:i+1+answers]); err != nil {
				return content{}, nil, err
			}
			i += answers
		case loop.RoleTool:
			return content{}, nil, unpaired(m)
		default:
			return content{}, nil, fmt.Errorf("gemini: build contents: %w: role %q is not known", errHistory, m.Role)
		}
	}
	w.goOn()
	if len(w.out) == 0 || w.out[0].Role != "user" {
		return content{}, nil, fmt.Errorf("gemini: build contents: %w: it does not begin with a message of the user", errHistory)
	}
	return system, w.out, nil
}

func unpaired(m loop.Message) error {
	return fmt.Errorf("gemini: build contents: %w: the result of call %q does not follow its call", errHistory, m.ToolCallID)
}

// writer gathers contents; cut says that the last of them is a model's that
// the output budget cut.
type writer struct {
	cfg Config
	out []content
	cut bool
}

// add appends a part to the last content if it has this role, else to a new
// one.
func (w *writer) add(role string, part any) {
	w.cut = false
	if last := len(w.out) - 1; last >= 0 && w.out[last].Role == role {
		w.out[last].Parts = append(w.out[last].Parts, part)
		return
	}
	w.out = append(w.out, content{Role: role, Parts: []any{part}})
}

// goOn asks for the rest of a cut answer that nothing else continues.
func (w *writer) goOn() {
	if w.cut {
		w.add("user", textPart{continueText})
	}
}

func (w *writer) user(m loop.Message) error {
	if m.Text != "" {
		w.add("user", textPart{m.Text})
	}
	for i, a := range m.Attachments {
		if !a.IsValid() || a.Kind() != '{' {
			return fmt.Errorf("gemini: build contents: %w: attachment %d is not a JSON object; send a part", errHistory, i+1)
		}
		w.add("user", a)
	}
	return nil
}

func (w *writer) model(m loop.Message, answers []loop.Message) error {
	calls, results, err := paired(m, answers)
	if err != nil {
		return err
	}
	if m.Text == "" && len(calls) == 0 {
		return nil
	}
	w.goOn()
	if m.Text != "" {
		w.add("model", textPart{m.Text})
	}
	for i, call := range calls {
		args := jsontext.Value(call.Arguments)
		if !args.IsValid() || args.Kind() != '{' {
			return fmt.Errorf("gemini: build contents: %w: the arguments of call %q are not a JSON object", errHistory, call.ID)
		}
		part := callPart{FunctionCall: functionCall{ID: w.id(call.ID), Name: call.Name, Args: args}}
		if i == 0 && w.cfg.Signature != NoSignature {
			part.ThoughtSignature = w.cfg.Signature
		}
		w.add("model", part)
	}
	for i, result := range results {
		w.add("user", resultPart{functionResponse{ID: w.id(calls[i].ID), Name: calls[i].Name, Response: resultText{result}}})
	}
	w.cut = m.Partial && len(calls) == 0
	return nil
}

func (w *writer) id(id string) string {
	if w.cfg.OmitCallIDs {
		return ""
	}
	return id
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

type tool struct {
	Declarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	OpenAPI     jsontext.Value `json:"parameters,omitzero"`
	JSONSchema  jsontext.Value `json:"parametersJsonSchema,omitzero"`
}

// tools is the protocol's tools array. A tool without a schema takes no
// arguments: the protocol then wants the field left out.
func (c Config) tools(specs []loop.ToolSpec) []tool {
	var t tool
	for _, s := range specs {
		d := declaration{Name: s.Name, Description: s.Description, JSONSchema: s.Parameters}
		if c.OpenAPISchemas {
			d.OpenAPI, d.JSONSchema = s.Parameters, nil
		}
		t.Declarations = append(t.Declarations, d)
	}
	return []tool{t}
}
