package delegate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Sessions is what delegation needs of a host.
type Sessions interface {
	// Submit publishes an input. The same id with the same content again
	// changes nothing. A *[RefusedError] means that it was not published, and
	// never will be.
	Submit(ctx context.Context, session string, in event.Input) error
	// Await waits for what becomes of an input.
	Await(ctx context.Context, session, inputID string) (Ending, error)
	// Look is what became of an input by now: event.ObservedComplete with its
	// ending, pending while it has none, or missing: it was never submitted.
	Look(ctx context.Context, session, inputID string) (event.Observed, Ending, error)
}

// Ending is what became of the input that a child began with.
type Ending struct {
	Finished bool   // its generation finished
	Text     string // the answer
	Reason   string // why there is none, or, finished, why it stopped early; "" = it did not
}

// RefusedError says that an input was certainly not published.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Description and Parameters are what the model is told unless the operator
// says something else.
const (
	Description = "Hands a piece of work to an assistant of its own, who knows nothing of this conversation. " +
		"Say in ask all that it needs to know. Its answer comes later as an observation."
	Parameters = `{"type":"object","properties":{"ask":{"type":"string","description":"The work, and all that is needed to do it."}},` +
		`"required":["ask"],"additionalProperties":false}`
)

// Config bounds delegation. Its zero value is usable.
type Config struct {
	// MaxDepth is how deep delegation may nest. Default 2: a child may delegate
	// once more.
	MaxDepth int
	// MaxWait bounds one piece of work; its child is stopped then. Default 24 h.
	MaxWait time.Duration
	// StopWait bounds the submission of a stop. Default 10 s.
	StopWait time.Duration
	// MaxResult bounds the bytes of an answer. Default 128 KiB: it fits into an
	// event of 1 MiB even if JSON must escape every byte.
	MaxResult int
	// Logger gets what an operator should know. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxDepth = cmp.Or(c.MaxDepth, 2)
	c.MaxWait = cmp.Or(c.MaxWait, 24*time.Hour)
	c.StopWait = cmp.Or(c.StopWait, 10*time.Second)
	c.MaxResult = cmp.Or(c.MaxResult, 128<<10)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Tool delegates. It is safe for concurrent use.
type Tool struct {
	sessions Sessions
	cfg      Config
}

// New makes a tool over a host's sessions.
func New(sessions Sessions, cfg Config) (*Tool, error) {
	cfg = cfg.withDefaults()
	switch {
	case sessions == nil:
		return nil, errors.New("delegate: no sessions")
	case cfg.MaxDepth < 0 || cfg.MaxWait < 0 || cfg.StopWait < 0 || cfg.MaxResult < 0:
		return nil, errors.New("delegate: config: depth, times and sizes must not be negative; leave them out for the defaults")
	}
	return &Tool{sessions, cfg}, nil
}

var errMaxWait = errors.New("the work took longer than MaxWait")

// Call submits the work to the child, unless it has it already, and waits for
// the answer.
func (t *Tool) Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome {
	ctx, cancel := context.WithTimeoutCause(ctx, t.cfg.MaxWait, errMaxWait)
	defer cancel()
	child, depth := Child(req)
	if depth > t.cfg.MaxDepth {
		return notRun(req, fmt.Errorf("it is delegated %d deep already, at most %d are allowed; do it here", depth-1, t.cfg.MaxDepth))
	}
	ask, err := askOf(req.Arguments)
	if err != nil {
		return notRun(req, err)
	}
	var refused *RefusedError
	err = t.sessions.Submit(ctx, child, event.Input{Version: event.Version, InputID: req.InvocationID, Kind: event.KindUser, Text: ask})
	if errors.As(err, &refused) {
		return notRun(req, err)
	}
	var end Ending
	if err == nil {
		end, err = t.sessions.Await(ctx, child, req.InvocationID)
	}
	if err == nil {
		return t.outcome(req, end)
	}
	t.cfg.Logger.Warn("delegated work has no answer", "invocation", req.InvocationID, "child", child, "err", err)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		t.stop(ctx, child, req.InvocationID)
	}
	return loop.ToolOutcome{Lost: true}
}

// Inspect looks the child up.
func (t *Tool) Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection {
	child, _ := Child(req)
	observed, end, err := t.sessions.Look(ctx, child, req.InvocationID)
	switch {
	case err != nil:
		t.cfg.Logger.Warn("delegated work could not be looked up", "invocation", req.InvocationID, "child", child, "err", err)
		return loop.ToolInspection{Observed: event.ObservedError}
	case observed != event.ObservedComplete:
		return loop.ToolInspection{Observed: observed}
	}
	return loop.ToolInspection{Observed: observed, Outcome: t.outcome(req, end)}
}

// stop closes the child: nobody waits for it any more.
func (t *Tool) stop(ctx context.Context, child, invocation string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.StopWait)
	defer cancel()
	err := t.sessions.Submit(ctx, child, event.Input{
		Version: event.Version, InputID: invocation + ".stop", Kind: event.KindStop, Target: event.TargetCancel,
	})
	if err != nil {
		t.cfg.Logger.Warn("a child session could not be stopped", "child", child, "err", err)
	}
}

func (t *Tool) outcome(req loop.ToolRequest, end Ending) loop.ToolOutcome {
	switch {
	case !end.Finished:
		return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s: %s", req.Tool, end.Reason)}
	case len(end.Text) > t.cfg.MaxResult:
		return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s ran, and what it did stands, but its answer has %d bytes, at most %d are allowed; ask for less",
			req.Tool, len(end.Text), t.cfg.MaxResult)}
	case end.Reason != "":
		return loop.ToolOutcome{Result: fmt.Sprintf("%s\n\n(The assistant stopped early: %s.)", end.Text, end.Reason)}
	}
	return loop.ToolOutcome{Result: end.Text}
}

// notRun is the outcome of a call that certainly began no work.
func notRun(req loop.ToolRequest, why error) loop.ToolOutcome {
	return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s was not run: %v", req.Tool, why)}
}

func askOf(arguments string) (string, error) {
	var a struct {
		Ask string `json:"ask"`
	}
	switch err := json.Unmarshal([]byte(arguments), &a, json.RejectUnknownMembers(true)); {
	case err != nil:
		return "", fmt.Errorf(`its arguments are not {"ask": "…"}: %w`, err)
	case strings.TrimSpace(a.Ask) == "":
		return "", errors.New("ask is blank; say what is to be done")
	}
	return a.Ask, nil
}

// childID is how the ids of children look: how deep, and of which invocation.
var childID = regexp.MustCompile(`^sub([1-9]\d?)-`)

// longest invocation id that stands in its child's as it is.
const longest = 100

// Child is the session of an invocation's work, and how deep it nests.
func Child(req loop.ToolRequest) (session string, depth int) {
	depth = 1
	if m := childID.FindStringSubmatch(req.SessionID); m != nil {
		above, _ := strconv.Atoi(m[1]) // two digits
		depth = above + 1
	}
	id := req.InvocationID
	if len(id) > longest {
		sum := sha256.Sum256([]byte(id))
		id = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return fmt.Sprintf("sub%d-%s", depth, id), depth
}
