package scenario

import (
	"slices"
	"strings"

	"github.com/loopd/loopd/event"
)

// stepKeys are the acts of a host.
var stepKeys = []string{"submit", "await", "open", "crash", "start", "claim", "hold", "inspect", "advance", "rebuild"}

// inputKeys are the fields of an input (contract, section 3).
var inputKeys = []string{"version", "input_id", "kind", "text", "source", "target", "target_generation_id", "call_id",
	"attachments", "task", "verdict", "input_digest", "sent_at"}

// defaultOwner is the owner that runs from the beginning.
const defaultOwner = "loopd"

// maxRepeat bounds one submit.
const maxRepeat = 100_000

func (d decoder) host(n *node) []Step {
	var steps []Step
	for _, item := range d.list(n, "host") {
		d.fields(item, "a host step", stepKeys...)
		e := d.only(item, "a host step")
		steps = append(steps, Step{Line: e.line, Do: d.act(e)})
	}
	return steps
}

func (d decoder) act(e entry) Act {
	n := e.value
	switch e.key {
	case "submit":
		return d.submit(n)
	case "await":
		return d.await(n)
	case "open":
		return Open{Gate: d.word(n, "open")}
	case "crash":
		return d.crash(n)
	case "start":
		if n.kind == kindMap {
			d.fields(n, "start", "as")
			return Start{Owner: d.word(d.only(n, "start").value, "as")}
		}
		return Start{Owner: d.word(n, "start"), Claim: true}
	case "claim":
		return Claim{Owner: d.word(n, "claim")}
	case "hold":
		d.fields(n, "hold", "at", "until")
		return Hold{At: d.point(d.need(n, "hold", "at")), Until: d.word(d.need(n, "hold", "until"), "until")}
	case "inspect":
		d.fields(n, "inspect", "operation")
		return Inspect{Operation: d.word(d.need(n, "inspect", "operation"), "operation")}
	case "advance":
		return Advance{By: d.duration(n, "advance")}
	}
	d.oneOf(n, "rebuild", "projections")
	return Rebuild{}
}

func (d decoder) need(n *node, what, key string) *node {
	v := n.get(key)
	if v == nil {
		d.fail(n.line, "%s needs %s", what, key)
	}
	return v
}

func (d decoder) submit(n *node) Act {
	d.fields(n, "submit", append(slices.Clone(inputKeys), "repeat")...)
	var s Submit
	d.word(d.need(n, "submit", "input_id"), "input_id")
	for _, e := range n.entries {
		switch e.key {
		case "repeat":
			if s.Repeat = d.count(e.value, "repeat"); s.Repeat < 1 || s.Repeat > maxRepeat {
				d.fail(e.line, "repeat is a number from 1 to %d", maxRepeat)
			}
		case "task":
			d.fields(e.value, "task", "id", "expires_at", "max_segments", "max_tokens", "max_elapsed", "max_cost")
			s.Fields = append(s.Fields, Field{Key: e.key, Value: e.value.value()})
		default:
			s.Fields = append(s.Fields, Field{Key: e.key, Value: inputValue(e)})
		}
	}
	return s
}

// inputValue is a field of an input; a text field keeps what is written, so
// that text: 42 needs no quotes.
func inputValue(e entry) any {
	v := e.value
	if v.kind != kindScalar || v.scalar == nil || e.key == "version" {
		return v.value()
	}
	return v.source
}

func (d decoder) await(n *node) Act {
	if n.kind != kindMap {
		d.fail(n.line, "await is a map of fields, all: or any:, not %s", n.what())
	}
	a := Await{Timeout: awaitTimeout}
	all, any := n.get("all"), n.get("any")
	if timeout := n.get("timeout"); timeout != nil {
		a.Timeout = d.duration(timeout, "timeout")
	}
	if all == nil && any == nil {
		p := d.pattern(n, "await")
		delete(p.Fields, "timeout")
		if len(p.Fields) == 0 {
			d.fail(n.line, "await needs a field to match, such as type")
		}
		a.All = []Pattern{p}
		return a
	}
	d.fields(n, "await", "all", "any", "timeout")
	switch {
	case all != nil && any != nil:
		d.fail(n.line, "await takes all: or any:, not both")
	case all != nil:
		a.All = d.patterns(all, "all")
	default:
		a.Any = d.patterns(any, "any")
	}
	if len(a.All)+len(a.Any) == 0 {
		d.fail(n.line, "await waits for nothing; list at least one event")
	}
	return a
}

func (d decoder) crash(n *node) Act {
	if n.kind == kindMap {
		d.fields(n, "crash", "at")
		at := d.point(d.need(n, "crash", "at"))
		return Crash{At: &at}
	}
	return Crash{Owner: d.word(n, "crash")}
}

func (d decoder) point(n *node) Point {
	s := d.text(n, "a point")
	when, typ, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains([]string{Before, After, Stored}, when) {
		d.fail(n.line, "point %q is not before:TYPE, after:TYPE or stored:TYPE", s)
	}
	if !event.Known(event.Type(typ)) {
		d.fail(n.line, "point %q: no event has the type %q", s, typ)
	}
	return Point{When: when, Type: event.Type(typ)}
}
