// Package toolbox makes tools of a configuration: how each behaves, and which
// of three runs it: a process over NATS, a server of the Model Context
// Protocol, or a session of its own.
//
// A tool that nothing runs, or two things do, is an error before anything is
// opened.
package toolbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/tool/delegate"
	"github.com/loopd/loopd/internal/tool/mcp"
	"github.com/loopd/loopd/internal/tool/router"
	"github.com/loopd/loopd/loop"
)

// Tool is one tool of the model: how it behaves, and what runs it. The yaml
// names are those of the configuration file.
type Tool struct {
	Effect      string         `yaml:"effect"`     // read, idempotent, write (the default: nothing is repeated unasked)
	Approval    string         `yaml:"approval"`   // none, required
	Background  bool           `yaml:"background"` // a call becomes a job
	Description string         `yaml:"description"`
	Parameters  map[string]any `yaml:"parameters"` // JSON Schema of the arguments

	Session    bool   `yaml:"session"`     // a session of its own does the work, in the background
	NATS       bool   `yaml:"nats"`        // a process that serves <prefix>.tool.<remote> runs it
	MCP        string `yaml:"mcp"`         // the one of mcp_servers that runs it
	Remote     string `yaml:"remote"`      // what it is called there; "" = the same
	TrustHints bool   `yaml:"trust_hints"` // take the effect from the server's hints
}

// Server is a server of the Model Context Protocol: a command to start or
// an address.
type Server struct {
	Command   []string          `yaml:"command"`  // the program and its arguments
	Env       map[string]string `yaml:"env"`      // further variables of the process
	PassEnv   []string          `yaml:"pass_env"` // variables of our own that it gets, too
	Dir       string            `yaml:"dir"`      // where it runs
	URL       string            `yaml:"url"`      // streamable HTTP
	Headers   map[string]string `yaml:"headers"`
	HeaderEnv map[string]string `yaml:"header_env"` // headers whose values environment variables hold

	ConnectTimeout string  `yaml:"connect_timeout"` // start and handshake; "" = 30s
	Import         *Import `yaml:"import"`          // its tools that need no entry in tools
}

// Import takes a server's tools as it lists them.
type Import struct {
	Only       []string `yaml:"only"`   // names at the server; empty = all
	Prefix     string   `yaml:"prefix"` // before each name
	Effect     string   `yaml:"effect"`
	Approval   string   `yaml:"approval"`
	Background bool     `yaml:"background"`
	TrustHints bool     `yaml:"trust_hints"`
}

// loop is how the tool behaves.
func (t Tool) loop() (loop.Tool, error) {
	out := loop.Tool{Effect: t.Effect, Approval: t.Approval, Background: t.Background, Description: t.Description}
	if t.Parameters != nil {
		b, err := json.Marshal(t.Parameters, json.Deterministic(true))
		if err != nil {
			return out, fmt.Errorf("parameters: %w", err)
		}
		out.Parameters = event.RawJSON(b)
	}
	return out, nil
}

// delegated is how a tool behaves whose work a session of its own does. The
// same invocation finds the same session: it can be asked again.
func (t Tool) delegated() (loop.Tool, error) {
	if t.NATS || t.MCP != "" || t.Remote != "" || t.TrustHints {
		return loop.Tool{}, errors.New("a session runs it: leave out nats, mcp, remote and trust_hints")
	}
	out, err := t.loop()
	out.Background = true
	if out.Effect == "" {
		out.Effect = event.EffectIdempotent
	}
	if out.Description == "" {
		out.Description = delegate.Description
	}
	if out.Parameters == nil {
		out.Parameters = event.RawJSON(delegate.Parameters)
	}
	return out, err
}

// Config is the tools, and what they need.
type Config struct {
	Tools   map[string]Tool   // by the name that the model sees
	Servers map[string]Server // by the name that tools use
	// LookupEnv reads the environment.
	LookupEnv func(name string) (value string, ok bool)
	Logger    *slog.Logger
}

// Box runs the tools of a configuration.
type Box struct {
	router   *router.Tools
	nats     *late
	delegate router.Executor // runs sessions
	servers  []*mcp.Tools
	sessions map[string]bool // tools that sessions of their own run
}

// late are the tools over NATS, once there is a connection. The router checks
// its configuration before there is one, and calls nothing.
type late struct{ router.Executor }

