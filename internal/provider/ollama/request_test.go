package ollama

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func TestBody(t *testing.T) {
	req := loop.Request{
		OperationID:  "op-1",
		OutputBudget: 64,
		Messages: []loop.Message{
			{Role: loop.RoleSystem, Text: "Be brief."},
			{Role: loop.RoleUser, Text: "Look <here> & there", Attachments: []event.RawJSON{event.RawJSON(`{"type":"image","mimeType":"image/png","data":"AA=="}`)}},
			{Role: loop.RoleAssistant, Text: "I look.", ToolCalls: []event.ToolCall{
				{ID: "c1", Name: "f", Arguments: `{"n":12345678901234567890}`, Closed: true},
				{ID: "c2", Name: "g", Arguments: `{}`, Closed: true},
			}},
			{Role: loop.RoleTool, ToolCallID: "c1", Tool: "f", Text: "42"},
			{Role: loop.RoleTool, ToolCallID: "c2", Tool: "g", Text: ""},
			{Role: loop.RoleUser, Text: "And?"},
		},
		Tools: []loop.ToolSpec{
			{Name: "f", Description: "finds", Parameters: event.RawJSON(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "g"},
		},
	}
	cfg := Config{Model: "m", Extra: map[string]event.RawJSON{"options": event.RawJSON(`{"num_ctx":8192}`), "think": event.RawJSON("false")}}
	const start = `{"model":"m","stream":true,"truncate":false,"shift":false,"messages":[`
	const want = start +
		`{"role":"system","content":"Be brief."},` +
		`{"role":"user","content":"Look <here> & there","images":["AA=="]},` +
		`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","function":{"index":0,"name":"f","arguments":{"n":12345678901234567890}}},{"id":"c2","function":{"index":1,"name":"g","arguments":{}}}]},` +
		`{"role":"tool","content":"42","tool_name":"f","tool_call_id":"c1"},` +
		`{"role":"tool","content":"","tool_name":"g","tool_call_id":"c2"},` +
		`{"role":"user","content":"And?"}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"finds","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],` +
		`"options":{"num_ctx":8192,"num_predict":64},"think":false}`
	for range 20 {
		b, err := cfg.body(req)
		if err != nil || string(b) != want {
			t.Fatalf("body %s, error %v; want %s", b, err, want)
		}
	}
	req.OutputBudget, req.Tools, req.Messages, cfg.Extra = 0, nil, req.Messages[5:], nil
	if b, err := cfg.body(req); err != nil || string(b) != start+`{"role":"user","content":"And?"}]}` {
		t.Errorf("body %s, error %v; want nothing but the messages", b, err)
	}
}

func user(s string) loop.Message  { return loop.Message{Role: loop.RoleUser, Text: s} }
func spoke(s string) loop.Message { return loop.Message{Role: loop.RoleAssistant, Text: s} }
func gave(id string) loop.Message {
	return loop.Message{Role: loop.RoleTool, ToolCallID: id, Text: "r-" + id}
}
func cutOff(s string) loop.Message {
	return loop.Message{Role: loop.RoleAssistant, Text: s, Partial: true}
}
func calls(s string, ids ...string) loop.Message {
	m := spoke(s)
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id, Name: "f", Arguments: "{}"})
	}
	return m
}

// short writes messages as U q, A a [call:1], T r-1 of 1.
func short(messages string) string {
	return strings.NewReplacer(
		`"content":"`+continueText+`"`, "GO-ON",
		`{"role":"user",`, "(U ", `{"role":"assistant",`, "(A ", `{"role":"tool",`, "(T ", `"content":"`, "",
		`,"tool_calls":[`, " ", `{"id":"`, "call:", `","function":{"index":0,"name":"f","arguments":{}}}`, "", `","function":{"index":1,"name":"f","arguments":{}}}`, "",
		`,"tool_name":"f","tool_call_id":"`, " of ", `]}`, ")", `"}`, ")", `}`, ")", `"`, "", `,`, " ",
	).Replace(messages)
}

func TestMessages(t *testing.T) {
	partialCall := calls("a", "1")
	partialCall.Partial = true
	cases := []struct {
		name string
		in   []loop.Message
		want string
	}{
		{"plain", []loop.Message{user("q"), spoke("a"), user("r")}, "[(U q) (A a) (U r)]"},
		{"an empty answer is left out", []loop.Message{user("q"), spoke(""), user("r")}, "[(U q) (U r)]"},
		{"a call", []loop.Message{user("q"), calls("a", "1"), gave("1")}, "[(U q) (A a call:1) (T r-1 of 1)]"},
		{"results in the order of the calls", []loop.Message{user("q"), calls("", "1", "2"), gave("2"), gave("1")}, "[(U q) (A  call:1 call:2) (T r-1 of 1) (T r-2 of 2)]"},
		{"a call without a result is left out", []loop.Message{user("q"), calls("a", "1", "2"), gave("2")}, "[(U q) (A a call:2) (T r-2 of 2)]"},
		{"only calls without results", []loop.Message{user("q"), calls("", "1", "2"), user("r")}, "[(U q) (U r)]"},
		{"two calls with one id", []loop.Message{calls("", "1", "1"), gave("1"), gave("1")}, "[(A  call:1 call:1) (T r-1 of 1) (T r-1 of 1)]"},
		{"cut", []loop.Message{user("q"), cutOff("a")}, "[(U q) (A a) (U GO-ON)]"},
		{"cut twice", []loop.Message{user("q"), cutOff("a"), cutOff("b")}, "[(U q) (A a) (U GO-ON) (A b) (U GO-ON)]"},
		{"cut, then the user speaks", []loop.Message{user("q"), cutOff("a"), user("no")}, "[(U q) (A a) (U no)]"},
		{"cut, then an answer", []loop.Message{user("q"), cutOff("a"), spoke("b"), user("r")}, "[(U q) (A a) (U GO-ON) (A b) (U r)]"},
		{"cut before any text", []loop.Message{user("q"), cutOff("")}, "[(U q)]"},
		{"cut, and its calls were answered", []loop.Message{user("q"), partialCall, gave("1")}, "[(U q) (A a call:1) (T r-1 of 1)]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := Messages(c.in)
			if got := short(string(b)); err != nil || got != c.want {
				t.Errorf("messages %s (%v)\nwant     %s\nin full  %s", got, err, c.want, b)
			}
		})
	}
}

