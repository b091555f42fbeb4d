package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/provider/protocols"
	"github.com/loopd/loopd/internal/tool/toolbox"
	"github.com/loopd/loopd/loop"
)

// config is what loopd runs by: the defaults, over them the file that --config
// names, over it the flags. The yaml names are the manual of the file; the
// table in settings.go is that of the flags.
type config struct {
	Data        string `yaml:"data"`         // directory of the embedded server
	Listen      string `yaml:"listen"`       // where it listens, host:port
	Durability  string `yaml:"durability"`   // what an acknowledgement means: interval, barrier, always
	MaxStore    size   `yaml:"max_store"`    // bound of the bytes on disk; 0 = below the free space
	Prefix      string `yaml:"prefix"`       // first token of the subjects
	User        string `yaml:"user"`         // asked of clients by an embedded server, given to an external one
	PasswordEnv string `yaml:"password_env"` // environment variable that holds its password
	NATS        remote `yaml:"nats"`         // an external server instead of the embedded one

	Provider protocols.Settings `yaml:"provider"`
	System   string             `yaml:"system"` // the system message; "" = the built-in one

	Steering     string                    `yaml:"steering"` // request_boundary or native
	Continuation bounds                    `yaml:"continuation"`
	OutputBudget int64                     `yaml:"output_budget"` // tokens an operation may put out; 0 = the provider's default
	Context      window                    `yaml:"context"`
	Tools        map[string]toolbox.Tool   `yaml:"tools"`
	MCPServers   map[string]toolbox.Server `yaml:"mcp_servers"`
	Limits       limits                    `yaml:"limits"`
	Timeouts     timeouts                  `yaml:"timeouts"`

	Owner    string   `yaml:"owner"`     // name of this process in session.claimed
	Grace    duration `yaml:"grace"`     // how long operations may end at a shutdown
	LogLevel string   `yaml:"log_level"` // debug, info, warn, error

	dataSet bool // the directory was named, not taken by default
}

type remote struct {
	URL      string `yaml:"url"`
	Creds    string `yaml:"creds"` // credentials file
	TLSCA    string `yaml:"tls_ca"`
	TLSCert  string `yaml:"tls_cert"`
	TLSKey   string `yaml:"tls_key"`
	Replicas int    `yaml:"replicas"` // of each stream: 1, 3 or 5
}

// bounds are those of contract 6.2; 0 = none.
type bounds struct {
	MaxSegments int      `yaml:"max_segments"`
	NoProgress  int      `yaml:"no_progress"`
	MaxTokens   int64    `yaml:"max_tokens"`
	MaxCost     float64  `yaml:"max_cost"`
	MaxElapsed  duration `yaml:"max_elapsed"`
	ExpiresAt   string   `yaml:"expires_at"`
}

// window is how much context the model takes; near it, old turns are
// summarized.
type window struct {
	Tokens int64   `yaml:"tokens"` // 0 = not known: nothing is ever summarized
	Share  float64 `yaml:"share"`  // of it, from which on turns are summarized
}

type limits struct {
	Pending int `yaml:"pending"` // content inputs that wait in a session
	Text    int `yaml:"text"`    // characters of an input
}

type timeouts struct {
	Steer     duration `yaml:"steer"`
	Operation duration `yaml:"operation"` // without a frame
	Inspect   duration `yaml:"inspect"`   // for one look-up
	Tool      duration `yaml:"tool"`      // for a tool's receipt
}

const defaultListen = "127.0.0.1:4222"

func defaultConfig() config {
	b := loop.DefaultBounds()
	return config{
		Data: "./loopd-data", Listen: defaultListen, Durability: string(natsembed.DurabilityInterval), Prefix: "loop",
		NATS:         remote{Replicas: 1},
		Provider:     protocols.Settings{Kind: protocols.Default},
		Steering:     event.SteeringModeRequest,
		Continuation: bounds{MaxSegments: b.MaxSegments, NoProgress: b.NoProgress},
		Context:      window{Share: 0.8},
		Limits:       limits{Pending: 128, Text: 16_000},
		Timeouts: timeouts{
			Steer: duration(30 * time.Second), Operation: duration(120 * time.Second),
			Inspect: duration(30 * time.Second), Tool: duration(10 * time.Minute),
		},
		Owner: ownerName(), Grace: duration(30 * time.Second), LogLevel: "info",
	}
}

func ownerName() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unnamed"
	}
	return fmt.Sprintf("loopd-%s-%d", name, os.Getpid())
}