// New checks a configuration; it asks no server yet.
func New(c Config) (*Box, error) {
	box := &Box{nats: &late{}, sessions: map[string]bool{}}
	r := router.Config{
		NATS: box.nats, Servers: map[string]router.Server{}, Tools: map[string]router.Tool{}, Imports: map[string]router.Import{},
	}
	if err := errors.Join(c.addServers(box, r), c.addTools(box, r)); err != nil {
		return nil, err
	}
	var err error
	if box.router, err = router.New(r); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return box, nil
}

func (c Config) addServers(box *Box, r router.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		cfg, err := s.config(name, c)
		if err != nil {
			return fmt.Errorf("mcp_servers.%s: %w", name, err)
		}
		tools, err := mcp.New(cfg)
		if err != nil {
			return fmt.Errorf("mcp_servers: %w", err)
		}
		box.servers, r.Servers[name] = append(box.servers, tools), tools
		if i := s.Import; i != nil {
			r.Imports[name] = router.Import{
				Only: i.Only, Prefix: i.Prefix, Effect: i.Effect, Approval: i.Approval, Background: i.Background, TrustHints: i.TrustHints,
			}
		}
	}
	return nil
}

func (c Config) addTools(box *Box, r router.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		var own loop.Tool
		var err error
		if t.Session {
			own, err = t.delegated()
			box.sessions[name], t.NATS = true, true // the router checks it and names it to the model; executor runs it
		} else {
			own, err = t.loop()
		}
		if err != nil {
			return fmt.Errorf("tools.%s: %w", name, err)
		}
		r.Tools[name] = router.Tool{Tool: own, NATS: t.NATS, MCP: t.MCP, Remote: t.Remote, TrustHints: t.TrustHints}
	}
	return nil
}

func (s Server) config(name string, c Config) (mcp.Config, error) {
	cfg := mcp.Config{
		Name: name, Dir: s.Dir, URL: s.URL, Headers: maps.Clone(s.Headers), Logger: c.Logger,
	}
	if s.ConnectTimeout != "" {
		wait, err := time.ParseDuration(s.ConnectTimeout)
		if err != nil || wait <= 0 {
			return cfg, fmt.Errorf("connect_timeout %q is not a duration such as 30s", s.ConnectTimeout)
		}
		cfg.ConnectTimeout = wait
	}
	if len(s.Command) > 0 {
		cfg.Command, cfg.Args = s.Command[0], s.Command[1:]
	}
	for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
		cfg.Env = append(cfg.Env, variable+"="+s.Env[variable])
	}
	for _, variable := range s.PassEnv {
		value, ok := c.LookupEnv(variable)
		if !ok {
			return cfg, fmt.Errorf("the environment variable %s (pass_env) is not set; set it, or leave it out", variable)
		}
		cfg.Env = append(cfg.Env, variable+"="+value)
	}
	for header, variable := range s.HeaderEnv {
		value, _ := c.LookupEnv(variable)
		if value == "" {
			return cfg, fmt.Errorf("the environment variable %s (header_env) is empty; set it to the value of %s", variable, header)
		}
		if cfg.Headers == nil {
			cfg.Headers = map[string]string{}
		}
		cfg.Headers[header] = value
	}
	if len(s.Command) > 0 && len(s.HeaderEnv) > 0 {
		return cfg, errors.New("header_env belongs to a url; give a command its secrets in pass_env")
	}
	return cfg, nil
}

// Open gives the box what runs tools over NATS and what runs sessions, and says
// how all tools behave: servers are asked for what the configuration leaves
// out. Nothing may be called before.
func (b *Box) Open(ctx context.Context, overNATS, sessions router.Executor) (map[string]loop.Tool, error) {
	b.nats.Executor, b.delegate = overNATS, sessions
	return b.router.Describe(ctx)
}

// Call runs a call where its tool is.
func (b *Box) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	return b.executor(req.Tool).Call(ctx, req)
}

// Inspect looks a call up where its tool is.
func (b *Box) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	return b.executor(req.Tool).Inspect(ctx, req)
}

func (b *Box) executor(tool string) router.Executor {
	if b.sessions[tool] {
		return b.delegate
	}
	return b.router
}

// Close ends the servers.
func (b *Box) Close() {
	var all sync.WaitGroup
	for _, s := range b.servers {
		all.Go(s.Close)
	}
	all.Wait()
}
