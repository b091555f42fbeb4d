package responses

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

// operationKey is the metadata under which a response names its operation.
const operationKey = "op"

// errHistory is what errors about a context wrap that no server would take.
var errHistory = errors.New("invalid history")

// field is one member of a JSON object whose order is ours.
type field struct {
	name  string
	value any
}

// body is the request's bytes for HTTP: the same for the same request and
// settings.
func (c Config) body(p Profile, req loop.Request) ([]byte, error) {
	fields := []field{{"model", c.Model}, {"stream", true}}
	if !p.Plain {
		fields = append(fields, field{"stream_options", map[string]bool{"include_obfuscation": false}})
	}
	if c.Background {
		fields = append(fields, field{"background", true})
	}
	input, err := Input(req.Messages)
	if err != nil {
		return nil, err
	}
	return c.finish(p, fields, input, req)
}

// frame is the request's bytes for a WebSocket, where streaming goes without
// saying. previous is the response whose queued steering this request lets
// through, "" = none; input is then only what it waits for.
func (c Config) frame(p Profile, req loop.Request, previous string, input jsontext.Value) ([]byte, error) {
	fields := []field{{"type", "response.create"}, {"model", c.Model}}
	if previous != "" {
		fields = append(fields, field{"previous_response_id", previous})
	}
	return c.finish(p, fields, input, req)
}

func (c Config) finish(p Profile, fields []field, input jsontext.Value, req loop.Request) ([]byte, error) {
	if !p.Plain || c.Store {
		fields = append(fields, field{"store", c.Store}, field{"metadata", map[string]string{operationKey: req.OperationID}})
	}
	if req.OutputBudget > 0 {
		fields = append(fields, field{"max_output_tokens", req.OutputBudget})
	}
	fields = append(fields, field{"input", input})
	if len(req.Tools) > 0 {
		tools, err := Tools(req.Tools)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{"tools", tools})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		fields = append(fields, field{name, c.Extra[name]})
	}
	b, err := object(fields)
	if err != nil {
		return nil, fmt.Errorf("responses: build request: %w", err)
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

type tool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

// Tools writes the protocol's tools array.
func Tools(specs []loop.ToolSpec) (jsontext.Value, error) {
	tools := make([]tool, 0, len(specs))
	for _, s := range specs {
		parameters := s.Parameters
		if len(parameters) == 0 {
			parameters = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, tool{Type: "function", Name: s.Name, Description: s.Description, Parameters: parameters})
	}
	b, err := json.Marshal(tools)
	if err != nil {
		return nil, fmt.Errorf("responses: build tools: %w", err)
	}
	return b, nil
}

func notBuilt(err error) loop.Failure {
	code := "invalid_request"
	if errors.Is(err, errHistory) {
		code = "invalid_history"
	}
	return loop.Failure{Dispatch: event.DispatchNotDispatched, Code: code, NextAction: "nothing was sent: " + err.Error()}
}
