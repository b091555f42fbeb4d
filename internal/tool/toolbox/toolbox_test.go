package toolbox

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/tool/delegate"
	"github.com/loopd/loopd/loop"
)

// place is an executor that says what it ran.
type place string

func (p place) Call(_ context.Context, req loop.ToolRequest) loop.ToolOutcome {
	return loop.ToolOutcome{Result: string(p) + " ran " + req.Tool}
}

func (p place) Inspect(_ context.Context, req loop.ToolRequest) loop.ToolInspection {
	return loop.ToolInspection{Observed: event.ObservedPending, Outcome: loop.ToolOutcome{Result: string(p) + " saw " + req.Tool}}
}

func unset(string) (string, bool) { return "", false }

func TestEachToolIsRunByItsOwn(t *testing.T) {
	box, err := New(Config{LookupEnv: unset, Tools: map[string]Tool{
		"lookup":   {NATS: true, Effect: event.EffectRead, Parameters: map[string]any{"type": "object", "a": 1, "b": 2}},
		"far":      {NATS: true, Remote: "research"},
		"research": {Session: true},
		"write_up": {Session: true, Effect: event.EffectWrite, Description: "Writes it up.", Parameters: map[string]any{"type": "object"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	tools, err := box.Open(t.Context(), place("nats"), place("session"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]loop.Tool{
		"lookup": {Effect: event.EffectRead, Approval: event.ApprovalNone, Parameters: event.RawJSON(`{"a":1,"b":2,"type":"object"}`)},
		"far":    {Effect: event.EffectWrite, Approval: event.ApprovalNone},
		"research": {Effect: event.EffectIdempotent, Approval: event.ApprovalNone, Background: true,
			Description: delegate.Description, Parameters: event.RawJSON(delegate.Parameters)},
		"write_up": {Effect: event.EffectWrite, Approval: event.ApprovalNone, Background: true,
			Description: "Writes it up.", Parameters: event.RawJSON(`{"type":"object"}`)},
	}
	if !reflect.DeepEqual(tools, want) {
		t.Errorf("tools %+v\nwant %+v", tools, want)
	}
	for tool, at := range map[string]string{"lookup": "nats ran lookup", "far": "nats ran research", "research": "session ran research"} {
		req := loop.ToolRequest{Tool: tool, Arguments: "{}"}
		if got := box.Call(t.Context(), req).Result; got != at {
			t.Errorf("%s: %s, want %s", tool, got, at)
		}
		if got := box.Inspect(t.Context(), req).Outcome.Result; got != strings.Replace(at, "ran", "saw", 1) {
			t.Errorf("%s is looked up: %s", tool, got)
		}
	}
}

func TestServersGetWhatTheyAreGiven(t *testing.T) {
	environment := func(name string) (string, bool) { return "of " + name, name == "TOKEN" || name == "AUTH" }
	c := Config{LookupEnv: environment}
	command, err := Server{Command: []string{"files", "--ro"}, Env: map[string]string{"B": "2", "A": "1"}, PassEnv: []string{"TOKEN"}, Dir: "d"}.config("files", c)
	if err != nil || command.Command != "files" || !reflect.DeepEqual(command.Args, []string{"--ro"}) || command.Dir != "d" ||
		!reflect.DeepEqual(command.Env, []string{"A=1", "B=2", "TOKEN=of TOKEN"}) {
		t.Errorf("command: %+v, %v", command, err)
	}
	own := map[string]string{"X-Own": "x"}
	address, err := Server{URL: "http://h/mcp", Headers: own, HeaderEnv: map[string]string{"Authorization": "AUTH"}, ConnectTimeout: "2s"}.config("web", c)
	if err != nil || !reflect.DeepEqual(address.Headers, map[string]string{"X-Own": "x", "Authorization": "of AUTH"}) || len(own) != 1 || address.ConnectTimeout != 2*time.Second {
		t.Errorf("address: %+v, %v", address, err)
	}
}
