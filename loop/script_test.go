package loop

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/loopd/loopd/event"
)

// TestScripts plays testdata/script/*.txt: a command in, the events that it led to
// out. `go test -rewrite` writes the answers anew; the diff is read.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "open" {
				w = newWorld(t, scriptConfig(d))
				w.open()
				return brief(w, 0)
			}
			w.t = t
			n := len(w.log)
			err := play(w, d)
			plan := w.settle()
			out := brief(w, n)
			if err != nil {
				out += "! " + err.Error() + "\n"
			}
			for _, e := range plan.Effects {
				out += "> " + w.shorten(e.Key()) + "\n"
			}
			if !plan.WakeAt.IsZero() {
				out += "> wake in " + plan.WakeAt.Sub(w.now).String() + "\n"
			}
			return out
		})
	})
}

func scriptConfig(d *datadriven.TestData) Config {
	c := Config{Tools: map[string]Tool{
		"lookup":   {Effect: event.EffectRead},
		"charge":   {Effect: event.EffectWrite},
		"pay":      {Effect: event.EffectWrite, Approval: event.ApprovalRequired},
		"delegate": {Effect: event.EffectWrite, Background: true},
	}}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "native":
			c.Steering = event.SteeringModeNative
		case "pending":
			c.Limits.Pending, _ = strconv.Atoi(arg.Vals[0])
		case "segments":
			b := DefaultBounds()
			b.MaxSegments, _ = strconv.Atoi(arg.Vals[0])
			c.Bounds = &b
		case "tokens":
			b := DefaultBounds()
			b.MaxTokens, _ = strconv.ParseInt(arg.Vals[0], 10, 64)
			c.Bounds = &b
		}
	}
	return c
}

