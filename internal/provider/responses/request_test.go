package responses

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func request() loop.Request {
	return loop.Request{
		OperationID:  "op-1",
		OutputBudget: 64,
		Messages: []loop.Message{
			{Role: loop.RoleSystem, Text: "Be brief."},
			{Role: loop.RoleUser, Text: "Look <here> & there", Attachments: []event.RawJSON{event.RawJSON(`{"type":"input_image", "image_url":"data:x"}`)}},
			{Role: loop.RoleAssistant, Text: "I look.", ToolCalls: []event.ToolCall{{ID: "call_1", Name: "f", Arguments: "{ \"n\": 12345678901234567890 }", Closed: true}}},
			{Role: loop.RoleTool, ToolCallID: "call_1", Tool: "f", Text: "42"},
		},
		Tools: []loop.ToolSpec{
			{Name: "f", Description: "finds", Parameters: event.RawJSON(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "g"},
		},
	}
}

const (
	inputJSON = `"input":[{"type":"message","role":"system","content":"Be brief."},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"Look <here> & there"},{"type":"input_image","image_url":"data:x"}]},` +
		`{"type":"message","role":"assistant","content":"I look."},` +
		`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{ \"n\": 12345678901234567890 }"},` +
		`{"type":"function_call_output","call_id":"call_1","output":"42"}]`
	toolsJSON = `"tools":[{"type":"function","name":"f","description":"finds","parameters":{"type":"object","properties":{"n":{"type":"integer"}}},"strict":false},` +
		`{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}]`
	extraJSON = `"reasoning":{"effort":"low"},"temperature":0.5}`
)

func TestBody(t *testing.T) {
	extra := map[string]event.RawJSON{"temperature": event.RawJSON("0.5"), "reasoning": event.RawJSON(`{"effort":"low"}`)}
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"openai", Config{Profile: "openai"}, `{"model":"m","stream":true,"stream_options":{"include_obfuscation":false},"store":false,"metadata":{"op":"op-1"},"max_output_tokens":64,`},
		{"background", Config{Profile: "openai", Store: true, Background: true}, `{"model":"m","stream":true,"stream_options":{"include_obfuscation":false},"background":true,"store":true,"metadata":{"op":"op-1"},"max_output_tokens":64,`},
		{"deepseek", Config{Profile: "deepseek"}, `{"model":"m","stream":true,"max_output_tokens":64,`},
		{"generic, stored", Config{Profile: "generic", Store: true}, `{"model":"m","stream":true,"store":true,"metadata":{"op":"op-1"},"max_output_tokens":64,`},
	} {
		c.cfg.Model, c.cfg.Extra = "m", extra
		want := c.want + inputJSON + "," + toolsJSON + "," + extraJSON
		profile, err := LookupProfile(c.cfg.Profile)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			b, err := c.cfg.body(profile, request())
			if err != nil || string(b) != want {
				t.Fatalf("%s: body %s, error %v; want %s", c.name, b, err, want)
			}
		}
	}
}

func TestFrame(t *testing.T) {
	cfg := Config{Model: "m", Extra: map[string]event.RawJSON{"temperature": event.RawJSON("0.5"), "reasoning": event.RawJSON(`{"effort":"low"}`)}}
	a := Adapter{cfg: cfg, live: newLive()}
	o, err := a.opening(request())
	const head = `{"type":"response.create","model":"m","store":false,"metadata":{"op":"op-1"},"max_output_tokens":64,`
	if want := head + inputJSON + "," + toolsJSON + "," + extraJSON; err != nil || string(o.frame) != want {
		t.Errorf("frame %s, error %v; want %s", o.frame, err, want)
	}
}

