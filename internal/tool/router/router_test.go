package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/internal/tool/mcp"
	"github.com/loopd/loopd/internal/tool/nats"
	"github.com/loopd/loopd/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ runner.Tools = (*Tools)(nil)
	_ Executor     = (*nats.Tools)(nil)
	_ Server       = (*mcp.Tools)(nil)
)

// place is an executor that says what it was asked.
type place struct {
	name   string
	specs  map[string]mcp.Spec
	err    error
	listed int
}

func (p *place) Call(_ context.Context, req loop.ToolRequest) loop.ToolOutcome {
	return loop.ToolOutcome{Result: fmt.Sprint(p.name, " ran ", req.Tool, req.Arguments, req.InvocationID)}
}

func (p *place) Inspect(_ context.Context, req loop.ToolRequest) loop.ToolInspection {
	return loop.ToolInspection{Observed: event.ObservedPending, Outcome: loop.ToolOutcome{Result: p.name + " saw " + req.Tool}}
}

func (p *place) Specs(context.Context) (map[string]mcp.Spec, error) {
	p.listed++
	return p.specs, p.err
}

func files() *place {
	return &place{name: "files", specs: map[string]mcp.Spec{
		"read":     {Description: "reads", Parameters: event.RawJSON(`{"type":"object"}`), HintedEffect: event.EffectRead},
		"write":    {Description: "writes", HintedEffect: event.EffectWrite},
		"dir.list": {Description: "lists", HintedEffect: event.EffectIdempotent},
	}}
}

func ask(tool string) loop.ToolRequest {
	return loop.ToolRequest{Tool: tool, Arguments: `{}`, InvocationID: "v1"}
}

