package bailing

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

func TestBodies(t *testing.T) {
	weather := []loop.ToolSpec{{Name: "weather", Description: "d", Parameters: event.RawJSON(`{"type":"object"}`)}}
	cut := []loop.Message{{Role: loop.RoleUser, Text: "hi"}, {Role: loop.RoleAssistant, Text: "He", Partial: true}}
	tool := `"tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object"}}}]`
	cases := []struct {
		name   string
		change func(*Config)
		req    func(*loop.Request)
		want   string
	}{
		{"budget", nil, func(r *loop.Request) { r.OutputBudget = 99 }, `[{"role":"user","content":"hi"}],"provider_options":{"max_completion_tokens":99}}`},
		{"budget field", func(c *Config) { c.BudgetField = "max_tokens" }, func(r *loop.Request) { r.OutputBudget = 99 }, `"provider_options":{"max_tokens":99}}`},
		{"options", func(c *Config) {
			c.Extra = map[string]event.RawJSON{
				"temperature": event.RawJSON("0.5"), "top_p": event.RawJSON("1"), "enable_thinking": event.RawJSON("true"), "tool_choice": event.RawJSON(`"auto"`),
			}
		}, func(r *loop.Request) { r.Tools = weather }, tool + `,"tool_choice":"auto","temperature":0.5,"provider_options":{"enable_thinking":true,"top_p":1}}`},
		{"tool choice without tools", func(c *Config) { c.Extra = map[string]event.RawJSON{"tool_choice": event.RawJSON(`"auto"`)} }, nil, `[{"role":"user","content":"hi"}]}`},
		{"conversation", func(c *Config) { c.Conversation = true }, nil, `"service_id":"svc","conversation_id":"s1","messages"`},
		{"user turn", func(c *Config) { c.Profile = "moonshot" }, func(r *loop.Request) { r.Messages = cut }, `{"role":"assistant","content":"He"},{"role":"user","content":"Your previous message`},
		{"prefill", func(c *Config) { c.Profile, c.Continuation = "moonshot", chat.ContinuePartial }, func(r *loop.Request) { r.Messages = cut }, `{"role":"assistant","content":"He","partial":true}]}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := adapter(t, "http://hub.example", func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			req := ask()
			if c.req != nil {
				c.req(&req)
			}
			b, err := a.cfg.body(a.profile, req)
			if err != nil || !strings.Contains(string(b), c.want) {
				t.Errorf("body %s (%v)\nwant %s in it", b, err, c.want)
			}
		})
	}
}

// TestNothingIsSent: what the hub would not take is refused here, and says so.
func TestNothingIsSent(t *testing.T) {
	url, requests := hub(t, forever(""))
	many := func(n int) []loop.Message {
		m := make([]loop.Message, n)
		for i := range m {
			m[i] = loop.Message{Role: loop.RoleUser, Text: "x"}
		}
		return m
	}
	tools := func(n int) []loop.ToolSpec {
		s := make([]loop.ToolSpec, n)
		for i := range s {
			s[i].Name = fmt.Sprintf("t%d", i)
		}
		return s
	}
	a := adapter(t, url, func(c *Config) { c.Conversation = true })
	for _, c := range []struct {
		code   string
		change func(*loop.Request)
	}{
		{"too_many_messages", func(r *loop.Request) { r.Messages = many(1025) }},
		{"too_many_tools", func(r *loop.Request) { r.Tools = tools(129) }},
		{"request_too_large", func(r *loop.Request) { r.Messages[0].Text = strings.Repeat("x", 16<<20) }},
		{"invalid_history", func(r *loop.Request) {
			r.Messages = append(r.Messages, loop.Message{Role: loop.RoleTool, ToolCallID: "x"})
		}},
		{"invalid_tools", func(r *loop.Request) { r.Tools = []loop.ToolSpec{{Name: "t", Parameters: event.RawJSON("{")}} }},
		{"invalid_operation_id", func(r *loop.Request) { r.OperationID = strings.Repeat("a", 192) }},
		{"invalid_operation_id", func(r *loop.Request) { r.OperationID = "" }},
		{"invalid_operation_id", func(r *loop.Request) { r.OperationID = "a\x00b" }},
		{"invalid_operation_id", func(r *loop.Request) { r.OperationID = "a " }},
		{"invalid_operation_id", func(r *loop.Request) { r.OperationID = "a\xff" }},
		{"invalid_conversation_id", func(r *loop.Request) { r.SessionID = "" }},
	} {
		req := ask()
		c.change(&req)
		f, ok := a.Generate(t.Context(), req, &journal{}).(loop.Failure)
		if !ok || f.Dispatch != event.DispatchNotDispatched || f.Code != c.code || !strings.HasPrefix(f.NextAction, "nothing was sent: bailing: ") {
			t.Errorf("outcome %+v; want not_dispatched, %s", f, c.code)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests; want none", n)
	}
	for _, c := range []func(*loop.Request){
		func(r *loop.Request) { r.Messages = many(1024) },
		func(r *loop.Request) { r.Tools = tools(128) },
		func(r *loop.Request) { r.OperationID = strings.Repeat("世", 191) },
	} {
		req := ask()
		c(&req)
		if _, err := a.cfg.body(a.profile, req); err != nil {
			t.Errorf("at the limit: %v", err)
		}
	}
}

func TestConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"BaseURL is not":             func(c *Config) { c.BaseURL = "hub.example" },
		"BaseURL holds":              func(c *Config) { c.BaseURL = "https://u:p@hub.example" },
		"use APIKey for the key":     func(c *Config) { c.BaseURL = "https://hub.example?key=x" },
		"no usage key":               func(c *Config) { c.APIKey = "" },
		"bhu_s_…":                    func(c *Config) { c.APIKey = "sk-0123456789abcdefgh" },
		"how it was read":            func(c *Config) { c.APIKey = key + "\n" },
		"APIKey":                     func(c *Config) { c.APIKey = "bhu_s_short" },
		"is no usage key":            func(c *Config) { c.APIKey = httpwire.Secret("bhu_s_" + strings.Repeat("a", 513)) },
		"ServiceID is missing":       func(c *Config) { c.ServiceID = "" },
		"ServiceID":                  func(c *Config) { c.ServiceID = "a\n" },
		"use one of azure":           func(c *Config) { c.Profile = "" },
		"BudgetField":                func(c *Config) { c.BudgetField = "max" },
		"Continuation":               func(c *Config) { c.Continuation = "more" },
		`Extra may not set "max_tok`: func(c *Config) { c.Extra = map[string]event.RawJSON{"max_tokens": event.RawJSON("1")} },
		`Extra may not set "model"`:  func(c *Config) { c.Extra = map[string]event.RawJSON{"model": event.RawJSON("1")} },
		"not one JSON value":         func(c *Config) { c.Extra = map[string]event.RawJSON{"seed": event.RawJSON("1 2")} },
		"is negative":                func(c *Config) { c.LookUps = -1 },
		"or LookUpWait is":           func(c *Config) { c.LookUpWait = -1 },
		"MaxAnswerBytes, ":           func(c *Config) { c.MaxAnswerBytes = -1 },
		"a size limit is negative":   func(c *Config) { c.HTTP.MaxBodyBytes = -1 },
	} {
		cfg := Config{BaseURL: "https://hub.example", ServiceID: svcID, Profile: "openai", APIKey: key}
		change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
		if err != nil && (strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "sk-0")) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
}

func TestRevisions(t *testing.T) {
	base := adapter(t, "http://hub.example").Service()
	if base.ID != "bailing/openai/svc" || base.Native || base.Revision == "" {
		t.Errorf("service %+v", base)
	}
	seen := map[string]bool{base.Revision: true}
	for i, change := range []func(*Config){
		func(c *Config) { c.BaseURL = "http://other.example" },
		func(c *Config) { c.ServiceID = "svc2" },
		func(c *Config) { c.Profile = "deepseek" },
		func(c *Config) { c.BudgetField = "max_tokens" },
		func(c *Config) { c.Continuation = chat.ContinuePrefix },
		func(c *Config) { c.DoneOptional = true },
		func(c *Config) { c.Conversation = true },
		func(c *Config) { c.Extra = map[string]event.RawJSON{"seed": event.RawJSON("1")} },
	} {
		r := adapter(t, "http://hub.example", change).Service().Revision
		if seen[r] {
			t.Errorf("change %d does not change the revision", i)
		}
		seen[r] = true
	}
	if again := adapter(t, "http://hub.example", func(c *Config) { c.LookUps = 9 }).Service(); again != base {
		t.Error("the revision depends on how often a look-up asks")
	}
}

// TestDoneOptional: the hub's receipt frames what the server did not end.
func TestDoneOptional(t *testing.T) {
	url, _ := hub(t, status(200, "text/event-stream", frames(started, provider(hello+stop), receipt(completed(hello+stop)))))
	for optional, want := range map[bool]string{true: "completion stop", false: "uncertain no_terminal"} {
		a := adapter(t, url, func(c *Config) { c.DoneOptional = optional })
		if got := say(a.Generate(t.Context(), ask(), &journal{})); got != want {
			t.Errorf("optional %t: %s; want %s", optional, got, want)
		}
	}
}

// TestOneDispatch: an operation whose stream broke is looked up, and the hub
// is asked to generate once.
func TestOneDispatch(t *testing.T) {
	posts, gets := atomic.Int32{}, atomic.Int32{}
	body := hello + limit + fin
	url, _ := hub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			posts.Add(1)
			write(w, frames(started, provider(body)))
			hangUp(w)
			return
		}
		if gets.Add(1) == 1 {
			write(w, view("dispatch_committed", "pending", "unknown"))
			return
		}
		write(w, completed(body))
	})
	a := adapter(t, url)
	j := &journal{}
	if got := say(a.Generate(t.Context(), ask(), j)); got != "uncertain transport" {
		t.Fatalf("outcome %s; want uncertain transport: the inner length means nothing", got)
	}
	for _, want := range []string{"pending", "complete: completion output_budget"} {
		if got := saw(a.InspectSaved(t.Context(), ask(), j.raw)); got != want {
			t.Errorf("saw %s; want %s", got, want)
		}
	}
	if posts.Load() != 1 || gets.Load() != 2 {
		t.Errorf("%d requests, %d look-ups; want 1 and 2", posts.Load(), gets.Load())
	}
}
