package gemini

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func TestBody(t *testing.T) {
	req := loop.Request{
		OperationID:  "op-1",
		OutputBudget: 64,
		Messages: []loop.Message{
			{Role: loop.RoleSystem, Text: "Be brief."},
			{Role: loop.RoleUser, Text: "Look <here> & there", Attachments: []event.RawJSON{event.RawJSON(`{"inlineData": {"mimeType":"image/png","data":"AA=="}}`)}},
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
	cfg := Config{Model: "gemini-3-pro", Extra: map[string]event.RawJSON{
		"generationConfig": event.RawJSON(`{"temperature":0.5,"thinkingConfig":{"thinkingLevel":"low"}}`), "cachedContent": event.RawJSON(`"c"`),
	}}.withDefaults()
	const want = `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[` +
		`{"role":"user","parts":[{"text":"Look <here> & there"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]},` +
		`{"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"c1","name":"f","args":{"n":12345678901234567890}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"c2","name":"g","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":"42"}}},{"functionResponse":{"id":"c2","name":"g","response":{"output":""}}},{"text":"And?"}]}],` +
		`"tools":[{"functionDeclarations":[{"name":"f","description":"finds","parametersJsonSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},{"name":"g"}]}],` +
		`"generationConfig":{"maxOutputTokens":64,"temperature":0.5,"thinkingConfig":{"thinkingLevel":"low"}},"cachedContent":"c"}`
	for range 20 {
		b, err := cfg.body(req)
		if err != nil || string(b) != want {
			t.Fatalf("body %s, error %v; want %s", b, err, want)
		}
	}
	older := strings.NewReplacer(`"id":"c1",`, "", `"id":"c2",`, "", `,"thoughtSignature":"skip_thought_signature_validator"`, "", "parametersJsonSchema", "parameters").Replace(want)
	cfg.OmitCallIDs, cfg.OpenAPISchemas, cfg.Signature = true, true, NoSignature
	if b, err := cfg.body(req); err != nil || string(b) != older {
		t.Errorf("body %s, error %v; want %s", b, err, older)
	}
	req.OutputBudget, req.Tools, req.Messages, cfg.Extra = 0, nil, req.Messages[1:2], nil
	if b, err := cfg.body(req); err != nil || string(b) != `{"contents":[{"role":"user","parts":[{"text":"Look <here> & there"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}]}` {
		t.Errorf("body %s, error %v; want nothing but the contents", b, err)
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

// short writes contents as U[q] M[a call:1] U[res:1=1].
func short(contents string) string {
	return strings.NewReplacer(
		`{"text":"`+continueText+`"}`, "GO-ON",
		`{"role":"user","parts":[`, "U[", `{"role":"model","parts":[`, "M[", `]}`, "]",
		`{"text":"`, "", `{"functionCall":{"id":"`, "call:", `","name":"f","args":{}}}`, "",
		`{"functionResponse":{"id":"`, "res:", `","name":"f","response":{"output":"r-`, "=", `"}}}`, "", `"}`, "", `,`, " ",
	).Replace(contents)
}

func TestContents(t *testing.T) {
	cases := []struct {
		name string
		in   []loop.Message
		want string
	}{
		{"plain", []loop.Message{user("q"), said("a"), user("r")}, "[U[q] M[a] U[r]]"},
		{"neighbours are one content", []loop.Message{user("q"), user("r"), said("a"), said("b"), user("s")}, "[U[q r] M[a b] U[s]]"},
		{"an empty answer is left out", []loop.Message{user("q"), said(""), user("r")}, "[U[q r]]"},
		{"calls, results, then texts", []loop.Message{user("q"), calls("a", "1", "2"), gave("1"), gave("2"), user("r")}, "[U[q] M[a call:1 call:2] U[res:1=1 res:2=2 r]]"},
		{"results in the order of the calls", []loop.Message{user("q"), calls("", "1", "2"), gave("2"), gave("1")}, "[U[q] M[call:1 call:2] U[res:1=1 res:2=2]]"},
		{"a call without a result is left out", []loop.Message{user("q"), calls("a", "1", "2"), gave("2")}, "[U[q] M[a call:2] U[res:2=2]]"},
		{"only calls without results", []loop.Message{user("q"), calls("", "1", "2"), user("r")}, "[U[q r]]"},
		{"step after step", []loop.Message{user("q"), calls("", "1"), gave("1"), calls("", "2"), gave("2")}, "[U[q] M[call:1] U[res:1=1] M[call:2] U[res:2=2]]"},
		{"two calls with one id", []loop.Message{user("q"), calls("", "1", "1"), gave("1"), gave("1")}, "[U[q] M[call:1 call:1] U[res:1=1 res:1=1]]"},
		{"cut", []loop.Message{user("q"), cut("a")}, "[U[q] M[a] U[GO-ON]]"},
		{"cut twice", []loop.Message{user("q"), cut("a"), cut("b")}, "[U[q] M[a] U[GO-ON] M[b] U[GO-ON]]"},
		{"cut, then the user speaks", []loop.Message{user("q"), cut("a"), user("no")}, "[U[q] M[a] U[no]]"},
		{"cut, then an answer", []loop.Message{user("q"), cut("a"), said("b"), user("r")}, "[U[q] M[a] U[GO-ON] M[b] U[r]]"},
		{"cut before any text", []loop.Message{user("q"), cut("")}, "[U[q]]"},
		{"cut, and its calls were answered", []loop.Message{user("q"), func() loop.Message { m := calls("a", "1"); m.Partial = true; return m }(), gave("1")}, "[U[q] M[a call:1] U[res:1=1]]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			system, contents, err := Config{Signature: NoSignature}.contents(c.in)
			if err != nil || len(system.Parts) > 0 {
				t.Fatalf("system %v, error %v; want neither", system, err)
			}
			b, err := json.Marshal(contents)
			if got := short(string(b)); err != nil || got != c.want {
				t.Errorf("contents %s (%v)\nwant     %s\nin full  %s", got, err, c.want, b)
			}
		})
	}
}

func TestContentsRefused(t *testing.T) {
	call := calls("", "1")
	broken := calls("", "1")
	broken.ToolCalls[0].Arguments = `{"a":`
	list := calls("", "1")
	list.ToolCalls[0].Arguments = `[]`
	cases := map[string][]loop.Message{
		"nothing":                      nil,
		"begins with the model":        {said("a"), user("q")},
		"a result without a call":      {user("q"), gave("1")},
		"a result of another call":     {user("q"), call, gave("2")},
		"two results of one call":      {user("q"), call, gave("1"), gave("1")},
		"a result behind a turn":       {user("q"), call, user("r"), gave("1")},
		"a role nobody knows":          {user("q"), {Role: "developer", Text: "x"}},
		"an attachment that is text":   {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`"x"`)}}},
		"an attachment that is none":   {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`{`)}}},
		"arguments that are no JSON":   {user("q"), broken, gave("1")},
		"arguments that are no object": {user("q"), list, gave("1")},
	}
	for name, in := range cases {
		if _, _, err := (Config{}).contents(in); !errors.Is(err, errHistory) {
			t.Errorf("%s: error %v; want an invalid history", name, err)
		}
	}
}

