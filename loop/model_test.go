package loop

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/replay"
)

// TestModel plays random commands, outcomes and takeovers, at rest and in the
// middle of what the loop does, and has the independent auditor judge the log:
// whatever happens, every rule of contract section 7 holds.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{T: t, w: newWorld(t, modelConfig(t))}
		m.w.open()
		t.Repeat(map[string]func(*rapid.T){
			"submit":   m.submit,
			"content":  m.content,
			"outcome":  m.outcome,
			"inspect":  m.inspect,
			"steer":    m.steer,
			"tool":     m.tool,
			"job":      m.job,
			"takeover": m.takeover,
			"clock": func(t *rapid.T) {
				m.w.now = m.w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "s")) * time.Second)
			},
			"": m.check,
		})
		m.finish()
	})
}

type model struct {
	*rapid.T
	w      *world
	issued int
}

func modelConfig(t *rapid.T) Config {
	c := Config{
		Steering: rapid.SampledFrom([]string{event.SteeringModeRequest, event.SteeringModeNative}).Draw(t, "steering"),
		Tools: map[string]Tool{
			"lookup":   {Effect: event.EffectRead},
			"charge":   {Effect: event.EffectWrite},
			"pay":      {Effect: event.EffectWrite, Approval: event.ApprovalRequired},
			"delegate": {Effect: event.EffectWrite, Background: true},
		},
		Bounds: &Bounds{MaxSegments: 3, NoProgress: 2, MaxTokens: 60, MaxElapsed: 10 * time.Minute},
	}
	c.Limits.Pending = 4
	return c
}

func (m *model) pick(label string, of ...string) string {
	return rapid.SampledFrom(of).Draw(m.T, label)
}

// check settles, but not always: a crash may come between any two facts.
func (m *model) check(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "interrupted") == 0 {
		m.steps(rapid.IntRange(0, 6).Draw(t, "steps"))
		return
	}
	m.w.settle()
}

func (m *model) steps(n int) {
	for range n {
		t := m.w.tick()
		plan := Next(m.w.state, t)
		switch {
		case plan.Record:
			m.w.must(m.w.do(Advance{Tick: t}))
		case len(plan.Effects) == 1 && m.w.inline(plan.Effects[0], t):
		default:
			return
		}
	}
}

func (m *model) ids() []string {
	ids := []string{"nothing"}
	for _, e := range m.w.log {
		switch p := e.Payload.(type) {
		case event.GenerationStarted:
			ids = append(ids, p.GenerationID)
		case event.InvocationProposed:
			ids = append(ids, p.InvocationID)
		case event.CheckpointSaved:
			ids = append(ids, p.CheckpointID)
		case event.JobQueued:
			ids = append(ids, p.JobID)
		case event.InputAccepted:
			ids = append(ids, p.InputID)
		case event.OperationAdmitted:
			ids = append(ids, p.OperationID)
		}
	}
	return ids[max(0, len(ids)-12):]
}

func (m *model) put(in event.Input) {
	b, err := json.Marshal(in)
	if err != nil {
		m.Fatal(err)
	}
	_ = m.w.submit(b, in.InputID)
}

func (m *model) fresh() string {
	m.issued++
	return fmt.Sprintf("in-%d", m.issued)
}

// content is what hosts mostly send.
func (m *model) content(*rapid.T) {
	in := event.Input{InputID: m.fresh(), Kind: event.Kind(m.pick("kind", "user", "steer", "service")), Text: "text"}
	if in.Kind == event.KindService {
		in.Source = "weather"
	}
	if rapid.IntRange(0, 3).Draw(m.T, "task") == 0 {
		in.Task = &event.Task{ID: m.pick("task id", "", "a", "b"), MaxElapsed: m.pick("elapsed", "", "60s")}
		if rapid.Bool().Draw(m.T, "expires") {
			in.Task.ExpiresAt = m.w.now.Add(time.Minute).Format(time.RFC3339)
		}
	}
	if g := m.w.state.Generation; g != nil && in.Kind == event.KindSteer && rapid.Bool().Draw(m.T, "anchored") {
		in.TargetGenerationID = g.ID
	}
	m.put(in)
}

