package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"sync"
)

// Names are the $names of a scenario: bound at first sight, equal after, and
// shared by every part of the file.
type Names struct {
	mu    sync.Mutex
	bound map[string]any
}

var nameForm = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_-]*$`)

func isName(v any) (string, bool) {
	s, ok := v.(string)
	return s, ok && nameForm.MatchString(s)
}

// Match reports whether value matches pattern: a map when each of the
// pattern's keys matches, a list elementwise, a $name when it is unbound (then
// it is bound) or equal, anything else when it is equal. A null matches what is
// not there. Names are bound only if the whole pattern matches.
func (n *Names) Match(pattern, value any) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	trial := trial{bound: n.bound}
	if !trial.match(pattern, value) {
		return false
	}
	if n.bound == nil {
		n.bound = map[string]any{}
	}
	maps.Copy(n.bound, trial.fresh)
	return true
}

// Fits is Match without binding anything.
func (n *Names) Fits(pattern, value any) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	trial := trial{bound: n.bound}
	return trial.match(pattern, value)
}

// Resolve replaces the names in a value; the error names one that is unbound.
func (n *Names) Resolve(v any) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.resolve(v)
}

func (n *Names) resolve(v any) (any, error) {
	if name, ok := isName(v); ok {
		value, bound := n.bound[name]
		if !bound {
			return nil, fmt.Errorf("%s is not bound: no event that names it was seen before", name)
		}
		return value, nil
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			value, err := n.resolve(item)
			if err != nil {
				return nil, err
			}
			out[key] = value
		}
		return out, nil
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			value, err := n.resolve(item)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	return v, nil
}

// trial matches one pattern against one value, binding on the side.
type trial struct {
	bound map[string]any
	fresh map[string]any
}

func (t *trial) match(pattern, value any) bool {
	if name, ok := isName(pattern); ok {
		return t.bind(name, value)
	}
	switch p := pattern.(type) {
	case map[string]any:
		v, ok := value.(map[string]any)
		if !ok {
			return false
		}
		for key, want := range p {
			got, there := v[key]
			if !there && want != nil || !t.match(want, got) {
				return false
			}
		}
		return true
	case []any:
		v, ok := value.([]any)
		if !ok || len(v) != len(p) {
			return false
		}
		for i := range p {
			if !t.match(p[i], v[i]) {
				return false
			}
		}
		return true
	}
	return pattern == value
}

func (t *trial) bind(name string, value any) bool {
	if value == nil {
		return false
	}
	if known, ok := t.bound[name]; ok {
		return equal(known, value)
	}
	if known, ok := t.fresh[name]; ok {
		return equal(known, value)
	}
	if t.fresh == nil {
		t.fresh = map[string]any{}
	}
	t.fresh[name] = value
	return true
}

// equal compares two values of JSON.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// Named is a value with every string that a name is bound to replaced by the
// name, for showing.
func (n *Names) Named(v any) any {
	n.mu.Lock()
	defer n.mu.Unlock()
	back := map[string]string{}
	for name, value := range n.bound {
		if s, ok := value.(string); ok && (back[s] == "" || name < back[s]) {
			back[s] = name
		}
	}
	return renamed(v, back)
}

func renamed(v any, back map[string]string) any {
	switch v := v.(type) {
	case string:
		if name, ok := back[v]; ok {
			return name
		}
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, renamed(item, back))
		}
		return out
	}
	return v
}