func TestSignatureByModel(t *testing.T) {
	for model, want := range map[string]string{
		"gemini-1.5-flash":       NoSignature,
		"gemini-2.5-pro":         NoSignature,
		"gemini-pro":             NoSignature,
		"gemma-3-27b-it":         NoSignature,
		"gemini-3-pro-preview":   SkipSignature,
		"gemini-3.1-pro-preview": SkipSignature,
		"gemini-20-pro":          SkipSignature,
		"gemini-flash-latest":    SkipSignature,
	} {
		if got := (Config{Model: model}).withDefaults().Signature; got != want {
			t.Errorf("%s: signature %s; want %s", model, got, want)
		}
	}
	if got := (Config{Model: "gemini-2.5-pro", Signature: "c2ln"}).withDefaults().Signature; got != "c2ln" {
		t.Errorf("signature %s; want the one that was set", got)
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
		"model with a path":     func(c *Config) { c.Model = "models/m" },
		"model with a method":   func(c *Config) { c.Model = "m:generateContent" },
		"model with a query":    func(c *Config) { c.Model = "m?x" },
		"signature":             func(c *Config) { c.Signature = "a b" },
		"key with a line end":   func(c *Config) { c.APIKey = "sk-1\n" },
		"key in headers":        func(c *Config) { c.Headers = map[string]string{"x-goog-api-key": "sk-1"} },
		"idempotency key":       func(c *Config) { c.Headers = map[string]string{"idempotency-key": "1"} },
		"header with a line":    func(c *Config) { c.Headers = map[string]string{"X-A": "a\r\nb"} },
		"header without a name": func(c *Config) { c.Headers = map[string]string{"": "a"} },
		"extra of ours":         func(c *Config) { c.Extra = map[string]event.RawJSON{"contents": event.RawJSON("[]")} },
		"extra that is no JSON": func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("{")} },
		"our generation field": func(c *Config) {
			c.Extra = map[string]event.RawJSON{"generationConfig": event.RawJSON(`{"candidateCount":2}`)}
		},
		"generation of a kind": func(c *Config) { c.Extra = map[string]event.RawJSON{"generationConfig": event.RawJSON(`[]`)} },
		"negative limit":       func(c *Config) { c.HTTP.MaxBodyBytes = -1 },
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
		"key":          func(c *Config) { c.APIKey, c.Bearer = "sk-2", true },
		"header value": func(c *Config) { c.Headers = map[string]string{"x-a": "2"} },
		"limits":       func(c *Config) { c.HTTP.MaxBodyBytes = 1 },
		"defaults":     func(c *Config) { c.BaseURL, c.Signature = DefaultBaseURL, SkipSignature },
	} {
		if revision(change) != same {
			t.Errorf("%s: the revision changes; want it the same", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"URL":         func(c *Config) { c.BaseURL = "https://i" },
		"model":       func(c *Config) { c.Model = "n" },
		"signature":   func(c *Config) { c.Signature = NoSignature },
		"call ids":    func(c *Config) { c.OmitCallIDs = true },
		"schemas":     func(c *Config) { c.OpenAPISchemas = true },
		"header name": func(c *Config) { c.Headers = map[string]string{"X-B": "1"} },
		"extra":       func(c *Config) { c.Extra = map[string]event.RawJSON{"x": event.RawJSON("1")} },
	} {
		if revision(change) == same {
			t.Errorf("%s: the revision is the same; want another", name)
		}
	}
}