// brief is since without the fields that a script does not look at.
func brief(w *world, n int) string {
	var b strings.Builder
	for line := range strings.Lines(w.since(n)) {
		typ, body, _ := strings.Cut(strings.TrimSpace(line), " ")
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+body+"}"), &fields); err != nil {
			w.t.Fatalf("%s: %v", body, err)
		}
		b.WriteString(typ)
		for _, name := range []string{
			"epoch", "input_id", "kind", "source", "target", "by", "delivery", "route", "target_generation_id", "generation_id", "initial_input_id",
			"input_ids", "accepted_input_ids", "operation_id", "segment", "parent_operation_id", "checkpoint_id", "finish", "text",
			"dispatch", "code", "observed", "recovered", "late", "reason", "error_type", "status", "active_job_ids", "continuation",
			"invocation_id", "tool_call_id", "tool", "approval", "repeats", "decided_by", "verdict", "result", "error", "job_id",
		} {
			if v, ok := fields[name]; ok && string(v) != "false" {
				fmt.Fprintf(&b, " %s=%s", name, strings.ReplaceAll(string(v), " ", "_"))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func arg(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

// long is the id that a script names: gen (the last generation), op:n (the
// n-th operation), inv:c1 and job:c1 (of that tool call), cutoff (the last
// saved one).
func long(w *world, s string) string {
	kind, name, _ := strings.Cut(s, ":")
	found, ops := s, 0
	for _, e := range w.log {
		switch p := e.Payload.(type) {
		case event.GenerationStarted:
			if s == "gen" {
				found = p.GenerationID
			}
		case event.OperationAdmitted:
			if ops++; kind == "op" && name == strconv.Itoa(ops) {
				found = p.OperationID
			}
		case event.InvocationProposed:
			if kind == "inv" && p.ToolCallID == name {
				found = p.InvocationID
			}
		case event.JobQueued:
			if kind == "job" && p.CallID == name {
				found = p.JobID
			}
		case event.CheckpointSaved:
			if s == "cutoff" && p.Kind == event.CheckpointCutoff {
				found = p.CheckpointID
			}
		}
	}
	return found
}

func play(w *world, d *datadriven.TestData) error {
	op := ""
	if g := w.state.Generation; g != nil && g.Operation != nil {
		op = g.Operation.ID
	}
	if o := arg(d, "op"); o != "" {
		op = long(w, o)
	}
	text := strings.ReplaceAll(arg(d, "text"), "_", " ")
	switch d.Cmd {
	case "submit":
		return submitScript(w, d)
	case "say":
		return w.do(Say{OperationID: op, Text: text})
	case "complete":
		return w.do(EndOperation{OperationID: op, Outcome: completion(d, text)})
	case "fail":
		return w.do(EndOperation{OperationID: op, Outcome: Failure{Dispatch: arg(d, "dispatch"), Code: arg(d, "code"), HTTPStatus: 429}})
	case "lose":
		return w.do(EndOperation{OperationID: op, Outcome: Uncertain{Reason: arg(d, "reason")}})
	case "saw":
		return w.do(SawOperation{OperationID: op, Observed: event.Observed(arg(d, "observed")), By: arg(d, "by")})
	case "recover":
		c := completion(d, text)
		return w.do(RecoverOperation{OperationID: op, Found: Inspection{Observed: event.ObservedComplete, Completion: &c}})
	case "answer":
		answers := map[string]SteerAnswer{"accepted": SteerAccepted, "refused": SteerRefused}
		return w.do(AnswerSteering{InputID: arg(d, "id"), Answer: answers[arg(d, "says")]})
	case "applied":
		return w.do(ConfirmSteering{InputID: arg(d, "id")})
	case "result":
		return w.do(EndInvocation{InvocationID: long(w, arg(d, "inv")), Outcome: ToolOutcome{Result: text, Failed: d.HasArg("failed")}})
	case "saw-invocation":
		return w.do(SawInvocation{InvocationID: long(w, arg(d, "inv")), Observed: event.Observed(arg(d, "observed"))})
	case "job":
		return w.do(FinishJob{JobID: long(w, arg(d, "id")), Outcome: ToolOutcome{Result: text}, Cancelled: d.HasArg("cancelled")})
	case "recover-job":
		return w.do(RecoverJob{JobID: long(w, arg(d, "id")), Found: ToolInspection{Observed: event.Observed(arg(d, "observed")), Outcome: ToolOutcome{Result: text}}})
	case "clock":
		by, err := time.ParseDuration(arg(d, "by"))
		w.now = w.now.Add(by)
		return err
	case "claim":
		w.restart()
		return w.do(ClaimSession{Owner: "b"})
	}
	return fmt.Errorf("unknown command %s", d.Cmd)
}

func completion(d *datadriven.TestData, text string) Completion {
	c := Completion{Finish: event.Finish(arg(d, "finish")), FinishReason: arg(d, "finish"), Text: text, Veto: arg(d, "veto")}
	if d.Input != "" {
		if err := json.Unmarshal([]byte(d.Input), &c.ToolCalls); err != nil {
			d.Fatalf(nil, "%v", err)
		}
	}
	if n, err := strconv.ParseInt(arg(d, "tokens"), 10, 64); err == nil {
		c.Usage = &event.Usage{Output: n}
	}
	return c
}

func submitScript(w *world, d *datadriven.TestData) error {
	in := event.Input{InputID: arg(d, "id"), Kind: event.Kind(arg(d, "kind")), Text: strings.ReplaceAll(arg(d, "text"), "_", " ")}
	if in.Kind == "" {
		in.Kind = event.KindUser
	}
	if in.Kind.Content() && in.Text == "" {
		in.Text = "say " + in.InputID
	}
	in.Source, in.Target, in.Verdict = arg(d, "source"), long(w, arg(d, "target")), arg(d, "verdict")
	in.TargetGenerationID = long(w, arg(d, "anchor"))
	if arg(d, "digest") == "right" {
		if inv := w.state.invocation(in.Target); inv != nil {
			in.InputDigest = inv.InputDigest
		}
	}
	if d.HasArg("attached") {
		in.Attachments = []event.RawJSON{[]byte(`{"type":"image"}`)}
	}
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return w.submit(b, in.InputID)
}