// check holds the settings that every verb needs against each other.
func (c config) check() error {
	_, _, listen := c.address()
	switch {
	case c.NATS.URL != "" && c.dataSet:
		return errors.New("both a data directory (--data) and an external server (--nats) are given; keep one")
	case c.NATS.URL == "" && c.NATS != (remote{Replicas: 1}):
		return errors.New("creds, TLS files and replicas belong to an external server; name it with --nats URL, or leave them out")
	case listen != nil:
		return listen
	case !slices.Contains([]string{"interval", "barrier", "always"}, c.Durability):
		return fmt.Errorf("durability %q is not one of interval, barrier, always", c.Durability)
	case c.PasswordEnv != "" && c.User == "":
		return errors.New("a password_env without a user; set both or none")
	case c.User != "" && c.PasswordEnv == "":
		return errors.New("a user without a password_env; name the environment variable that holds the password")
	case c.User != "" && os.Getenv(c.PasswordEnv) == "":
		return fmt.Errorf("the environment variable %s (password_env) is empty; set it to the password of %s", c.PasswordEnv, c.User)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel):
		return fmt.Errorf("log_level %q is not one of debug, info, warn, error", c.LogLevel)
	}
	return nil
}

// address is where the embedded server listens.
func (c config) address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(c.Listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen %q is not host:port, such as %s (port 0 = any free one)", c.Listen, defaultListen)
	}
	return host, port, nil
}

// loop is what sessions run by, but for their tools.
func (c config) loop() (loop.Config, error) {
	var expires time.Time
	switch {
	case c.Steering != event.SteeringModeRequest && c.Steering != event.SteeringModeNative:
		return loop.Config{}, fmt.Errorf("steering %q is not one of request_boundary, native", c.Steering)
	case c.Continuation.ExpiresAt != "":
		at, err := time.Parse(time.RFC3339Nano, c.Continuation.ExpiresAt)
		if err != nil {
			return loop.Config{}, fmt.Errorf("continuation.expires_at %q is not a time such as 2026-01-01T00:10:00Z", c.Continuation.ExpiresAt)
		}
		expires = at
	}
	b, w := c.Continuation, c.Context
	switch {
	case w.Tokens < 0 || w.Share <= 0 || w.Share > 1:
		return loop.Config{}, errors.New("context: tokens must not be negative (0 = not known), and share must lie above 0 and at most at 1")
	case w.Tokens > 0 && float64(w.Tokens)*w.Share <= float64(c.OutputBudget):
		return loop.Config{}, fmt.Errorf("context: %d tokens, of them a share of %g, leave no room beside an output_budget of %d; raise them, or lower the budget",
			w.Tokens, w.Share, c.OutputBudget)
	}
	if min(b.MaxSegments, b.NoProgress, c.Limits.Pending, c.Limits.Text) < 0 ||
		min(b.MaxTokens, c.OutputBudget, int64(b.MaxElapsed), int64(c.Grace), c.Timeouts.least()) < 0 || b.MaxCost < 0 {
		return loop.Config{}, errors.New("bounds, limits, budgets and time-outs must not be negative; 0 is none, or the default")
	}
	return loop.Config{
		Steering: c.Steering, OutputBudget: c.OutputBudget, System: c.System,
		Bounds: &loop.Bounds{
			MaxSegments: b.MaxSegments, NoProgress: b.NoProgress, MaxTokens: b.MaxTokens, MaxCost: b.MaxCost,
			MaxElapsed: time.Duration(b.MaxElapsed), ExpiresAt: expires,
		},
		Limits: loop.Limits{Limits: event.Limits{Text: c.Limits.Text}, Pending: c.Limits.Pending},
		Timeouts: loop.Timeouts{
			Steer: time.Duration(c.Timeouts.Steer), Operation: time.Duration(c.Timeouts.Operation),
			Inspect: time.Duration(c.Timeouts.Inspect), Tool: time.Duration(c.Timeouts.Tool),
		},
		Window: loop.Window{Tokens: w.Tokens, Share: w.Share},
	}, nil
}

func (t timeouts) least() int64 {
	return int64(min(t.Steer, t.Operation, t.Inspect, t.Tool))
}

// lineError is what is wrong with a configuration file, and where.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// read lays a configuration file over the settings.
func (c *config) read(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := c.decode(b); err != nil {
		return fmt.Errorf("config %s: %w", path, err)
	}
	return nil
}

func (c *config) decode(b []byte) error {
	empty, err := checkShape(b)
	if err != nil || empty {
		return err
	}
	err = yaml.UnmarshalWithOptions(b, c, yaml.Strict())
	var own *lineError
	var at yaml.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &at):
		return explain(at)
	}
	return err
}
