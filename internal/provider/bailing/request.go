package bailing

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/loop"
)

// The hub's limits on one request.
const (
	maxMessages = 1024
	maxTools    = 128
	maxRequest  = 16 << 20 // bytes
)

const (
	temperature         = "temperature"
	toolChoice          = "tool_choice"
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// options are what Config.Extra may set of provider_options; the output budget
// is the loop's.
var options = []string{
	"top_p", "stop", "seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls",
	"response_format", "reasoning_effort", "enable_thinking", "thinking", "verbosity",
}

// modelRequest is the request's body: the hub takes no other key.
type modelRequest struct {
	OperationID    string                    `json:"operation_id"`
	ServiceID      string                    `json:"service_id"`
	ConversationID string                    `json:"conversation_id,omitzero"`
	Messages       jsontext.Value            `json:"messages"`
	Tools          jsontext.Value            `json:"tools,omitzero"`
	ToolChoice     jsontext.Value            `json:"tool_choice,omitzero"`
	Temperature    jsontext.Value            `json:"temperature,omitzero"`
	Options        map[string]jsontext.Value `json:"provider_options,omitzero"`
}

// unbuiltError is a request that the hub would not take: nothing was sent.
type unbuiltError struct {
	code string
	err  error
}

func (e *unbuiltError) Error() string { return e.err.Error() }
func (e *unbuiltError) Unwrap() error { return e.err }

func unbuilt(code, format string, args ...any) error {
	return &unbuiltError{code, fmt.Errorf("bailing: build request: "+format, args...)}
}

func notBuilt(err error) loop.Failure {
	code := "invalid_request"
	var u *unbuiltError
	if errors.As(err, &u) {
		code = u.code
	}
	return loop.Failure{Dispatch: event.DispatchNotDispatched, Code: code, NextAction: "nothing was sent: " + err.Error()}
}

// body is the request's bytes: the same for the same request and settings, as
// the hub wants it of one operation id.
func (c Config) body(p chat.Profile, req loop.Request) ([]byte, error) {
	r := modelRequest{OperationID: req.OperationID, ServiceID: c.ServiceID}
	if !usableID(req.OperationID) {
		return nil, unbuilt("invalid_operation_id", "the operation id is empty, longer than %d characters, or holds outer blanks or control characters", maxID)
	}
	if c.Conversation {
		if !usableID(req.SessionID) {
			return nil, unbuilt("invalid_conversation_id", "the session id cannot be a conversation id; set Conversation to false")
		}
		r.ConversationID = req.SessionID
	}
	var err error
	if r.Messages, err = messages(req.Messages, p.Continuation); err != nil {
		return nil, err
	}
	if r.Tools, err = tools(req.Tools); err != nil {
		return nil, err
	}
	r.settings(c.Extra)
	if req.OutputBudget > 0 {
		budget, err := json.Marshal(req.OutputBudget)
		if err != nil {
			return nil, unbuilt("invalid_request", "%w", err)
		}
		r.option(p.BudgetField, budget)
	}
	b, err := json.Marshal(r, json.Deterministic(true))
	switch {
	case err != nil:
		return nil, unbuilt("invalid_request", "%w", err)
	case len(b) > maxRequest:
		return nil, unbuilt("request_too_large", "%d bytes, the hub takes %d; shorten the context", len(b), maxRequest)
	}
	return b, nil
}

func (r *modelRequest) settings(extra map[string]event.RawJSON) {
	for name, value := range extra {
		switch {
		case name == temperature:
			r.Temperature = value
		case name != toolChoice:
			r.option(name, value)
		case len(r.Tools) > 0:
			r.ToolChoice = value
		}
	}
}

func (r *modelRequest) option(name string, value jsontext.Value) {
	if r.Options == nil {
		r.Options = map[string]jsontext.Value{}
	}
	r.Options[name] = value
}

func messages(in []loop.Message, form chat.Continuation) (jsontext.Value, error) {
	all, err := chat.Messages(in, form)
	if err != nil {
		return nil, unbuilt("invalid_history", "%w", err)
	}
	var each []jsontext.Value
	if err := json.Unmarshal(all, &each); err != nil {
		return nil, unbuilt("invalid_history", "%w", err)
	}
	if len(each) > maxMessages {
		return nil, unbuilt("too_many_messages", "%d messages, the hub takes %d; summarise the context", len(each), maxMessages)
	}
	return all, nil
}

func tools(specs []loop.ToolSpec) (jsontext.Value, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	if len(specs) > maxTools {
		return nil, unbuilt("too_many_tools", "%d tools, the hub takes %d; offer fewer", len(specs), maxTools)
	}
	all, err := chat.Tools(specs)
	if err != nil {
		return nil, unbuilt("invalid_tools", "%w", err)
	}
	return all, nil
}

// usableID reports whether the hub takes an id: not empty, not too long, no
// outer blanks, no control characters. A path of dots would be another
// address.
func usableID(id string) bool {
	return id != "" && id != "." && id != ".." && utf8.ValidString(id) && utf8.RuneCountInString(id) <= maxID &&
		strings.TrimSpace(id) == id && !strings.ContainsFunc(id, unicode.IsControl)
}
