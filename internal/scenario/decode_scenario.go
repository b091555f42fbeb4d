package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func (d decoder) scenario(root *node) *Scenario {
	d.fields(root, "a scenario", "about", "session", "config", "host", "provider", "tools",
		"expect", "never", "count", "effects", "requests", "projection")
	sc := &Scenario{File: d.file, Session: "s", inputs: map[string]bool{}}
	for _, e := range root.entries {
		switch n := e.value; e.key {
		case "about":
			sc.About = d.text(n, "about")
		case "session":
			sc.Session = d.word(n, "session")
		case "config":
			d.config(&sc.Loop, n)
		case "host":
			sc.Host = d.host(n)
		case "provider":
			sc.ProviderLine = e.line
			d.provider(sc, n)
		case "tools":
			d.tools(sc, n)
		case "expect":
			sc.Expect = d.patterns(n, "expect")
		case "never":
			sc.Never = d.patterns(n, "never")
		case "count":
			sc.Count = d.counts(n)
		case "effects":
			sc.Effects = d.effects(n)
		case "requests":
			sc.Asked = &Asked{Line: n.line, N: d.count(n, "requests")}
		case "projection":
			sc.Projection = d.projection(n)
		}
	}
	sc.noteInputs()
	sc.nameTools()
	return sc
}

// noteInputs collects the input ids of the file.
func (sc *Scenario) noteInputs() {
	for _, step := range sc.Host {
		s, ok := step.Do.(Submit)
		if !ok {
			continue
		}
		id, _ := s.field("input_id").(string)
		if s.Repeat == 0 {
			sc.inputs[id] = true
		}
		for i := range s.Repeat {
			sc.inputs[fmt.Sprintf("%s-%d", id, i+1)] = true
		}
	}
}

// nameTools makes every tool that has a script known to the model: one without
// a configuration has the defaults.
func (sc *Scenario) nameTools() {
	for name := range sc.Tools {
		if _, ok := sc.Loop.Tools[name]; !ok {
			if sc.Loop.Tools == nil {
				sc.Loop.Tools = map[string]loop.Tool{}
			}
			sc.Loop.Tools[name] = loop.Tool{}
		}
	}
}

