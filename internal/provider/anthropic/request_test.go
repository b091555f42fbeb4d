package anthropic

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
			{Role: loop.RoleUser, Text: "Look <here> & there", Attachments: []event.RawJSON{event.RawJSON(`{"type":"image", "source":{"type":"url","url":"u"}}`)}},
			{Role: loop.RoleAssistant, Text: "I look.", ToolCalls: []event.ToolCall{
				{ID: "tu_1", Name: "f", Arguments: `{"n":12345678901234567890}`, Closed: true},
				{ID: "tu_2", Name: "g", Arguments: `{}`, Closed: true},
			}},
			{Role: loop.RoleTool, ToolCallID: "tu_1", Tool: "f", Text: "42"},
			{Role: loop.RoleTool, ToolCallID: "tu_2", Tool: "g", Text: ""},
			{Role: loop.RoleUser, Text: "And?"},
		},
		Tools: []loop.ToolSpec{
			{Name: "f", Description: "finds", Parameters: event.RawJSON(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "g"},
		},
	}
	cfg := Config{Model: "m", Extra: map[string]event.RawJSON{"temperature": event.RawJSON("0.5"), "a": event.RawJSON(`{"b":1}`)}}.withDefaults()
	const messages = `"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"Look <here> & there"},{"type":"image","source":{"type":"url","url":"u"}}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"tu_1","name":"f","input":{"n":12345678901234567890}},{"type":"tool_use","id":"tu_2","name":"g","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"tu_1","content":"42"},{"type":"tool_result","tool_use_id":"tu_2"},{"type":"text","text":"And?"}]}]`
	const want = `{"model":"m","max_tokens":64,"stream":true,"system":"Be brief.",` + messages + `,` +
		`"tools":[{"name":"f","description":"finds","input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}},` +
		`{"name":"g","input_schema":{"type":"object","properties":{}}}],"a":{"b":1},"temperature":0.5}`
	for range 20 {
		b, err := cfg.body(req)
		if err != nil || string(b) != want {
			t.Fatalf("body %s, error %v; want %s", b, err, want)
		}
	}
	req.OutputBudget, req.Tools, cfg.Extra, req.Messages = 0, nil, nil, req.Messages[1:]
	if b, err := cfg.body(req); err != nil || string(b) != `{"model":"m","max_tokens":4096,"stream":true,`+messages+`}` {
		t.Errorf("body %s, error %v; want the default budget, no system, no tools", b, err)
	}
}

func user(s string) loop.Message { return loop.Message{Role: loop.RoleUser, Text: s} }
func said(s string) loop.Message { return loop.Message{Role: loop.RoleAssistant, Text: s} }
func cut(s string) loop.Message {
	return loop.Message{Role: loop.RoleAssistant, Text: s, Partial: true}
}
func calls(s string, ids ...string) loop.Message {
	m := said(s)
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id, Name: "f", Arguments: "{}"})
	}
	return m
}
func gave(id string) loop.Message {
	return loop.Message{Role: loop.RoleTool, ToolCallID: id, Text: "r-" + id}
}

// short writes messages as U[q] A[a use:1] U[res:1 r].
func short(messages string) string {
	return strings.NewReplacer(
		`{"type":"text","text":"`+continueText+`"}`, "GO-ON",
		`{"role":"user","content":[`, "U[", `{"role":"assistant","content":[`, "A[", `]}`, "]",
		`{"type":"text","text":"`, "", `{"type":"tool_use","id":"`, "use:", `","name":"f","input":{}}`, "",
		`{"type":"tool_result","tool_use_id":"`, "res:", `","content":"r-`, "=", `"}`, "", `\n`, "~", `,`, " ",
	).Replace(messages)
}

