package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// checkShape refuses what the decoder would take in silence: a second document,
// and a key without a value, which would unset what stands below it.
func checkShape(b []byte) (empty bool, err error) {
	file, err := parser.ParseBytes(b, 0)
	var at yaml.Error
	if errors.As(err, &at) {
		return false, explain(at)
	} else if err != nil {
		return false, err
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.CommentGroupType {
			docs = append(docs, d.Body)
		}
	}
	switch {
	case len(docs) == 0 || len(docs) == 1 && docs[0].Type() == ast.NullType:
		return true, nil
	case len(docs) > 1:
		return false, &lineError{docs[1].GetToken().Position.Line, "a second document; a configuration is one"}
	}
	return false, checkValues(docs[0])
}

func checkValues(n ast.Node) error {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	}
	for _, p := range pairs {
		key := p.Key.GetToken()
		if p.Value == nil || p.Value.Type() == ast.NullType {
			return &lineError{key.Position.Line, fmt.Sprintf("%s has no value; give one, or remove the line", key.Value)}
		}
		if err := checkValues(p.Value); err != nil {
			return err
		}
	}
	return nil
}

// explain puts the decoder's errors into our words; an unknown key is told
// which keys are known.
func explain(err yaml.Error) error {
	line, text := 0, err.GetMessage()
	if token := err.GetToken(); token != nil {
		line = token.Position.Line
	}
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) && unknown.Token != nil {
		key := unknown.Token.Value
		text = fmt.Sprintf("unknown key %q", key)
		if known := siblings(unknown.Token.Position.Column, key); known != "" {
			text += "; " + known
		}
	}
	return &lineError{line, text}
}

// siblings suggests the known key that is nearest to a misspelt one, or lists
// the top-level keys for a key at the margin.
func siblings(column int, key string) string {
	all := keys(reflect.TypeFor[config](), "")
	best, least := "", 3
	for _, path := range all {
		name := path[strings.LastIndexByte(path, '.')+1:]
		if d := distance(key, name); d < least {
			best, least = path, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	if column != 1 {
		return "see loopd serve --help for the keys"
	}
	var top []string
	for _, path := range all {
		if name, _, _ := strings.Cut(path, "."); !slices.Contains(top, name) {
			top = append(top, name)
		}
	}
	return "known are " + strings.Join(top, ", ")
}

// keys are the paths of all keys of a configuration.
func keys(t reflect.Type, prefix string) []string {
	var out []string
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" {
			continue
		}
		out = append(out, prefix+name)
		switch inner := f.Type; {
		case inner.Kind() == reflect.Struct:
			out = append(out, keys(inner, prefix+name+".")...)
		case inner.Kind() == reflect.Pointer:
			out = append(out, keys(inner.Elem(), prefix+name+".")...)
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct:
			out = append(out, keys(inner.Elem(), prefix+name+".NAME.")...)
		}
	}
	return out
}

// distance is how many letters must be changed, added or left out to make b of
// a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost++
			}
			left = row[j+1]
			row[j+1] = min(cost, row[j]+1, left+1)
		}
	}
	return row[len(b)]
}

// duration is a span of time as a configuration spells it: 90s, 1h30m.
type duration time.Duration

func (d duration) String() string { return time.Duration(d).String() }

func (d *duration) set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s or 5m", text)
	}
	*d = duration(v)
	return nil
}

// UnmarshalYAML reads a duration; an error names the line.
func (d *duration) UnmarshalYAML(n ast.Node) error { return scalar(n, d.set) }

// size is a number of bytes as a configuration spells it: 4096, 64KiB, 10GiB.
type size int64

var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func (s *size) set(text string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB or 10GiB", text)
}

// String is the size in the largest unit that leaves at least one.
func (s size) String() string {
	for _, u := range units {
		if u.bytes > 1 && int64(s) >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(s)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", int64(s))
}

// UnmarshalYAML reads a size; an error names the line.
func (s *size) UnmarshalYAML(n ast.Node) error { return scalar(n, s.set) }

func scalar(n ast.Node, set func(string) error) error {
	if err := set(n.GetToken().Value); err != nil {
		return &lineError{n.GetToken().Position.Line, err.Error()}
	}
	return nil
}
