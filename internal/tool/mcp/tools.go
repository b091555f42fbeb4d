package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// MetaInvocation is the name in _meta under which a call's invocation id, the
// idempotency key, goes to the server.
const MetaInvocation = "loopd/invocation_id"

// Tools are the tools of one server. They are safe for concurrent use.
type Tools struct {
	cfg    Config
	client *sdk.Client

	root context.Context // ends with Close
	end  context.CancelFunc
	gate chan struct{} // holds one token: who has it connects

	mu     sync.Mutex
	closed bool
	link   *link // the connection for new calls; nil = none

	// In the order in which Close waits for them; each begins inside of the ones
	// before, or before Close goes on to it.
	calls   sync.WaitGroup
	cancels sync.WaitGroup // the server is being told that a call is over
	links   sync.WaitGroup
}

// New returns the tools of a server. It does not connect yet.
func New(cfg Config) (*Tools, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mcp: server %s: config: %w", cfg.Name, err)
	}
	t := &Tools{cfg: cfg, gate: make(chan struct{}, 1)}
	t.root, t.end = context.WithCancel(context.Background())
	t.client = sdk.NewClient(&sdk.Implementation{Name: "loopd", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		// It would send a call again.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	return t, nil
}

var errClosed = errors.New("it is shut down")

// Call runs one tool, named as the server names it.
func (t *Tools) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	ctx, done, err := t.enter(ctx)
	if err != nil {
		return t.notRun(req.Tool, err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, t.cfg.MaxWait)
	defer cancel()
	params, err := t.params(req)
	if err != nil {
		return t.notRun(req.Tool, err)
	}
	for {
		l, fresh, err := t.connect(ctx)
		if err != nil {
			return t.notRun(req.Tool, err)
		}
		out, stale := t.try(ctx, l, params)
		if !stale || fresh || ctx.Err() != nil {
			return out
		}
		t.retire(l)
	}
}

// Inspect cannot look anything up: the protocol has no way to ask.
func (t *Tools) Inspect(context.Context, loop.ToolRequest) loop.ToolInspection {
	return loop.ToolInspection{Observed: event.ObservedUnsupported}
}

// Close ends calls that run (they are Lost), the connection and the process,
// and returns when they are gone.
func (t *Tools) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.calls.Wait()
	t.cancels.Wait()
	t.mu.Lock()
	l := t.link
	t.mu.Unlock()
	if l != nil {
		t.retire(l)
	}
	t.links.Wait()
}

// enter counts work in; its context ends with Close.
func (t *Tools) enter(ctx context.Context) (_ context.Context, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, errClosed
	}
	t.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.root, cancel)
	return ctx, func() { stop(); cancel(); t.calls.Done() }, nil
}

func (t *Tools) params(req loop.ToolRequest) (*sdk.CallToolParams, error) {
	arguments := jsontext.Value(req.Arguments)
	switch {
	case len(req.Arguments) > t.cfg.MaxArguments:
		return nil, fmt.Errorf("its arguments have %d bytes, at most %d are allowed; use smaller ones, or raise the limit",
			len(req.Arguments), t.cfg.MaxArguments)
	case !arguments.IsValid() || arguments.Kind() != '{':
		return nil, errors.New("its arguments are not one JSON object")
	}
	return &sdk.CallToolParams{
		Name: req.Tool, Arguments: rawMessage(req.Arguments), Meta: sdk.Meta{MetaInvocation: req.InvocationID},
	}, nil
}