func TestMessagesRefused(t *testing.T) {
	call := calls("", "1")
	broken := calls("", "1")
	broken.ToolCalls[0].Arguments = `{"a":`
	list := calls("", "1")
	list.ToolCalls[0].Arguments = `[]`
	attach := func(s string) []loop.Message {
		return []loop.Message{{Role: loop.RoleUser, Text: "q", Attachments: []event.RawJSON{event.RawJSON(s)}}}
	}
	cases := map[string][]loop.Message{
		"nothing":                      nil,
		"a result without a call":      {user("q"), gave("1")},
		"a result of another call":     {user("q"), call, gave("2")},
		"two results of one call":      {user("q"), call, gave("1"), gave("1")},
		"a result behind a turn":       {user("q"), call, user("r"), gave("1")},
		"a role nobody knows":          {user("q"), {Role: "developer", Text: "x"}},
		"an attachment that is text":   attach(`"x"`),
		"an attachment that is none":   attach(`{`),
		"an attachment without data":   attach(`{"type":"image"}`),
		"an attachment not in base64":  attach(`{"data":"?"}`),
		"arguments that are no JSON":   {user("q"), broken, gave("1")},
		"arguments that are no object": {user("q"), list, gave("1")},
	}
	for name, in := range cases {
		if _, err := Messages(in); !errors.Is(err, errHistory) {
			t.Errorf("%s: error %v; want an invalid history", name, err)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	good := Config{Model: "m", APIKey: "sk-1"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*Config){
		"scheme":                func(c *Config) { c.BaseURL = "ftp://h" },
		"no host":               func(c *Config) { c.BaseURL = "https:///v1" },
		"credentials in URL":    func(c *Config) { c.BaseURL = "https://me:sk-1@h" },
		"key in URL":            func(c *Config) { c.BaseURL = "https://h?key=sk-1" },
		"no model":              func(c *Config) { c.Model = "" },
		"long model":            func(c *Config) { c.Model = strings.Repeat("m", maxSetting+1) },
		"key with a line end":   func(c *Config) { c.APIKey = "sk-1\n" },
		"key in headers":        func(c *Config) { c.Headers = map[string]string{"authorization": "sk-1"} },
		"idempotency key":       func(c *Config) { c.Headers = map[string]string{"idempotency-key": "1"} },
		"header with a line":    func(c *Config) { c.Headers = map[string]string{"X-A": "a\r\nb"} },
		"header without a name": func(c *Config) { c.Headers = map[string]string{"": "a"} },
		"extra of ours":         func(c *Config) { c.Extra = map[string]event.RawJSON{"shift": event.RawJSON("true")} },
		"extra that is no JSON": func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("{")} },
		"our option":            func(c *Config) { c.Extra = map[string]event.RawJSON{"options": event.RawJSON(`{"num_predict":2}`)} },
		"options of a kind":     func(c *Config) { c.Extra = map[string]event.RawJSON{"options": event.RawJSON(`[]`)} },
		"negative limit":        func(c *Config) { c.HTTP.MaxBodyBytes = -1 },
	}
	for name, spoil := range cases {
		cfg := good
		spoil(&cfg)
		_, err := New(cfg)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
	}
}

func TestRevision(t *testing.T) {
	base := Config{Model: "m", APIKey: "sk-1", Headers: map[string]string{"X-A": "1"}}
	revision := func(change func(*Config)) string {
		cfg := base
		change(&cfg)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a.Service().Revision
	}
	same := revision(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"key":          func(c *Config) { c.APIKey = "sk-2" },
		"header value": func(c *Config) { c.Headers = map[string]string{"x-a": "2"} },
		"limits":       func(c *Config) { c.HTTP.MaxBodyBytes = 1 },
		"defaults":     func(c *Config) { c.BaseURL = DefaultBaseURL },
	} {
		if revision(change) != same {
			t.Errorf("%s: the revision changes; want it the same", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"URL":         func(c *Config) { c.BaseURL = "https://i" },
		"model":       func(c *Config) { c.Model = "n" },
		"header name": func(c *Config) { c.Headers = map[string]string{"X-B": "1"} },
		"extra":       func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("1")} },
	} {
		if revision(change) == same {
			t.Errorf("%s: the revision is the same; want another", name)
		}
	}
}
