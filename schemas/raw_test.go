package schemas

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"
)

// raw is a schema as it stands in its file, with references followed by the
// tests' own few lines: the validator must not vouch for itself.
type raw struct {
	t    *testing.T
	file string
	node map[string]any
}

func readRaw(t *testing.T, file string) raw {
	t.Helper()
	data, err := FS.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var node map[string]any
	if err := json.Unmarshal(data, &node); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return raw{t, file, node}
}

// follow returns what a $ref points to, or r itself.
func (r raw) follow() raw {
	ref, ok := r.node["$ref"].(string)
	if !ok {
		return r
	}
	file, fragment, _ := strings.Cut(ref, "#")
	target := r.file
	if file != "" {
		target = path.Join(path.Dir(r.file), file)
	}
	out := readRaw(r.t, target)
	for step := range strings.SplitSeq(strings.Trim(fragment, "/"), "/") {
		if step == "" {
			continue
		}
		next, ok := out.node[step].(map[string]any)
		if !ok {
			r.t.Fatalf("%s: %s leads nowhere", r.file, ref)
		}
		out.node = next
	}
	return out.follow()
}

func (r raw) child(node any) raw {
	if node == false {
		node = map[string]any{"not": map[string]any{}}
	}
	m, ok := node.(map[string]any)
	if !ok {
		r.t.Fatalf("%s: %v is not a schema object", r.file, node)
	}
	return raw{r.t, r.file, m}
}

// properties are the object's properties, those of allOf and $ref included.
func (r raw) properties() map[string]raw {
	out := map[string]raw{}
	for _, part := range r.parts() {
		props, _ := part.node["properties"].(map[string]any)
		for name, p := range props {
			out[name] = part.child(p)
		}
	}
	return out
}

func (r raw) required() []string {
	var out []string
	for _, part := range r.parts() {
		names, _ := part.node["required"].([]any)
		for _, n := range names {
			out = append(out, n.(string))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// parts are allOf's members first, then the schema's own words, which are the
// narrower ones.
func (r raw) parts() []raw {
	r = r.follow()
	var out []raw
	all, _ := r.node["allOf"].([]any)
	for _, member := range all {
		out = append(out, r.child(member).parts()...)
	}
	return append(out, r)
}

func (r raw) items() (raw, bool) {
	r = r.follow()
	if r.node["items"] == nil {
		return raw{}, false
	}
	return r.child(r.node["items"]), true
}

// values are the enumerated values, or the one const.
func (r raw) values() []any {
	r = r.follow()
	if v, ok := r.node["const"]; ok {
		return []any{v}
	}
	v, _ := r.node["enum"].([]any)
	return v
}

// jsonType is the one JSON type that the schema takes, "" for any.
func (r raw) jsonType() string {
	r = r.follow()
	if t, ok := r.node["type"].(string); ok {
		return t
	}
	for _, v := range r.values() {
		switch v.(type) {
		case string:
			return "string"
		case bool:
			return "boolean"
		case float64:
			return "integer"
		}
	}
	return ""
}

func (r raw) word(name string) string {
	s, _ := r.follow().node[name].(string)
	return s
}

// loaded is the one Set of the tests.
var loaded = func() *Set {
	s, err := Load()
	if err != nil {
		panic(err)
	}
	return s
}()

// envelopeFields are the names of contract section 2.
var envelopeFields = []string{"version", "id", "type", "session_id", "sequence", "epoch", "time", "prev", "cause"}