// try sends a call over a connection. It is stale if the call certainly did
// not run because the connection is no longer one.
func (t *Tools) try(ctx context.Context, l *link, params *sdk.CallToolParams) (out loop.ToolOutcome, stale bool) {
	d := newDispatch()
	result, err := l.session.CallTool(d.context(ctx), params)
	if ctx.Err() != nil && d.sent.Load() {
		t.cancels.Go(func() { d.awaitTold(l.ended) }) // the SDK tells the server, beside us
	}
	if err == nil {
		return t.outcome(params.Name, result), false
	}
	end := d.judge(err)
	if end.fate == lost {
		t.cfg.Logger.Warn("a tool call has no receipt", "tool", params.Name, "invocation", params.Meta[MetaInvocation], "err", plainly(err))
		return loop.ToolOutcome{Lost: true}, false
	}
	if end.fate == answered {
		return t.bounded(params.Name, fmt.Sprintf("tool %s failed: %v", params.Name, end.err), true), false
	}
	if end.fate == refused {
		t.retire(l) // the server may have forgotten the session
	}
	return t.notRun(params.Name, end.err), end.stale
}

// notRun is the outcome of a call that certainly did not run.
func (t *Tools) notRun(tool string, why error) loop.ToolOutcome {
	return t.bounded(tool, fmt.Sprintf("tool %s was not run by the MCP server %s: %v", tool, t.cfg.Name, plainly(why)), true)
}

// Spec is what a server says of a tool.
type Spec struct {
	Description string
	Parameters  event.RawJSON // JSON Schema of the arguments, names in order; empty = none given
	// HintedEffect is event.EffectRead or EffectIdempotent where the server's
	// hints say so, else EffectWrite. Nothing holds a server to its hints.
	HintedEffect string
}

// Specs asks the server for all its tools.
func (t *Tools) Specs(ctx context.Context) (map[string]Spec, error) {
	specs, err := t.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("mcp: server %s: list tools: %w", t.cfg.Name, plainly(err))
	}
	return specs, nil
}

func (t *Tools) list(ctx context.Context) (map[string]Spec, error) {
	ctx, done, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	l, fresh, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	specs, err := t.pages(ctx, l.session)
	if err != nil && !fresh && ctx.Err() == nil {
		t.retire(l)
		if l, _, err = t.connect(ctx); err == nil {
			specs, err = t.pages(ctx, l.session)
		}
	}
	return specs, err
}

func (t *Tools) pages(ctx context.Context, session *sdk.ClientSession) (map[string]Spec, error) {
	specs, seen := map[string]Spec{}, map[string]bool{}
	for params := (&sdk.ListToolsParams{}); ; {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			if _, twice := specs[tool.Name]; twice {
				return nil, fmt.Errorf("tool %q is listed twice", tool.Name)
			}
			if specs[tool.Name], err = t.spec(tool); err != nil {
				return nil, fmt.Errorf("tool %q: %w", tool.Name, err)
			}
		}
		next := page.NextCursor
		switch {
		case len(specs) > t.cfg.MaxTools:
			return nil, fmt.Errorf("more than %d tools are listed; raise the limit if that is meant", t.cfg.MaxTools)
		case next == "":
			return specs, nil
		case seen[next] || len(seen) >= t.cfg.MaxTools:
			return nil, errors.New("the pages of the list do not end")
		}
		seen[next] = true
		params = &sdk.ListToolsParams{Cursor: next}
	}
}

func (t *Tools) spec(tool *sdk.Tool) (Spec, error) {
	s := Spec{Description: tool.Description, HintedEffect: event.EffectWrite}
	if schema, ok := tool.InputSchema.(map[string]any); ok {
		b, err := json.Marshal(schema, json.Deterministic(true))
		if err != nil {
			return Spec{}, fmt.Errorf("its schema: %w", err)
		}
		s.Parameters = event.RawJSON(b)
	}
	if n := len(s.Description) + len(s.Parameters); n > t.cfg.MaxSpec {
		return Spec{}, fmt.Errorf("its description and schema have %d bytes, at most %d are allowed; raise the limit if that is meant", n, t.cfg.MaxSpec)
	}
	switch a := tool.Annotations; {
	case a == nil:
	case a.ReadOnlyHint:
		s.HintedEffect = event.EffectRead
	case a.IdempotentHint:
		s.HintedEffect = event.EffectIdempotent
	}
	return s, nil
}
