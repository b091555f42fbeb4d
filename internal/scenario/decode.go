package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Load reads a scenario file. An error means that the file cannot be read; a
// [ParseError] names the line.
func Load(path string) (*Scenario, error) {
	root, err := readTree(path)
	if err != nil {
		return nil, err
	}
	sc, err := decode(path, root)
	if err != nil {
		return nil, err
	}
	if unknown := sc.unknownType(); unknown != nil {
		return nil, unknown
	}
	return sc, nil
}

// Parse reads a scenario from bytes; name stands for the file in messages.
func Parse(name string, b []byte) (*Scenario, error) {
	root, err := parseTree(name, b)
	if err != nil {
		return nil, err
	}
	return decode(name, root)
}

func decode(file string, root *node) (sc *Scenario, err error) {
	d := decoder{file: file}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*ParseError)
			if !ok {
				panic(r)
			}
			sc, err = nil, failed
		}
	}()
	return d.scenario(root), nil
}

// A decoder turns nodes into values. Its methods panic with a *ParseError,
// which decode recovers: the happy path stays readable.
type decoder struct{ file string }

func (d decoder) fail(line int, format string, args ...any) {
	panic(&ParseError{File: d.file, Line: line, Msg: fmt.Sprintf(format, args...)})
}

// fields holds a map's keys against those that are known here.
func (d decoder) fields(n *node, what string, known ...string) *node {
	if n.kind != kindMap {
		d.fail(n.line, "%s is a map, not %s", what, n.what())
	}
	for _, e := range n.entries {
		if !slices.Contains(known, e.key) {
			d.fail(e.line, "unknown key %q in %s; known: %s", e.key, what, strings.Join(known, ", "))
		}
	}
	return n
}

// list is the items of a list; nothing at all is an empty one.
func (d decoder) list(n *node, what string) []*node {
	if n == nil || n.kind == kindScalar && n.scalar == nil {
		return nil
	}
	if n.kind != kindList {
		d.fail(n.line, "%s is a list, not %s", what, n.what())
	}
	return n.items
}

// text is any scalar as it is written.
func (d decoder) text(n *node, what string) string {
	if n.kind != kindScalar || n.scalar == nil {
		d.fail(n.line, "%s is a text, not %s", what, n.what())
	}
	return n.source
}

// word is a text that is not empty.
func (d decoder) word(n *node, what string) string {
	s := d.text(n, what)
	if s == "" {
		d.fail(n.line, "%s is empty", what)
	}
	return s
}

func (d decoder) oneOf(n *node, what string, allowed ...string) string {
	s := d.text(n, what)
	if !slices.Contains(allowed, s) {
		d.fail(n.line, "%s is one of %s, not %q", what, strings.Join(allowed, ", "), s)
	}
	return s
}

func (d decoder) words(n *node, what string) []string {
	out := []string{}
	for _, item := range d.list(n, what) {
		out = append(out, d.word(item, what))
	}
	return out
}

// count is a whole number from 0.
func (d decoder) count(n *node, what string) int {
	f, ok := n.scalar.(float64)
	if n.kind != kindScalar || !ok || f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		d.fail(n.line, "%s is a whole number from 0, not %s", what, n.what())
	}
	return int(f)
}

func (d decoder) amount(n *node, what string) float64 {
	f, ok := n.scalar.(float64)
	if n.kind != kindScalar || !ok || f < 0 {
		d.fail(n.line, "%s is a number from 0, not %s", what, n.what())
	}
	return f
}

func (d decoder) flag(n *node, what string) bool {
	b, ok := n.scalar.(bool)
	if n.kind != kindScalar || !ok {
		d.fail(n.line, "%s is true or false, not %s", what, n.what())
	}
	return b
}

// duration is a Go duration; 0 may stand without a unit.
func (d decoder) duration(n *node, what string) time.Duration {
	s := d.text(n, what)
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		d.fail(n.line, "%s is a duration such as 90s or 3m, not %q", what, s)
	}
	return v
}

// only is the single entry of a map.
func (d decoder) only(n *node, what string) entry {
	if n.kind != kindMap || len(n.entries) != 1 {
		d.fail(n.line, "%s is a map with one key, not %s", what, n.what())
	}
	return n.entries[0]
}