// submit is anything at all.
func (m *model) submit(t *rapid.T) {
	in := event.Input{
		InputID: m.fresh(), Kind: event.Kind(m.pick("kind", "decision", "decision", "withdraw", "cancel_job", "interrupt", "user", "nonsense")),
		Text: m.pick("text", "", "a", "b"), Source: m.pick("source", "", "", "user", "weather"),
		Verdict: m.pick("verdict", "approve", "deny", "continue", "reconciled", "still_unknown", "abandon"),
		Target:  rapid.SampledFrom(m.ids()).Draw(t, "target"),
	}
	if rapid.IntRange(0, 5).Draw(t, "again") == 0 {
		in.InputID = rapid.SampledFrom(m.ids()).Draw(t, "id")
	}
	if inv := m.w.state.invocation(in.Target); inv != nil && rapid.IntRange(0, 3).Draw(t, "digest") > 0 {
		in.InputDigest = inv.InputDigest
	}
	if in.Kind == event.KindWithdraw || rapid.IntRange(0, 40).Draw(t, "stop") > 0 {
		m.put(in)
		return
	}
	m.put(event.Input{InputID: in.InputID, Kind: event.KindStop, Target: m.pick("cancel", "", "cancel")})
}

func (m *model) operation() string {
	if g := m.w.state.Generation; g != nil && g.Operation != nil {
		return g.Operation.ID
	}
	return "nothing"
}

func (m *model) completion() Completion {
	c := Completion{
		Finish: event.Finish(m.pick("finish", "stop", "stop", "tool_calls", "tool_calls", "output_budget", "output_budget",
			"context_window", "content_filter", "refusal", "unrecognised", "error", "paused", "steered")),
		Text: m.pick("text", "", "one", "a text that is long enough to be merged", "zwei é"), FinishReason: "raw",
		Usage: &event.Usage{Input: 5, Output: 20}, ResponseDigest: event.Digest(nil), Veto: m.pick("veto", "", "", "", "budget"),
	}
	for i := range rapid.IntRange(0, 3).Draw(m.T, "calls") {
		c.ToolCalls = append(c.ToolCalls, event.ToolCall{
			ID: fmt.Sprintf("c%d", i), Name: m.pick("tool", "lookup", "charge", "pay", "delegate", "lookup", "charge", "nobody"),
			Arguments: m.pick("arguments", `{}`, `{"n":1}`, `{"n":1}`, `{"n":`), Closed: rapid.IntRange(0, 9).Draw(m.T, "closed") > 0,
		})
	}
	return c
}

func (m *model) outcome(t *rapid.T) {
	op := m.operation()
	switch m.pick("what", "say", "complete", "complete", "complete", "fail", "lose") {
	case "say":
		_ = m.w.do(Say{OperationID: op, Text: "provisional"})
	case "complete":
		_ = m.w.do(EndOperation{OperationID: op, Outcome: m.completion()})
	case "fail":
		_ = m.w.do(EndOperation{OperationID: op, Outcome: Failure{
			Dispatch: m.pick("dispatch", "not_dispatched", "rejected", "ran"), Code: "code", NextAction: "none",
		}})
	case "lose":
		_ = m.w.do(EndOperation{OperationID: op, Outcome: Uncertain{Reason: m.pick("reason", "transport", "no_terminal", "timeout")}})
	}
}

var allObserved = []string{"complete", "complete", "pending", "missing", "unsupported", "expired", "error"}

