package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the server is: Command or URL, one of them.
type Config struct {
	// Name is what messages call the server.
	Name string

	// Command is the program to start, with Args. It speaks over its standard
	// input and output.
	Command string
	Args    []string
	// Env are further variables, NAME=value. Of our own environment the process
	// gets HOME, PATH and the like only.
	Env []string
	// Dir is where it runs. Default: where we run.
	Dir string
	// Grace is how long a process that should end may take after its input is
	// closed, and again after a SIGTERM, before it is killed. Default 5 s.
	Grace time.Duration

	// URL is a streamable HTTP endpoint.
	URL string
	// Headers go along with every request, for example an Authorization.
	Headers map[string]string
	// Transport carries the requests. Default: one of its own, like
	// http.DefaultTransport.
	Transport *http.Transport

	// Protocol is the newest version of the protocol to offer, such as
	// 2025-11-25. Default: the newest that is known.
	Protocol string
	// ConnectTimeout bounds the start of the process and the handshake. Default
	// 30 s.
	ConnectTimeout time.Duration
	// MaxWait bounds one call, whatever its context says. Default 24 h.
	MaxWait time.Duration
	// MaxArguments bounds the bytes of a call's arguments. Default 1 MiB.
	MaxArguments int
	// MaxMessage bounds the bytes of one message of the server. Default 16 MiB.
	MaxMessage int
	// MaxResult bounds the bytes of a result. Default 128 KiB: it fits into an
	// event of 1 MiB even if JSON must escape every byte.
	MaxResult int
	// MaxTools bounds how many tools a server may list. Default 1000.
	MaxTools int
	// MaxSpec bounds the bytes of one tool's description and schema. Default
	// 64 KiB.
	MaxSpec int
	// Logger gets what an operator should know, and at debug level what the
	// process writes to its standard error. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "unnamed"
	}
	defaultTo(&c.Grace, 5*time.Second)
	defaultTo(&c.ConnectTimeout, 30*time.Second)
	defaultTo(&c.MaxWait, 24*time.Hour)
	defaultTo(&c.MaxArguments, 1<<20)
	defaultTo(&c.MaxMessage, 16<<20)
	defaultTo(&c.MaxResult, 128<<10)
	defaultTo(&c.MaxTools, 1000)
	defaultTo(&c.MaxSpec, 64<<10)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("mcp_server", c.Name)
	return c
}

func defaultTo[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c Config) validate() error {
	switch {
	case (c.Command == "") == (c.URL == ""):
		return errors.New("give a command to start or a url to connect to, one of them")
	case c.URL != "" && (len(c.Args) > 0 || len(c.Env) > 0 || c.Dir != ""):
		return errors.New("args, env and dir belong to a command; leave them out beside a url")
	case c.Command != "" && len(c.Headers) > 0:
		return errors.New("headers belong to a url; give a command its secrets in env")
	case min(c.Grace, c.ConnectTimeout, c.MaxWait) < 0,
		min(c.MaxArguments, c.MaxMessage, c.MaxResult, c.MaxTools, c.MaxSpec) < 0:
		return errors.New("times and sizes must not be negative; leave them out for the defaults")
	}
	for _, pair := range c.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return fmt.Errorf("env %q is not NAME=value", name)
		}
	}
	if c.URL == "" {
		return nil
	}
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("url is not an http:// or https:// address of a host")
	}
	return nil
}
