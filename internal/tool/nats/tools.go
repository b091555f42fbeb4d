package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Config is how tools are asked. Its zero value is usable.
type Config struct {
	// Prefix is the first part of all subjects. Default "loop".
	Prefix string
	// MaxWait bounds one call, whatever its context says. Default 24 h.
	MaxWait time.Duration
	// Silence is how long a call waits without a sign of life before it is
	// looked up; again after every further one. Default 1 min.
	Silence time.Duration
	// LookupWait bounds one look-up, and after a reconnect the time in which
	// the tool must be heard of again. Default 10 s.
	LookupWait time.Duration
	// MaxRequest bounds the bytes of a request. Default 512 KiB; the server's
	// own limit counts beside it.
	MaxRequest int
	// MaxResult bounds the bytes of a result. Default 128 KiB: it fits into an
	// event of 1 MiB even if JSON must escape every byte.
	MaxResult int
	// Logger gets what an operator should know. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "loop"
	}
	defaultTo(&c.MaxWait, 24*time.Hour)
	defaultTo(&c.Silence, time.Minute)
	defaultTo(&c.LookupWait, 10*time.Second)
	defaultTo(&c.MaxRequest, 512<<10)
	defaultTo(&c.MaxResult, 128<<10)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func defaultTo[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c Config) validate() error {
	if min(c.MaxWait, c.Silence, c.LookupWait) < 0 || min(c.MaxRequest, c.MaxResult) < 0 {
		return errors.New("times and sizes must not be negative; leave them out for the defaults")
	}
	for token := range strings.SplitSeq(c.Prefix, ".") {
		if !plain(token) {
			return fmt.Errorf("prefix %q is not made of tokens of letters, digits, _ and -, joined by dots", c.Prefix)
		}
	}
	return nil
}

// Tools call whatever process serves a tool. They are safe for concurrent use.
type Tools struct {
	nc  *natsgo.Conn
	cfg Config
}

// New returns tools over a connection, which stays the caller's.
func New(nc *natsgo.Conn, cfg Config) (*Tools, error) {
	cfg = cfg.withDefaults()
	if nc == nil {
		return nil, errors.New("nats: tools: no connection")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("nats: tools: config: %w", err)
	}
	return &Tools{nc: nc, cfg: cfg}, nil
}

var errMaxWait = errors.New("the call took longer than MaxWait")

// Call sends the call once and waits for its reply.
func (t *Tools) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	ctx, cancel := context.WithTimeoutCause(ctx, t.cfg.MaxWait, errMaxWait)
	defer cancel()
	x, err := t.open(ctx, req)
	if err != nil {
		return notRun(req.Tool, err)
	}
	defer x.close()
	if err := x.send(); err != nil {
		return notRun(req.Tool, err)
	}
	out := x.await()
	if out.Lost && !errors.Is(context.Cause(ctx), context.Canceled) && ctx.Err() != nil {
		t.giveUp(req)
	}
	return out
}

// Inspect asks what became of a call. Nobody to ask is unsupported; an answer
// that is none is an error.
func (t *Tools) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.LookupWait)
	defer cancel()
	subject, err := Subject(t.cfg.Prefix, req.Tool)
	if err != nil {
		return loop.ToolInspection{Observed: event.ObservedUnsupported}
	}
	m := natsgo.NewMsg(subject + suffixInspect)
	m.Header.Set(HeaderInvocation, req.InvocationID)
	m.Data = encodeKey(req)
	reply, err := t.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, natsgo.ErrNoResponders):
		return loop.ToolInspection{Observed: event.ObservedUnsupported}
	case err != nil:
		t.cfg.Logger.Warn("a tool call could not be looked up", "tool", req.Tool, "invocation", req.InvocationID, "err", err)
		return loop.ToolInspection{Observed: event.ObservedError}
	}
	return t.inspection(req.Tool, reply)
}

// giveUp asks the tool to stop: best effort, nobody answers.
func (t *Tools) giveUp(req loop.ToolRequest) {
	subject, err := Subject(t.cfg.Prefix, req.Tool)
	if err != nil {
		return
	}
	m := natsgo.NewMsg(subject + suffixCancel)
	m.Header.Set(HeaderInvocation, req.InvocationID)
	m.Data = encodeKey(req)
	if err := t.nc.PublishMsg(m); err != nil {
		t.cfg.Logger.Warn("a tool call could not be cancelled", "tool", req.Tool, "invocation", req.InvocationID, "err", err)
	}
}

// notRun is the outcome of a call that certainly reached nobody.
func notRun(tool string, why error) loop.ToolOutcome {
	return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s was not run: %v", tool, why)}
}