func TestCallsGoWhereTheyBelong(t *testing.T) {
	tools, err := New(Config{
		NATS: &place{name: "nats"}, Servers: map[string]Server{"files": files(), "other": &place{name: "other"}},
		Tools: map[string]Tool{
			"lookup": {NATS: true}, "order": {NATS: true, Remote: "order.v2"},
			"read": {MCP: "files"}, "list": {MCP: "files", Remote: "dir.list"}, "also": {MCP: "other"},
		},
		Imports: map[string]Import{"files": {Prefix: "f_"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, ran, saw string }{
		{"lookup", "nats ran lookup{}v1", "nats saw lookup"},
		{"order", "nats ran order.v2{}v1", "nats saw order.v2"},
		{"read", "files ran read{}v1", "files saw read"},
		{"list", "files ran dir.list{}v1", "files saw dir.list"},
		{"also", "other ran also{}v1", "other saw also"},
	} {
		if out := tools.Call(t.Context(), ask(c.tool)); out != (loop.ToolOutcome{Result: c.ran}) {
			t.Errorf("%s: %+v", c.tool, out)
		}
		if got := tools.Inspect(t.Context(), ask(c.tool)); got.Outcome.Result != c.saw {
			t.Errorf("%s: %+v", c.tool, got)
		}
	}
	out := tools.Call(t.Context(), ask("f_write"))
	if !out.Failed || out.Lost || out.Result != "tool f_write was not run: there is no such tool; there are also, list, lookup, order, read" {
		t.Errorf("%+v", out)
	}
	if got := tools.Inspect(t.Context(), ask("f_write")); got.Observed != event.ObservedUnsupported {
		t.Errorf("%+v", got)
	}
	tools.cfg.Servers["other"].(*place).specs = map[string]mcp.Spec{"also": {}}
	if _, err := tools.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := tools.Call(t.Context(), ask("f_write")); out.Result != "files ran write{}v1" {
		t.Errorf("once imported: %+v", out)
	}
}

func TestDescribe(t *testing.T) {
	server, pinned := files(), &place{name: "down", err: errors.New("it is down")}
	tools, err := New(Config{
		NATS: &place{}, Servers: map[string]Server{"files": server, "down": pinned},
		Tools: map[string]Tool{
			"lookup":  {NATS: true, Tool: loop.Tool{Effect: event.EffectRead, Description: "looks"}},
			"read":    {MCP: "files"},
			"hinted":  {MCP: "files", Remote: "read", TrustHints: true, Tool: loop.Tool{Background: true}},
			"firm":    {MCP: "files", Remote: "read", Tool: loop.Tool{Effect: event.EffectIdempotent, Approval: event.ApprovalRequired, Description: "own"}},
			"distant": {MCP: "down", Tool: loop.Tool{Description: "own", Parameters: event.RawJSON(`{}`)}},
		},
		Imports: map[string]Import{"files": {Prefix: "f.", Approval: event.ApprovalRequired, TrustHints: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tools.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	object := event.RawJSON(`{"type":"object"}`)
	want := map[string]loop.Tool{
		"lookup":     {Effect: event.EffectRead, Approval: event.ApprovalNone, Description: "looks"},
		"read":       {Effect: event.EffectWrite, Approval: event.ApprovalNone, Description: "reads", Parameters: object},
		"hinted":     {Effect: event.EffectRead, Approval: event.ApprovalNone, Background: true, Description: "reads", Parameters: object},
		"firm":       {Effect: event.EffectIdempotent, Approval: event.ApprovalRequired, Description: "own", Parameters: object},
		"distant":    {Effect: event.EffectWrite, Approval: event.ApprovalNone, Description: "own", Parameters: event.RawJSON(`{}`)},
		"f_write":    {Effect: event.EffectWrite, Approval: event.ApprovalRequired, Description: "writes"},
		"f_dir_list": {Effect: event.EffectIdempotent, Approval: event.ApprovalRequired, Description: "lists"},
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s: %+v, want %+v", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("described %v", slices.Sorted(maps.Keys(got)))
	}
	if server.listed != 1 || pinned.listed != 0 {
		t.Errorf("the server was asked %d times, the one that is down %d times", server.listed, pinned.listed)
	}
}

func TestDescribeFails(t *testing.T) {
	odd := &place{specs: map[string]mcp.Spec{"a.b": {}, "a b": {}}}
	long := &place{specs: map[string]mcp.Spec{strings.Repeat("x", 65): {}}}
	down := &place{err: errors.New("it is down")}
	for _, c := range []struct {
		name, text string
		cfg        Config
	}{
		{"a server is down", "it is down", Config{Servers: map[string]Server{"s": down}, Tools: map[string]Tool{"a": {MCP: "s"}}}},
		{"an imported server is down", "router: tools of MCP server s: it is down", Config{Servers: map[string]Server{"s": down}, Imports: map[string]Import{"s": {}}}},
		{"not offered", "router: tool a: MCP server s does not offer a; there are dir.list, read, write",
			Config{Servers: map[string]Server{"s": files()}, Tools: map[string]Tool{"a": {MCP: "s"}}}},
		{"not offered for import", "it does not offer a", Config{Servers: map[string]Server{"s": files()}, Imports: map[string]Import{"s": {Only: []string{"a"}}}}},
		{"two of one name", "give the import a prefix", Config{Servers: map[string]Server{"s": odd}, Imports: map[string]Import{"s": {}}}},
		{"declared and imported", "there is a tool read already",
			Config{NATS: &place{}, Servers: map[string]Server{"s": files()}, Tools: map[string]Tool{"read": {NATS: true}}, Imports: map[string]Import{"s": {}}}},
		{"a long name", "with a name of your own", Config{Servers: map[string]Server{"s": long}, Imports: map[string]Import{"s": {}}}},
		{"too many", "3 tools, at most 2", Config{MaxTools: 2, Servers: map[string]Server{"s": files()}, Imports: map[string]Import{"s": {}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tools, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tools.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
	only, err := New(Config{MaxTools: 1, Servers: map[string]Server{"s": files()}, Imports: map[string]Import{"s": {Only: []string{"read"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := only.Describe(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestConfig(t *testing.T) {
	one := func(tool Tool) Config {
		return Config{NATS: &place{}, Servers: map[string]Server{"s": files()}, Tools: map[string]Tool{"a": tool}}
	}
	for _, c := range []struct {
		text string
		cfg  Config
	}{
		{"nothing says what runs it", one(Tool{})},
		{"or two things do", one(Tool{NATS: true, MCP: "s"})},
		{"no MCP server is called x; there are s", one(Tool{MCP: "x"})},
		{"no executor for that", Config{Tools: map[string]Tool{"a": {NATS: true}}}},
		{`effect "maybe"`, one(Tool{NATS: true, Tool: loop.Tool{Effect: "maybe"}})},
		{`approval "maybe"`, one(Tool{NATS: true, Tool: loop.Tool{Approval: "maybe"}})},
		{"no hints over NATS", one(Tool{NATS: true, TrustHints: true})},
		{"keep one", one(Tool{MCP: "s", TrustHints: true, Tool: loop.Tool{Effect: event.EffectRead}})},
		{"not a JSON Schema object", one(Tool{MCP: "s", Tool: loop.Tool{Parameters: event.RawJSON(`[]`)}})},
		{"not a JSON Schema object", one(Tool{MCP: "s", Tool: loop.Tool{Parameters: event.RawJSON(`{`)}})},
		{`tool a.b: name "a.b" is not`, Config{NATS: &place{}, Tools: map[string]Tool{"a.b": {NATS: true}}}},
		{"MCP server x: no MCP server is called x; there are none", Config{Imports: map[string]Import{"x": {}}}},
		{`effect "maybe"`, Config{Servers: map[string]Server{"s": files()}, Imports: map[string]Import{"s": {Effect: "maybe"}}}},
		{"keep one", Config{Servers: map[string]Server{"s": files()}, Imports: map[string]Import{"s": {Effect: event.EffectRead, TrustHints: true}}}},
		{"negative", Config{MaxTools: -1}},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %s", err, c.text)
		}
	}
}

func TestManyNamesAreCutShort(t *testing.T) {
	cfg := Config{NATS: &place{}, Tools: map[string]Tool{}}
	for i := range 25 {
		cfg.Tools[fmt.Sprintf("t%02d", i)] = Tool{NATS: true}
	}
	tools, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if out := tools.Call(t.Context(), ask("x")); !strings.Contains(out.Result, "t19 and 5 more") || strings.Contains(out.Result, "t20") {
		t.Error(out.Result)
	}
}
