package delegate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

var _ runner.Tools = (*Tool)(nil)

// desk is a host whose sessions end as it is told.
type desk struct {
	end      Ending
	observed event.Observed
	refuse   error
	lost     error
	waiting  chan struct{} // closed when somebody waits; nil = nobody waits, end is there
	said     []string
}

func (d *desk) Submit(_ context.Context, session string, in event.Input) error {
	if err := in.Check(event.Limits{}); err != nil {
		return &RefusedError{err}
	}
	if d.refuse == nil {
		d.said = append(d.said, strings.TrimSpace(fmt.Sprint(session, " ", in.InputID, " ", in.Kind, " ", in.Target, in.Text)))
	}
	return d.refuse
}

func (d *desk) Await(ctx context.Context, session, inputID string) (Ending, error) {
	if d.waiting == nil {
		return d.end, d.lost
	}
	close(d.waiting)
	<-ctx.Done()
	return Ending{}, ctx.Err()
}

func (d *desk) Look(context.Context, string, string) (event.Observed, Ending, error) {
	return d.observed, d.end, d.lost
}

func (d *desk) tool(t *testing.T, cfg Config) *Tool {
	t.Helper()
	tool, err := New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func work(session string) loop.ToolRequest {
	return loop.ToolRequest{SessionID: session, InvocationID: "v1", Tool: "research", Arguments: `{"ask":"Look."}`}
}

func TestTheChildsEndIsTheOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		end  Ending
		want loop.ToolOutcome
	}{
		"finished": {Ending{Finished: true, Text: "Found."}, loop.ToolOutcome{Result: "Found."}},
		"stopped early": {Ending{Finished: true, Text: "Fou", Reason: event.StopSegmentsExhausted},
			loop.ToolOutcome{Result: "Fou\n\n(The assistant stopped early: segments_exhausted.)"}},
		"failed": {Ending{Text: "never shown", Reason: "no answer: overloaded"},
			loop.ToolOutcome{Failed: true, Result: "tool research: no answer: overloaded"}},
		"too long": {Ending{Finished: true, Text: strings.Repeat("x", 11)},
			loop.ToolOutcome{Failed: true, Result: "tool research ran, and what it did stands, but its answer has 11 bytes, at most 10 are allowed; ask for less"}},
	} {
		d := &desk{end: c.end, observed: event.ObservedComplete}
		tool := d.tool(t, Config{MaxResult: 10})
		if got := tool.Call(t.Context(), work("s")); got != c.want {
			t.Errorf("%s: called: %+v, want %+v", name, got, c.want)
		}
		if got := tool.Inspect(t.Context(), work("s")); got.Observed != event.ObservedComplete || got.Outcome != c.want {
			t.Errorf("%s: looked up: %+v, want %+v", name, got, c.want)
		}
		if fmt.Sprint(d.said) != "[sub1-v1 v1 user Look.]" {
			t.Errorf("%s: submitted %v", name, d.said)
		}
	}
}

func TestALookUpOnlyReads(t *testing.T) {
	for _, observed := range []event.Observed{event.ObservedPending, event.ObservedMissing} {
		d := &desk{observed: observed, end: Ending{Finished: true, Text: "not yet"}}
		got := d.tool(t, Config{}).Inspect(t.Context(), work("s"))
		if got != (loop.ToolInspection{Observed: observed}) || d.said != nil {
			t.Errorf("%s: %+v, submitted %v", observed, got, d.said)
		}
	}
	d := &desk{lost: errors.New("no log")}
	if got := d.tool(t, Config{}).Inspect(t.Context(), work("s")); got.Observed != event.ObservedError {
		t.Errorf("a log that cannot be read: %+v", got)
	}
}

// Only what is certain is a failure; whatever may have begun is lost.
func TestWhatBeganNoWork(t *testing.T) {
	for name, c := range map[string]struct {
		session, arguments, want string
		refuse                   error
	}{
		"no object":   {arguments: `"Look."`, want: `its arguments are not {"ask": "…"}`},
		"no ask":      {arguments: `{}`, want: "ask is blank"},
		"blank":       {arguments: `{"ask":" \n"}`, want: "ask is blank"},
		"more":        {arguments: `{"ask":"Look.","model":"big"}`, want: "unknown object member name"},
		"too deep":    {session: "sub2-v0", want: "it is delegated 2 deep already, at most 2 are allowed; do it here"},
		"too long":    {arguments: `{"ask":"` + strings.Repeat("x", 16_001) + `"}`, want: "at most 16000 are allowed"},
		"no server":   {refuse: &RefusedError{errors.New("the server is not available")}, want: "the server is not available"},
		"perhaps not": {refuse: errors.New("outcome unknown")},
	} {
		d := &desk{refuse: c.refuse}
		req := work("s")
		if c.session != "" {
			req.SessionID = c.session
		}
		if c.arguments != "" {
			req.Arguments = c.arguments
		}
		got := d.tool(t, Config{}).Call(t.Context(), req)
		switch {
		case c.want == "" && (!got.Lost || got.Failed), c.want != "" && (got.Lost || !got.Failed || !strings.Contains(got.Result, c.want)):
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
		if d.said != nil {
			t.Errorf("%s: submitted %v", name, d.said)
		}
	}
}

// Work that is given up stops its child; an owner that goes away does not.
func TestOnlyWhatIsGivenUpIsStopped(t *testing.T) {
	const asked, stopped = "sub1-v1 v1 user Look.", "sub1-v1 v1.stop stop cancel"
	for name, c := range map[string]struct {
		cause error
		wait  time.Duration
		want  string
	}{
		"the owner goes away":  {context.Canceled, time.Hour, "[" + asked + "]"},
		"the job is cancelled": {errors.New("cancelled"), time.Hour, "[" + asked + " " + stopped + "]"},
		"it takes too long":    {nil, time.Millisecond, "[" + asked + " " + stopped + "]"},
	} {
		d := &desk{waiting: make(chan struct{})}
		tool := d.tool(t, Config{MaxWait: c.wait})
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.cause != nil {
			go func() {
				<-d.waiting
				cancel(c.cause)
			}()
		}
		if got := tool.Call(ctx, work("s")); got != (loop.ToolOutcome{Lost: true}) {
			t.Errorf("%s: %+v, want it lost", name, got)
		}
		if fmt.Sprint(d.said) != c.want {
			t.Errorf("%s: submitted %v, want %s", name, d.said, c.want)
		}
		cancel(nil)
	}
}

func TestAnInvocationHasOneChild(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, c := range []struct {
		parent, invocation, child string
		depth                     int
	}{
		{"s", "01KD", "sub1-01KD", 1},
		{"sub1-01KD", "01KE", "sub2-01KE", 2},
		{"sub9-x", "01KF", "sub10-01KF", 10},
		{"sub0-x", "01KF", "sub1-01KF", 1},
		{"subway", "01KF", "sub1-01KF", 1},
	} {
		if child, depth := Child(loop.ToolRequest{SessionID: c.parent, InvocationID: c.invocation}); child != c.child || depth != c.depth {
			t.Errorf("of %s in %s: %s, %d; want %s, %d", c.invocation, c.parent, child, depth, c.child, c.depth)
		}
	}
	a, _ := Child(loop.ToolRequest{InvocationID: long})
	b, _ := Child(loop.ToolRequest{InvocationID: long + "y"})
	if a == b || len(a) > 128 {
		t.Errorf("long ids: %s, %s", a, b)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no sessions: no error")
	}
	for _, cfg := range []Config{{MaxDepth: -1}, {MaxWait: -1}, {StopWait: -1}, {MaxResult: -1}} {
		if _, err := New(&desk{}, cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}