func TestMessages(t *testing.T) {
	cases := []struct {
		name    string
		prefill bool
		in      []loop.Message
		want    string
	}{
		{"plain", false, []loop.Message{user("q"), said("a"), user("r")}, "[U[q] A[a] U[r]]"},
		{"neighbours are one message", false, []loop.Message{user("q"), user("r"), said("a"), said("b"), user("s")}, "[U[q r] A[a b] U[s]]"},
		{"an empty answer is left out", false, []loop.Message{user("q"), said(""), said(" \n"), user("r")}, "[U[q r]]"},
		{"calls, results, then texts", false, []loop.Message{user("q"), calls("a", "1", "2"), gave("1"), gave("2"), user("r")}, "[U[q] A[a use:1 use:2] U[res:1=1 res:2=2 r]]"},
		{"blank text beside a call", false, []loop.Message{user("q"), calls("\n", "1"), gave("1")}, "[U[q] A[use:1] U[res:1=1]]"},
		{"a call without a result is left out", false, []loop.Message{user("q"), calls("a", "1", "2"), gave("2")}, "[U[q] A[a use:2] U[res:2=2]]"},
		{"only calls without results", false, []loop.Message{user("q"), calls("", "1", "2"), user("r")}, "[U[q r]]"},
		{"step after step", false, []loop.Message{user("q"), calls("", "1"), gave("1"), calls("", "2"), gave("2")}, "[U[q] A[use:1] U[res:1=1] A[use:2] U[res:2=2]]"},
		{"two calls with one id", false, []loop.Message{user("q"), calls("", "1", "1"), gave("1"), gave("1")}, "[U[q] A[use:1 use:1] U[res:1=1 res:1=1]]"},

		{"cut, user turn", false, []loop.Message{user("q"), cut("a")}, "[U[q] A[a] U[GO-ON]]"},
		{"cut twice, user turn", false, []loop.Message{user("q"), cut("a"), cut("b")}, "[U[q] A[a] U[GO-ON] A[b] U[GO-ON]]"},
		{"cut, then the user speaks", false, []loop.Message{user("q"), cut("a"), user("no")}, "[U[q] A[a] U[no]]"},
		{"cut, then an answer", false, []loop.Message{user("q"), cut("a"), said("b"), user("r")}, "[U[q] A[a] U[GO-ON] A[b] U[r]]"},
		{"cut before any text", false, []loop.Message{user("q"), cut("")}, "[U[q]]"},
		{"cut, and its calls were answered", false, []loop.Message{user("q"), func() loop.Message { m := calls("a", "1"); m.Partial = true; return m }(), gave("1")}, "[U[q] A[a use:1] U[res:1=1]]"},

		{"cut, prefill", true, []loop.Message{user("q"), cut("a")}, "[U[q] A[a]]"},
		{"cut twice, prefill", true, []loop.Message{user("q"), cut("a"), cut("b")}, "[U[q] A[ab]]"},
		{"cut, prefill, then the user speaks", true, []loop.Message{user("q"), cut("a"), user("no")}, "[U[q] A[a] U[no]]"},
		{"cut, prefill, then ended", true, []loop.Message{user("q"), cut("a"), said("b"), user("r")}, "[U[q] A[ab] U[r]]"},
		{"cut, prefill, then a call", true, []loop.Message{user("q"), cut("a"), calls("b", "1"), gave("1")}, "[U[q] A[ab use:1] U[res:1=1]]"},
		{"a prefill may not end in blank space", true, []loop.Message{user("q"), cut("a ")}, "[U[q] A[a ] U[GO-ON]]"},
		{"nor in a line's end", true, []loop.Message{user("q"), cut("a\n"), cut("b")}, "[U[q] A[a~] U[GO-ON] A[b]]"},
		{"no blank piece after a prefill", true, []loop.Message{user("q"), said("x"), cut("a"), cut(" ")}, "[U[q] A[x a]]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			system, b, err := Messages(c.in, c.prefill)
			if err != nil || system != "" {
				t.Fatalf("system %q, error %v; want neither", system, err)
			}
			if got := short(string(b)); got != c.want {
				t.Errorf("messages %s\nwant     %s\nin full  %s", got, c.want, b)
			}
		})
	}
}

func TestSystemTexts(t *testing.T) {
	system, _, err := Messages([]loop.Message{{Role: loop.RoleSystem, Text: "a"}, {Role: loop.RoleSystem}, user("q"), {Role: loop.RoleSystem, Text: "b"}}, false)
	if err != nil || system != "a\n\nb" {
		t.Errorf("system %q, error %v; want both texts", system, err)
	}
}

func TestMessagesRefused(t *testing.T) {
	call := calls("", "1")
	broken := calls("", "1")
	broken.ToolCalls[0].Arguments = `{"a":`
	list := calls("", "1")
	list.ToolCalls[0].Arguments = `[]`
	cases := map[string][]loop.Message{
		"nothing":                        nil,
		"begins with the assistant":      {said("a"), user("q")},
		"a result without a call":        {user("q"), gave("1")},
		"a result of another call":       {user("q"), call, gave("2")},
		"two results of one call":        {user("q"), call, gave("1"), gave("1")},
		"a result behind a turn":         {user("q"), call, user("r"), gave("1")},
		"a role nobody knows":            {user("q"), {Role: "developer", Text: "x"}},
		"an attachment that is text":     {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`"x"`)}}},
		"an attachment that is none":     {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`{`)}}},
		"arguments that are no JSON":     {user("q"), broken, gave("1")},
		"arguments that are no object":   {user("q"), list, gave("1")},
		"nothing but a blank user input": {user(" ")},
	}
	for name, in := range cases {
		if _, _, err := Messages(in, false); !errors.Is(err, errHistory) {
			t.Errorf("%s: error %v; want an invalid history", name, err)
		}
	}
}