func (m *model) inspect(t *rapid.T) {
	op := m.operation()
	if rapid.IntRange(0, 3).Draw(t, "stray") == 0 && len(m.w.state.Strays) > 0 {
		op = m.w.state.Strays[0].ID
	}
	observed, by := event.Observed(m.pick("observed", allObserved...)), ""
	if c := m.w.state.Commands; len(c) > 0 && m.w.state.asksLook(c[0].Input) {
		op, by = c[0].Target, c[0].InputID
	}
	if m.w.do(SawOperation{OperationID: op, Observed: observed, By: by}) != nil || observed != event.ObservedComplete {
		return
	}
	found := Inspection{Observed: observed}
	if c := m.completion(); rapid.IntRange(0, 4).Draw(t, "failed") > 0 {
		found.Completion = &c
	} else {
		found.Failure = &Failure{Dispatch: event.DispatchRan, Code: "code", NextAction: "none"}
	}
	_ = m.w.do(RecoverOperation{OperationID: op, Found: found})
}

func (m *model) steer(t *rapid.T) {
	for _, in := range m.w.state.Inputs {
		switch in.Phase {
		case InputSent:
			_ = m.w.do(AnswerSteering{InputID: in.InputID, Answer: SteerAnswer(rapid.IntRange(0, 2).Draw(t, "answer"))})
			return
		case InputOwned, InputUnknown:
			_ = m.w.do(ConfirmSteering{InputID: in.InputID})
			return
		}
	}
}

func (m *model) tool(t *rapid.T) {
	var invs []Invocation
	if g := m.w.state.Generation; g != nil {
		invs = append(invs, g.Invocations...)
	}
	invs = append(invs, m.w.state.Loose...)
	for _, inv := range invs {
		if inv.Phase != InvocationDispatched && inv.Phase != InvocationUncertain || rapid.Bool().Draw(t, "skip") {
			continue
		}
		if rapid.IntRange(0, 2).Draw(t, "lost") > 0 {
			_ = m.w.do(EndInvocation{InvocationID: inv.InvocationID, Outcome: ToolOutcome{Result: "r", Failed: rapid.Bool().Draw(t, "failed")}})
			return
		}
		_ = m.w.do(SawInvocation{InvocationID: inv.InvocationID, Observed: event.Observed(m.pick("observed", allObserved[2:]...))})
		return
	}
}

func (m *model) job(t *rapid.T) {
	if jobs := m.w.state.Jobs; len(jobs) > 0 {
		j := jobs[0]
		if j.Epoch != m.w.state.Epoch {
			_ = m.w.do(RecoverJob{JobID: j.JobID, Found: ToolInspection{
				Observed: event.Observed(m.pick("observed", allObserved...)), Outcome: ToolOutcome{Result: "r"},
			}})
			return
		}
		_ = m.w.do(FinishJob{JobID: j.JobID, Cancelled: j.Phase == JobCancelRequested, Outcome: ToolOutcome{
			Result: m.pick("result", "", "r"), Failed: rapid.Bool().Draw(t, "failed"), Lost: rapid.IntRange(0, 5).Draw(t, "lost") == 0,
		}})
		return
	}
}

// takeover is a new owner, wherever the old one was.
func (m *model) takeover(*rapid.T) {
	m.w.restart()
	_ = m.w.do(ClaimSession{Owner: "next"})
}

// finish stops the session, and has the whole log judged.
func (m *model) finish() {
	m.w.settle()
	m.put(event.Input{InputID: "the-stop", Kind: event.KindStop})
	m.w.settle()
	if m.w.state.Phase != PhaseClosed {
		m.Fatalf("a stop does not close the session: %s", m.w.since(0))
	}
	for _, f := range audit(m.w) {
		m.Errorf("%s at %d: %s", f.Rule, f.StreamSeq, f.Message)
	}
	if m.Failed() {
		m.Log(m.w.since(0))
	}
}

func audit(w *world) []replay.Finding {
	a := replay.New(replay.Config{})
	var findings []replay.Finding
	for i, e := range w.log {
		findings = append(findings, a.Observe(event.Record{StreamSeq: uint64(i + 1), Subject: "loop.ev.s." + string(e.Type), Data: e.Stored()})...)
	}
	return append(findings, a.Close()...)
}
