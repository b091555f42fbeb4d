package chat

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
			{Role: loop.RoleUser, Text: "Look <here> & there", Attachments: []event.RawJSON{event.RawJSON(`{"type":"image_url", "image_url":{"url":"data:x"}}`)}},
			{Role: loop.RoleAssistant, Text: "", ToolCalls: []event.ToolCall{{ID: "call_1", Name: "f", Arguments: "{ \"n\": 12345678901234567890 }", Closed: true}}},
			{Role: loop.RoleTool, ToolCallID: "call_1", Tool: "f", Text: "42"},
		},
		Tools: []loop.ToolSpec{
			{Name: "f", Description: "finds", Parameters: event.RawJSON(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "g"},
		},
	}
	cfg := Config{BaseURL: "http://h/v1", Model: "m", Profile: "openai", Store: true,
		Extra: map[string]event.RawJSON{"temperature": event.RawJSON("0.5"), "a": event.RawJSON(`{"b":1}`)}}
	const want = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"n":1,"max_completion_tokens":64,"messages":[` +
		`{"role":"system","content":"Be brief."},` +
		`{"role":"user","content":[{"type":"text","text":"Look <here> & there"},{"type":"image_url","image_url":{"url":"data:x"}}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{ \"n\": 12345678901234567890 }"}}]},` +
		`{"role":"tool","content":"42","tool_call_id":"call_1"}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"finds","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],` +
		`"store":true,"metadata":{"op":"op-1"},"a":{"b":1},"temperature":0.5}`
	for range 20 {
		profile, err := cfg.settings()
		if err != nil {
			t.Fatal(err)
		}
		b, err := cfg.body(profile, req)
		if err != nil || string(b) != want {
			t.Fatalf("body %s, error %v; want %s", b, err, want)
		}
	}
}