func TestPrefillByModel(t *testing.T) {
	thinking := map[string]event.RawJSON{"thinking": event.RawJSON(`{"type":"enabled"}`)}
	cases := []struct {
		model string
		set   Prefill
		extra map[string]event.RawJSON
		want  Prefill
	}{
		{"claude-2.1", "", nil, PrefillYes},
		{"claude-instant-1.2", "", nil, PrefillYes},
		{"claude-3-opus-20240229", "", nil, PrefillYes},
		{"claude-3-5-haiku-latest", "", nil, PrefillYes},
		{"claude-3-7-sonnet-20250219", "", nil, PrefillYes},
		{"claude-sonnet-4-20250514", "", nil, PrefillYes},
		{"claude-opus-4-0", "", nil, PrefillYes},
		{"claude-opus-4-1-20250805", "", nil, PrefillYes},
		{"claude-sonnet-4-5", "", nil, PrefillYes},
		{"claude-sonnet-4-5@20250929", "", nil, PrefillYes},
		{"us.anthropic.claude-haiku-4-5-20251001-v1:0", "", nil, PrefillYes},
		{"claude-sonnet-4-6", "", nil, PrefillNo},
		{"claude-opus-4-6-20260201", "", nil, PrefillNo},
		{"claude-opus-4-10", "", nil, PrefillNo},
		{"claude-opus-5", "", nil, PrefillNo},
		{"claude-next", "", nil, PrefillNo},
		{"not-claude-3-opus", "", nil, PrefillNo},
		{"m", "", nil, PrefillNo},
		{"m", PrefillYes, nil, PrefillYes},
		{"claude-sonnet-4-5", PrefillNo, nil, PrefillNo},
		{"claude-sonnet-4-5", "", thinking, PrefillNo},
		{"claude-sonnet-4-5", PrefillYes, thinking, PrefillYes},
	}
	for _, c := range cases {
		if got := (Config{Model: c.model, Prefill: c.set, Extra: c.extra}).withDefaults().Prefill; got != c.want {
			t.Errorf("%s, set %q, thinking %t: %s; want %s", c.model, c.set, c.extra != nil, got, c.want)
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
		"version":               func(c *Config) { c.Version = "2023 06" },
		"negative budget":       func(c *Config) { c.MaxTokens = -1 },
		"prefill":               func(c *Config) { c.Prefill = "perhaps" },
		"key with a line end":   func(c *Config) { c.APIKey = "sk-1\n" },
		"key in headers":        func(c *Config) { c.Headers = map[string]string{"x-api-key": "sk-1"} },
		"idempotency key":       func(c *Config) { c.Headers = map[string]string{"idempotency-key": "1"} },
		"header with a line":    func(c *Config) { c.Headers = map[string]string{"X-A": "a\r\nb"} },
		"header without a name": func(c *Config) { c.Headers = map[string]string{"": "a"} },
		"extra of ours":         func(c *Config) { c.Extra = map[string]event.RawJSON{"stream": event.RawJSON("false")} },
		"extra that is no JSON": func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("{")} },
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
		"defaults":     func(c *Config) { c.BaseURL, c.Version, c.MaxTokens = DefaultBaseURL, DefaultVersion, DefaultMaxTokens },
	} {
		if revision(change) != same {
			t.Errorf("%s: the revision changes; want it the same", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"URL":         func(c *Config) { c.BaseURL = "https://i" },
		"model":       func(c *Config) { c.Model = "n" },
		"version":     func(c *Config) { c.Version = "2026-01-01" },
		"budget":      func(c *Config) { c.MaxTokens = 1 },
		"prefill":     func(c *Config) { c.Prefill = PrefillYes },
		"header name": func(c *Config) { c.Headers = map[string]string{"X-B": "1"} },
		"extra":       func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("1")} },
	} {
		if revision(change) == same {
			t.Errorf("%s: the revision is the same; want another", name)
		}
	}
}