func TestInput(t *testing.T) {
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
	result := func(id string) loop.Message { return loop.Message{Role: loop.RoleTool, ToolCallID: id, Text: "r" + id} }
	u := func(s string) string { return `{"type":"message","role":"user","content":"` + s + `"}` }
	s := func(s string) string { return `{"type":"message","role":"assistant","content":"` + s + `"}` }
	c := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	r := func(id string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"r` + id + `"}`
	}
	goOn := u(continueText)
	for _, x := range []struct {
		name string
		in   []loop.Message
		want []string
	}{
		{"nothing", nil, nil},
		{"turns", []loop.Message{user("a"), said("b"), user("c")}, []string{u("a"), s("b"), u("c")}},
		{"empty answer", []loop.Message{user("a"), said(""), user("c")}, []string{u("a"), u("c")}},
		{"calls", []loop.Message{user("a"), calls("", "1", "2"), result("2"), result("1")}, []string{u("a"), c("1"), c("2"), r("2"), r("1")}},
		{"unanswered call", []loop.Message{user("a"), calls("b", "1", "2"), result("2"), user("c")}, []string{u("a"), s("b"), c("2"), r("2"), u("c")}},
		{"nothing answered", []loop.Message{user("a"), calls("", "1"), user("c")}, []string{u("a"), u("c")}},
		{"the same id twice", []loop.Message{calls("", "1", "1"), result("1"), result("1")}, []string{c("1"), c("1"), r("1"), r("1")}},
		{"cut at the end", []loop.Message{user("a"), cut("b")}, []string{u("a"), s("b"), goOn}},
		{"cut, then a turn", []loop.Message{user("a"), cut("b"), user("c")}, []string{u("a"), s("b"), u("c")}},
		{"cut twice", []loop.Message{user("a"), cut("b"), cut("c")}, []string{u("a"), s("b"), goOn, s("c"), goOn}},
		{"cut without text", []loop.Message{user("a"), cut("")}, []string{u("a")}},
		{"cut with an unanswered call", []loop.Message{user("a"), {Role: loop.RoleAssistant, Text: "b", Partial: true, ToolCalls: []event.ToolCall{{ID: "1"}}}}, []string{u("a"), s("b"), goOn}},
	} {
		got, err := Input(x.in)
		if want := "[" + strings.Join(x.want, ",") + "]"; err != nil || string(got) != want {
			t.Errorf("%s: %s, error %v; want %s", x.name, got, err, want)
		}
	}
	for name, in := range map[string][]loop.Message{
		"result without a call":      {user("a"), result("1")},
		"result of another call":     {calls("", "1"), result("2")},
		"two results of a call":      {calls("", "1"), result("1"), result("1")},
		"unknown role":               {{Role: "narrator", Text: "x"}},
		"attachment that is no part": {{Role: loop.RoleUser, Attachments: []event.RawJSON{event.RawJSON(`"x"`)}}},
	} {
		if b, err := Input(in); !errors.Is(err, errHistory) {
			t.Errorf("%s: %s, error %v; want an invalid history", name, b, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := Config{BaseURL: "https://h/v1", Model: "m"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"URL":                 func(c *Config) { c.BaseURL = "wss://h/v1" },
		"credentials":         func(c *Config) { c.BaseURL = "https://me:pw@h/v1" },
		"query":               func(c *Config) { c.BaseURL += "?key=x" },
		"model":               func(c *Config) { c.Model = "" },
		"profile":             func(c *Config) { c.Profile = "x" },
		"key":                 func(c *Config) { c.APIKey = "a b" },
		"transport":           func(c *Config) { c.Transport = "pigeon" },
		"steering":            func(c *Config) { c.Steering = true },
		"background":          func(c *Config) { c.Background = true },
		"background socket":   func(c *Config) { c.Background, c.Store, c.Transport = true, true, TransportWebSocket },
		"header":              func(c *Config) { c.Headers = map[string]string{"authorization": "x"} },
		"header of a socket":  func(c *Config) { c.Headers = map[string]string{"Sec-WebSocket-Key": "x"} },
		"header value":        func(c *Config) { c.Headers = map[string]string{"X-A": "x\r\ny"} },
		"extra":               func(c *Config) { c.Extra = map[string]event.RawJSON{"previous_response_id": event.RawJSON(`"r"`)} },
		"extra value":         func(c *Config) { c.Extra = map[string]event.RawJSON{"a": event.RawJSON(`{`)} },
		"negative timeout":    func(c *Config) { c.Socket.IdleTimeout = -1 },
		"negative limit":      func(c *Config) { c.Socket.MaxBytes = -1 },
		"negative HTTP limit": func(c *Config) { c.HTTP.MaxBodyBytes = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil || !strings.HasPrefix(err.Error(), "responses: ") {
			t.Errorf("%s: error %v; want one of ours", name, err)
		}
	}
}

func TestRevision(t *testing.T) {
	revision := func(change func(*Config)) string {
		c := Config{BaseURL: "https://h/v1", Model: "m", APIKey: "k"}
		change(&c)
		a, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return a.Service().ID + " " + a.Service().Revision
	}
	base := revision(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"model":     func(c *Config) { c.Model = "n" },
		"URL":       func(c *Config) { c.BaseURL = "https://g/v1" },
		"profile":   func(c *Config) { c.Profile = "azure" },
		"transport": func(c *Config) { c.Transport = TransportWebSocket },
		"store":     func(c *Config) { c.Store = true },
		"header":    func(c *Config) { c.Headers = map[string]string{"X-A": "1"} },
		"extra":     func(c *Config) { c.Extra = map[string]event.RawJSON{"a": event.RawJSON("1")} },
	} {
		if revision(change) == base {
			t.Errorf("%s: the revision is the same", name)
		}
	}
	if revision(func(c *Config) { c.APIKey = "other" }) != base {
		t.Error("the key changes the revision")
	}
	native, err := New(Config{BaseURL: "https://h/v1", Model: "m", Transport: TransportWebSocket, Steering: true})
	if err != nil || !native.Service().Native {
		t.Errorf("service %+v, error %v; want native", native.Service(), err)
	}
}
