package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/loopd/loopd/event"
)

// seen is an event of the log with its fields as JSON has them.
type seen struct {
	event.Record
	event  event.Event
	fields map[string]any
}

// A Failure is something that did not hold. Line is 0 for what has no line,
// such as a rule of the audit.
type Failure struct {
	Line int
	Msg  string
}

// check holds the log against what the file expects of it.
func (sc *Scenario) check(log []seen, names *Names) []Failure {
	var out []Failure
	out = append(out, checkExpect(sc.Expect, log, names)...)
	for _, p := range sc.Never {
		if i := find(p, log, 0, names); i >= 0 {
			out = append(out, Failure{Line: p.Line, Msg: fmt.Sprintf("never %s: it is event %s", p, log[i].event.Sequence)})
		}
	}
	for _, c := range sc.Count {
		n := 0
		for _, e := range log {
			if names.Match(c.Fields, e.fields) {
				n++
			}
		}
		if n != c.N {
			out = append(out, Failure{Line: c.Line, Msg: fmt.Sprintf("count %s: %d events match", c, n)})
		}
	}
	return out
}

// checkExpect finds the patterns one after another; a name is bound by the
// first event that fits.
func checkExpect(want []Pattern, log []seen, names *Names) []Failure {
	var out []Failure
	from := 0
	for _, p := range want {
		i := find(p, log, from, names)
		if i < 0 {
			out = append(out, Failure{Line: p.Line, Msg: fmt.Sprintf("expect %s: %s", p, missed(p, log, from, names))})
			continue
		}
		from = i + 1
	}
	return out
}

// find is the index of the first event from there on that matches, or -1.
func find(p Pattern, log []seen, from int, names *Names) int {
	for i := from; i < len(log); i++ {
		if names.Match(p.Fields, log[i].fields) {
			return i
		}
	}
	return -1
}

// missed explains why no event fits: it names the event that comes closest.
func missed(p Pattern, log []seen, from int, names *Names) string {
	for i := range from {
		if names.Fits(p.Fields, log[i].fields) {
			return fmt.Sprintf("not after event %d; it is event %s, too early", from, log[i].event.Sequence)
		}
	}
	type near struct {
		at    event.Seq
		wrong []string
	}
	var candidates []near
	for _, e := range log[from:] {
		if p.Fields["type"] == nil || e.fields["type"] != p.Fields["type"] {
			continue
		}
		candidates = append(candidates, near{at: e.event.Sequence, wrong: differences(p, e, names)})
	}
	if len(candidates) == 0 {
		return fmt.Sprintf("no such event after event %d", from)
	}
	best := slices.MinFunc(candidates, func(a, b near) int { return cmp.Compare(len(a.wrong), len(b.wrong)) })
	return fmt.Sprintf("no such event after event %d; event %s comes closest, but %s", from, best.at, join(best.wrong))
}

func differences(p Pattern, e seen, names *Names) []string {
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(p.Fields)) {
		want := p.Fields[key]
		if names.Fits(map[string]any{key: want}, e.fields) {
			continue
		}
		if resolved, err := names.Resolve(want); err == nil {
			want = resolved
		}
		got, there := e.fields[key]
		if !there {
			wrong = append(wrong, fmt.Sprintf("it has no %s (want %v)", key, want))
			continue
		}
		wrong = append(wrong, fmt.Sprintf("its %s is %v, not %v", key, got, want))
	}
	if len(wrong) == 0 {
		wrong = append(wrong, "its names do not fit together")
	}
	return wrong
}

func join(parts []string) string {
	out := parts[0]
	for _, p := range parts[1:] {
		out += "; " + p
	}
	return out
}