// field is one of the input's fields, nil if it is not there.
func (s Submit) field(key string) any {
	for _, f := range s.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

func (d decoder) config(c *loop.Config, n *node) {
	d.fields(n, "config", "steering", "continuation", "output_budget", "tools", "limits", "timeouts")
	for _, e := range n.entries {
		switch n := e.value; e.key {
		case "steering":
			c.Steering = d.oneOf(n, "steering", event.SteeringModeRequest, event.SteeringModeNative)
			c.Service.Native = c.Steering == event.SteeringModeNative
		case "continuation":
			bounds := loop.DefaultBounds()
			d.bounds(&bounds, n)
			c.Bounds = &bounds
		case "output_budget":
			c.OutputBudget = int64(d.count(n, "output_budget"))
		case "tools":
			c.Tools = d.toolConfigs(n)
		case "limits":
			d.fields(n, "limits", "pending", "text")
			if v := n.get("pending"); v != nil {
				c.Limits.Pending = d.count(v, "pending")
			}
			if v := n.get("text"); v != nil {
				c.Limits.Text = d.count(v, "text")
			}
		case "timeouts":
			d.fields(n, "timeouts", "steer", "operation")
			if v := n.get("steer"); v != nil {
				c.Timeouts.Steer = d.duration(v, "steer")
			}
			if v := n.get("operation"); v != nil {
				c.Timeouts.Operation = d.duration(v, "operation")
			}
		}
	}
}

func (d decoder) bounds(b *loop.Bounds, n *node) {
	d.fields(n, "continuation", "max_segments", "no_progress", "max_tokens", "max_cost", "max_elapsed", "expires_at")
	for _, e := range n.entries {
		switch n := e.value; e.key {
		case "max_segments":
			b.MaxSegments = d.count(n, e.key)
		case "no_progress":
			b.NoProgress = d.count(n, e.key)
		case "max_tokens":
			b.MaxTokens = int64(d.count(n, e.key))
		case "max_cost":
			b.MaxCost = d.amount(n, e.key)
		case "max_elapsed":
			b.MaxElapsed = d.duration(n, e.key)
		case "expires_at":
			at, err := time.Parse(time.RFC3339Nano, d.text(n, e.key))
			if err != nil {
				d.fail(n.line, "expires_at is a time such as 2026-01-01T00:10:00Z, not %q", n.source)
			}
			b.ExpiresAt = at
		}
	}
}

func (d decoder) toolConfigs(n *node) map[string]loop.Tool {
	if n.kind != kindMap {
		d.fail(n.line, "config.tools is a map of tools, not %s", n.what())
	}
	tools := map[string]loop.Tool{}
	for _, e := range n.entries {
		var t loop.Tool
		d.fields(e.value, "a tool", "effect", "approval", "background")
		if v := e.value.get("effect"); v != nil {
			t.Effect = d.oneOf(v, "effect", event.EffectRead, event.EffectIdempotent, event.EffectWrite)
		}
		if v := e.value.get("approval"); v != nil {
			t.Approval = d.oneOf(v, "approval", event.ApprovalNone, event.ApprovalRequired)
		}
		if v := e.value.get("background"); v != nil {
			t.Background = d.flag(v, "background")
		}
		tools[e.key] = t
	}
	return tools
}

func (d decoder) pattern(n *node, what string) Pattern {
	if n.kind != kindMap || len(n.entries) == 0 {
		d.fail(n.line, "%s is a map of fields such as {type: generation.finished}, not %s", what, n.what())
	}
	fields, _ := n.value().(map[string]any)
	return Pattern{Line: n.line, Fields: fields, source: n.flow()}
}

// unknownType is the first pattern that names an event type which the contract
// does not have: it would never match, and `never` would always hold.
func (sc *Scenario) unknownType() *ParseError {
	patterns := append(append([]Pattern{}, sc.Expect...), sc.Never...)
	for _, c := range sc.Count {
		patterns = append(patterns, c.Pattern)
	}
	for _, step := range sc.Host {
		if a, ok := step.Do.(Await); ok {
			patterns = append(append(patterns, a.All...), a.Any...)
		}
	}
	for _, p := range patterns {
		if t, ok := p.Fields["type"].(string); ok && !strings.HasPrefix(t, "$") && !event.Known(event.Type(t)) {
			return &ParseError{File: sc.File, Line: p.Line, Msg: fmt.Sprintf("there is no event type %q; contract section 4 lists them", t)}
		}
	}
	return nil
}

func (d decoder) patterns(n *node, what string) []Pattern {
	var out []Pattern
	for _, item := range d.list(n, what) {
		out = append(out, d.pattern(item, what))
	}
	return out
}

func (d decoder) counts(n *node) []Count {
	var out []Count
	for _, item := range d.list(n, "count") {
		p := d.pattern(item, "count")
		at := item.get("n")
		if at == nil {
			d.fail(item.line, "count needs n, how many events match")
		}
		delete(p.Fields, "n")
		out = append(out, Count{Pattern: p, N: d.count(at, "n")})
	}
	return out
}

func (d decoder) effects(n *node) []Effect {
	if n.kind != kindMap {
		d.fail(n.line, "effects is a map from tools to numbers, not %s", n.what())
	}
	var out []Effect
	for _, e := range n.entries {
		out = append(out, Effect{Line: e.line, Tool: e.key, N: d.count(e.value, "effects of "+e.key)})
	}
	return out
}

var rowKinds = []string{"session", "input", "generation", "operation", "invocation", "job", "checkpoint"}

func (d decoder) projection(n *node) []Row {
	var out []Row
	for _, item := range d.list(n, "projection") {
		p := d.pattern(item, "projection")
		i := slices.IndexFunc(item.entries, func(e entry) bool { return slices.Contains(rowKinds, e.key) })
		if i < 0 {
			d.fail(item.line, "a projection names one of %s", strings.Join(rowKinds, ", "))
		}
		named := item.entries[i]
		row := Row{Pattern: p, Kind: named.key, ID: d.word(named.value, named.key)}
		delete(row.Fields, row.Kind)
		out = append(out, row)
	}
	return out
}