func TestMessages(t *testing.T) {
	user := func(s string) loop.Message { return loop.Message{Role: loop.RoleUser, Text: s} }
	said := func(s string) loop.Message { return loop.Message{Role: loop.RoleAssistant, Text: s} }
	cut := func(s string) loop.Message { return loop.Message{Role: loop.RoleAssistant, Text: s, Partial: true} }
	calls := func(s string, ids ...string) loop.Message {
		m := said(s)
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id, Name: "f", Arguments: "{}"})
		}
		return m
	}
	result := func(id string) loop.Message {
		return loop.Message{Role: loop.RoleTool, ToolCallID: id, Text: "r-" + id}
	}
	const goOn = `{"role":"user","content":"GO ON"}`
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}`
	}
	cases := []struct {
		name string
		form Continuation
		in   []loop.Message
		want string
	}{
		{"plain", ContinueUserTurn, []loop.Message{user("q"), said("a"), user("r")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}`},
		{"an empty answer is left out", ContinueUserTurn, []loop.Message{user("q"), said(""), user("r")},
			`{"role":"user","content":"q"},{"role":"user","content":"r"}`},
		{"cut, user turn", ContinueUserTurn, []loop.Message{user("q"), cut("a")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"a"},` + goOn},
		{"cut twice, user turn", ContinueUserTurn, []loop.Message{user("q"), cut("a"), cut("b")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"a"},` + goOn + `,{"role":"assistant","content":"b"},` + goOn},
		{"cut, then the user speaks", ContinueUserTurn, []loop.Message{user("q"), cut("a"), user("no, stop")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"no, stop"}`},
		{"cut before any text", ContinueUserTurn, []loop.Message{user("q"), cut("")},
			`{"role":"user","content":"q"}`},
		{"cut, partial", ContinuePartial, []loop.Message{user("q"), cut("a"), cut("b")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"ab","partial":true}`},
		{"cut, prefix", ContinuePrefix, []loop.Message{user("q"), cut("a")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"a","prefix":true}`},
		{"cut, prefix, then ended and over", ContinuePrefix, []loop.Message{user("q"), cut("a"), said("b"), user("r")},
			`{"role":"user","content":"q"},{"role":"assistant","content":"ab"},{"role":"user","content":"r"}`},
		{"cut, then a rest with calls", ContinuePartial, []loop.Message{cut("a"), calls("b", "1"), result("1")},
			`{"role":"assistant","content":"ab","tool_calls":[` + call("1") + `]},{"role":"tool","content":"r-1","tool_call_id":"1"}`},
		{"cut, with calls that were answered", ContinuePartial, []loop.Message{func() loop.Message { m := calls("a", "1"); m.Partial = true; return m }(), result("1")},
			`{"role":"assistant","content":"a","tool_calls":[` + call("1") + `]},{"role":"tool","content":"r-1","tool_call_id":"1"}`},
		{"a call without an answer is left out", ContinueUserTurn, []loop.Message{calls("a", "1", "2"), result("2"), user("q")},
			`{"role":"assistant","content":"a","tool_calls":[` + call("2") + `]},{"role":"tool","content":"r-2","tool_call_id":"2"},{"role":"user","content":"q"}`},
		{"only calls without answers", ContinueUserTurn, []loop.Message{calls("", "1", "2"), user("q")},
			`{"role":"user","content":"q"}`},
		{"two calls with one id", ContinueUserTurn, []loop.Message{calls("", "1", "1"), result("1"), result("1")},
			`{"role":"assistant","content":null,"tool_calls":[` + call("1") + `,` + call("1") + `]},{"role":"tool","content":"r-1","tool_call_id":"1"},{"role":"tool","content":"r-1","tool_call_id":"1"}`},
		{"nothing", ContinueUserTurn, nil, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := Messages(c.in, c.form)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(string(b), continueText, "GO ON"); got != "["+c.want+"]" {
				t.Errorf("messages %s\nwant [%s]", got, c.want)
			}
		})
	}
}

func TestMessagesRefused(t *testing.T) {
	call := loop.Message{Role: loop.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "1", Name: "f"}}}
	result := loop.Message{Role: loop.RoleTool, ToolCallID: "1", Text: "r"}
	cases := map[string][]loop.Message{
		"a result without a call":    {result},
		"a result of another call":   {call, {Role: loop.RoleTool, ToolCallID: "2"}},
		"two results of one call":    {call, result, result},
		"a result behind a turn":     {call, {Role: loop.RoleUser, Text: "q"}, result},
		"a role nobody knows":        {{Role: "developer", Text: "x"}},
		"an attachment that is text": {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`"x"`)}}},
		"an attachment that is none": {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`{`)}}},
	}
	for name, in := range cases {
		if _, err := Messages(in, ContinueUserTurn); !errors.Is(err, errHistory) {
			t.Errorf("%s: error %v; want an invalid history", name, err)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	good := Config{BaseURL: "https://h/v1", Model: "m", Profile: "openai", APIKey: "sk-1"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*Config){
		"profile":               func(c *Config) { c.Profile = "open" },
		"no URL":                func(c *Config) { c.BaseURL = "" },
		"scheme":                func(c *Config) { c.BaseURL = "ftp://h" },
		"credentials in URL":    func(c *Config) { c.BaseURL = "https://me:sk-1@h/v1" },
		"key in URL":            func(c *Config) { c.BaseURL = "https://h/v1?key=sk-1" },
		"no model":              func(c *Config) { c.Model = "" },
		"budget field":          func(c *Config) { c.BudgetField = "tokens" },
		"continuation":          func(c *Config) { c.Continuation = "retry" },
		"store elsewhere":       func(c *Config) { c.Profile, c.Store = "vllm", true },
		"key with a line end":   func(c *Config) { c.APIKey = "sk-1\n" },
		"key in headers":        func(c *Config) { c.Headers = map[string]string{"authorization": "sk-1"} },
		"idempotency key":       func(c *Config) { c.Headers = map[string]string{"idempotency-key": "1"} },
		"header with a line":    func(c *Config) { c.Headers = map[string]string{"X-A": "a\r\nb"} },
		"extra of ours":         func(c *Config) { c.Extra = map[string]event.RawJSON{"n": event.RawJSON("2")} },
		"extra that is no JSON": func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("{")} },
		"negative limit":        func(c *Config) { c.HTTP.MaxBodyBytes = -1 },
		"negative timeout":      func(c *Config) { c.HTTP.IdleTimeout = -1 },
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
	base := Config{BaseURL: "https://h/v1", Model: "m", Profile: "openai", APIKey: "sk-1", Headers: map[string]string{"X-A": "1"}}
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
	} {
		if revision(change) != same {
			t.Errorf("%s: the revision changes; want it the same", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"URL":          func(c *Config) { c.BaseURL = "https://i/v1" },
		"model":        func(c *Config) { c.Model = "n" },
		"profile":      func(c *Config) { c.Profile = "azure" },
		"budget field": func(c *Config) { c.BudgetField = maxTokens },
		"continuation": func(c *Config) { c.Continuation = ContinuePartial },
		"store":        func(c *Config) { c.Store = true },
		"extra":        func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("1")} },
	} {
		if revision(change) == same {
			t.Errorf("%s: the revision is the same; want another", name)
		}
	}
}

func TestPrefixNeedsBeta(t *testing.T) {
	for base, want := range map[string]Continuation{
		"https://h":       ContinueUserTurn,
		"https://h/beta":  ContinuePrefix,
		"https://h/beta/": ContinuePrefix,
	} {
		p, err := Config{BaseURL: base, Profile: "deepseek"}.settings()
		if err != nil || p.Continuation != want {
			t.Errorf("%s: continuation %q, error %v; want %q", base, p.Continuation, err, want)
		}
	}
}
