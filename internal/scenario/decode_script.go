package scenario

import (
	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	providerscript "github.com/loopd/loopd/internal/provider/scripted"
	toolscript "github.com/loopd/loopd/internal/tool/scripted"
	"github.com/loopd/loopd/loop"
)

var observations = []string{string(event.ObservedComplete), string(event.ObservedPending), string(event.ObservedMissing),
	string(event.ObservedUnsupported), string(event.ObservedExpired), string(event.ObservedError)}

func (d decoder) provider(sc *Scenario, n *node) {
	for _, item := range d.list(n, "provider") {
		d.fields(item, "a provider entry", "expect", "frames", "usage", "lookup")
		var e providerscript.Entry
		request := Request{Line: item.line}
		if v := item.get("expect"); v != nil {
			request = d.request(v)
		}
		for _, f := range d.list(item.get("frames"), "frames") {
			e.Frames = append(e.Frames, d.frame(f))
		}
		if v := item.get("usage"); v != nil {
			e.Usage = d.usage(v)
		}
		e.Lookup = d.lookup(item.get("lookup"))
		sc.Provider = append(sc.Provider, e)
		sc.Requests = append(sc.Requests, request)
	}
}

func (d decoder) request(n *node) Request {
	d.fields(n, "expect", "contains", "not_contains", "roles")
	r := Request{Line: n.line}
	if v := n.get("contains"); v != nil {
		r.Contains = d.words(v, "contains")
	}
	if v := n.get("not_contains"); v != nil {
		r.NotContains = d.words(v, "not_contains")
	}
	for _, item := range d.list(n.get("roles"), "roles") {
		r.Roles = append(r.Roles, loop.Role(d.oneOf(item, "a role",
			string(loop.RoleSystem), string(loop.RoleUser), string(loop.RoleAssistant), string(loop.RoleTool))))
	}
	return r
}

func (d decoder) usage(n *node) *event.Usage {
	d.fields(n, "usage", "input", "output", "reasoning", "cost")
	u := &event.Usage{}
	for _, e := range n.entries {
		switch e.key {
		case "input":
			u.Input = int64(d.count(e.value, e.key))
		case "output":
			u.Output = int64(d.count(e.value, e.key))
		case "reasoning":
			u.Reasoning = int64(d.count(e.value, e.key))
		case "cost":
			u.Cost = d.amount(e.value, e.key)
		}
	}
	return u
}

// lookup is one answer, or a list of them.
func (d decoder) lookup(n *node) []event.Observed {
	if n == nil {
		return nil
	}
	if n.kind != kindList {
		return []event.Observed{event.Observed(d.oneOf(n, "lookup", observations...))}
	}
	var out []event.Observed
	for _, item := range n.items {
		out = append(out, event.Observed(d.oneOf(item, "lookup", observations...)))
	}
	if len(out) == 0 {
		d.fail(n.line, "lookup is an empty list; leave it out for unsupported")
	}
	return out
}

func (d decoder) frame(n *node) providerscript.Frame {
	d.fields(n, "a frame", "text", "reasoning", "wait", "block_end", "tool_call", "steer", "applied", "finish", "drop", "error")
	e := d.only(n, "a frame")
	v := e.value
	switch e.key {
	case "text":
		return providerscript.Text{Text: d.text(v, "text")}
	case "reasoning":
		return providerscript.Reasoning{Text: d.text(v, "reasoning")}
	case "wait":
		return providerscript.Wait{Gate: d.word(v, "wait")}
	case "block_end":
		return providerscript.BlockEnd{Kind: d.oneOf(v, "block_end", "text", "reasoning")}
	case "tool_call":
		return d.toolCall(v)
	case "steer":
		return d.steer(v)
	case "applied":
		return providerscript.Applied{InputIDs: d.words(v, "applied")}
	case "finish":
		return providerscript.Finish{Reason: d.text(v, "finish")}
	case "drop":
		if !d.flag(v, "drop") {
			d.fail(v.line, "drop is true, or is left out")
		}
		return providerscript.Drop{}
	}
	d.fields(v, "error", "status", "code")
	failure := providerscript.Error{}
	if s := v.get("status"); s != nil {
		failure.Status = d.count(s, "status")
	}
	if s := v.get("code"); s != nil {
		failure.Code = d.text(s, "code")
	}
	return failure
}

func (d decoder) toolCall(n *node) providerscript.Frame {
	d.fields(n, "tool_call", "id", "name", "arguments")
	c := providerscript.ToolCall{Name: d.text(d.need(n, "tool_call", "name"), "name")}
	if v := n.get("id"); v != nil {
		c.ID = d.text(v, "id")
	}
	if v := n.get("arguments"); v != nil {
		if v.kind != kindScalar {
			d.fail(v.line, "arguments are a string of JSON, whole or cut, not %s; put it in quotes", v.what())
		}
		c.Arguments = v.source
	}
	return c
}

func (d decoder) steer(n *node) providerscript.Frame {
	if n.kind != kindMap || len(n.entries) == 0 {
		d.fail(n.line, "steer is a map from input ids to answers, not %s", n.what())
	}
	var s providerscript.Steer
	for _, e := range n.entries {
		s.Answers = append(s.Answers, providerscript.SteerAnswer{InputID: e.key, Answer: d.oneOf(e.value, "an answer to steer",
			providerscript.SteerAccepted, providerscript.SteerRefused, providerscript.SteerRaises, providerscript.SteerHangs)})
	}
	return s
}

func (d decoder) tools(sc *Scenario, n *node) {
	if n.kind != kindMap {
		d.fail(n.line, "tools is a map from tools to lists of entries, not %s", n.what())
	}
	sc.Tools, sc.ToolLines = map[string][]toolscript.Entry{}, map[string]int{}
	for _, e := range n.entries {
		entries := []toolscript.Entry{}
		for _, item := range d.list(e.value, "tools."+e.key) {
			entries = append(entries, d.toolEntry(item))
		}
		sc.Tools[e.key], sc.ToolLines[e.key] = entries, e.line
	}
}

func (d decoder) toolEntry(n *node) toolscript.Entry {
	d.fields(n, "a tool entry", "wait", "result", "error", "lost", "lookup")
	var t toolscript.Entry
	result, failure := n.get("result"), n.get("error")
	switch {
	case result != nil && failure != nil:
		d.fail(n.line, "a tool entry has a result or an error, not both")
	case result != nil:
		t.Result = d.result(result)
	case failure != nil:
		t.Result, t.Failed = d.result(failure), true
	}
	if v := n.get("wait"); v != nil {
		t.Gate = d.word(v, "wait")
	}
	if v := n.get("lost"); v != nil {
		t.Lost = d.flag(v, "lost")
	}
	t.Lookup = d.lookup(n.get("lookup"))
	return t
}

// result is a text as it is written, or the JSON of a map or list.
func (d decoder) result(n *node) string {
	if n.kind == kindScalar {
		return n.source
	}
	b, err := json.Marshal(n.value(), json.Deterministic(true))
	if err != nil {
		d.fail(n.line, "a result cannot be written as JSON: %v", err)
	}
	return string(b)
}
