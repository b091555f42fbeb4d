// Package router gives each tool of a configuration the executor that runs it:
// a process over NATS, or a server of the Model Context Protocol.
//
// Invariants
//
//  1. A call goes to the one executor that the configuration names, or to
//     none: there is no second place to try.
//  2. How a tool behaves is the operator's word. A server's word (description,
//     schema, and its hints where they are trusted) fills only what the operator
//     left out.
//  3. What a tool is called is unique; two that claim one name are an error,
//     never a choice.
//
// It opens and closes nothing: executors belong to who made them.
package router

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/tool/mcp"
	"github.com/loopd/loopd/loop"
)

// Executor runs calls.
type Executor interface {
	Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome
	Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection
}

// Server is an executor that knows what it offers.
type Server interface {
	Executor
	Specs(ctx context.Context) (map[string]mcp.Spec, error)
}

// Config is which tools there are, and where.
type Config struct {
	NATS    Executor          // runs tools with NATS set; nil = none may
	Servers map[string]Server // MCP servers, by the name that tools use
	Tools   map[string]Tool   // by the name that the model sees
	Imports map[string]Import // servers whose tools come without being declared, by name

	// MaxTools bounds how many tools the model may see. Default 128, the most
	// that common model services take.
	MaxTools int
}

// Tool is one declared tool. It is run over NATS or by an MCP server, one of
// them.
type Tool struct {
	// Tool is the operator's word. An empty Effect is event.EffectWrite. With
	// Description and Parameters given and no hints to trust, the server is not
	// asked about the tool before its first call.
	loop.Tool
	NATS   bool
	MCP    string // name of a server
	Remote string // what it is called there; default: the same
	// TrustHints takes the effect from the server's hints where Effect is empty.
	// Nothing holds a server to its hints: a write that calls itself read-only is
	// run again after a restart, unasked. Only for servers of your own.
	TrustHints bool
}

// Import takes a server's tools as they are listed. A tool that is declared as
// well is left to its declaration.
type Import struct {
	Only       []string // names at the server; empty = all
	Prefix     string   // before each name
	Effect     string   // of each; "" = hints if they are trusted, else event.EffectWrite
	Approval   string
	Background bool
	TrustHints bool // as Tool.TrustHints
}

// Tools run each call where it belongs. They are safe for concurrent use.
type Tools struct {
	cfg    Config
	routes atomic.Pointer[map[string]route]
}

type route struct {
	to     Executor
	remote string
}

// New checks a configuration; it asks no server yet.
func New(cfg Config) (*Tools, error) {
	if cfg.MaxTools == 0 {
		cfg.MaxTools = 128
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("router: config: %w", err)
	}
	routes := map[string]route{}
	for name, tool := range cfg.Tools {
		routes[name] = cfg.route(name, tool)
	}
	t := &Tools{cfg: cfg}
	t.routes.Store(&routes)
	return t, nil
}

func (c Config) route(name string, tool Tool) route {
	r := route{to: c.NATS, remote: name}
	if tool.MCP != "" {
		r.to = c.Servers[tool.MCP]
	}
	if tool.Remote != "" {
		r.remote = tool.Remote
	}
	return r
}

// Call runs a call where its tool is.
func (t *Tools) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	r, ok := (*t.routes.Load())[req.Tool]
	if !ok {
		return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s was not run: there is no such tool; %s", req.Tool, t.known())}
	}
	req.Tool = r.remote
	return r.to.Call(ctx, req)
}

// Inspect looks a call up where its tool is.
func (t *Tools) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	r, ok := (*t.routes.Load())[req.Tool]
	if !ok {
		return loop.ToolInspection{Observed: event.ObservedUnsupported}
	}
	req.Tool = r.remote
	return r.to.Inspect(ctx, req)
}

// maxNamed bounds how many tools a message names.
const maxNamed = 20

func (t *Tools) known() string { return listed(slices.Sorted(maps.Keys(*t.routes.Load()))) }

func listed(names []string) string {
	switch {
	case len(names) == 0:
		return "there are none"
	case len(names) > maxNamed:
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return "there are " + strings.Join(names, ", ")
}
