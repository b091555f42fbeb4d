package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ParseError says what cannot be read, and where. Line is 0 where the file as
// a whole is meant.
type ParseError struct {
	File string
	Line int
	Msg  string
}

func (e *ParseError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// A node is a YAML value that knows its line; anchors and merges are resolved.
type node struct {
	line    int
	kind    kind
	scalar  any    // nil, bool, float64 or string
	source  string // a scalar's text as written
	entries []entry
	items   []*node
}

type entry struct {
	key   string
	line  int
	value *node
}

type kind int

const (
	kindScalar kind = iota
	kindMap
	kindList
)

func (n *node) what() string {
	switch {
	case n.kind == kindMap:
		return "a map"
	case n.kind == kindList:
		return "a list"
	case n.scalar == nil:
		return "nothing"
	}
	return fmt.Sprintf("%q", n.source)
}

// value is the node as JSON would hold it.
func (n *node) value() any {
	switch n.kind {
	case kindMap:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[e.key] = e.value.value()
		}
		return m
	case kindList:
		l := make([]any, 0, len(n.items))
		for _, item := range n.items {
			l = append(l, item.value())
		}
		return l
	}
	return n.scalar
}

func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// maxFile bounds a scenario file, in bytes.
const maxFile = 8 << 20

func readTree(path string) (*node, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: read: %w", err)
	}
	if info.Size() > maxFile {
		return nil, &ParseError{File: path, Msg: fmt.Sprintf("the file has %d bytes; at most %d are read", info.Size(), maxFile)}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: read: %w", err)
	}
	return parseTree(path, b)
}

// invalidUTF8 is where the first byte stands that is not UTF-8, -1 for none.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func parseTree(path string, b []byte) (*node, error) {
	if i := invalidUTF8(b); i >= 0 {
		return nil, &ParseError{File: path, Line: 1 + bytes.Count(b[:i], []byte("\n")), Msg: "not UTF-8; save the file as UTF-8"}
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			return nil, &ParseError{File: path, Line: at.GetToken().Position.Line, Msg: at.GetMessage()}
		}
		return nil, &ParseError{File: path, Msg: err.Error()}
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		return nil, &ParseError{File: path, Msg: "the file is empty; a scenario has at least host steps"}
	case len(bodies) > 1:
		return nil, &ParseError{File: path, Line: lineOf(bodies[1]), Msg: "a second document; one file is one scenario"}
	}
	t := treeReader{file: path, anchors: map[string]*node{}}
	return t.read(bodies[0])
}

type treeReader struct {
	file    string
	anchors map[string]*node
}

func (t treeReader) fail(n ast.Node, format string, args ...any) error {
	return &ParseError{File: t.file, Line: lineOf(n), Msg: fmt.Sprintf(format, args...)}
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return lineOf(m.Key)
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return lineOf(m.Values[0].Key)
	}
	return n.GetToken().Position.Line
}

func (t treeReader) read(n ast.Node) (*node, error) {
	out := &node{line: lineOf(n)}
	if n != nil && n.GetToken() != nil {
		out.source = n.GetToken().Value
	}
	switch v := n.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		out.scalar, out.source = v.Value, v.Value
	case *ast.LiteralNode:
		out.scalar, out.source = v.Value.Value, v.Value.Value
	case *ast.BoolNode:
		out.scalar = v.Value
	case *ast.FloatNode:
		out.scalar = v.Value
	case *ast.IntegerNode:
		out.scalar = number(v.Value)
	case *ast.MappingNode:
		return t.readMap(out, v.Values)
	case *ast.MappingValueNode:
		return t.readMap(out, []*ast.MappingValueNode{v})
	case *ast.SequenceNode:
		return t.readList(out, v.Values)
	case *ast.AnchorNode:
		inner, err := t.read(v.Value)
		if err == nil {
			t.anchors[v.Name.String()] = inner
		}
		return inner, err
	case *ast.AliasNode:
		inner, ok := t.anchors[v.Value.String()]
		if !ok {
			return nil, t.fail(n, "alias *%s names no anchor above it", v.Value)
		}
		return inner, nil
	case *ast.TagNode:
		return t.readTag(v)
	default:
		return nil, t.fail(n, "this kind of YAML value has no meaning in a scenario")
	}
	return out, nil
}

func (t treeReader) readTag(v *ast.TagNode) (*node, error) {
	inner, err := t.read(v.Value)
	if err != nil {
		return nil, err
	}
	if v.Start.Value != "!!str" || inner.kind != kindScalar {
		return nil, t.fail(v, "tag %s is not known here; only !!str is", v.Start.Value)
	}
	inner.scalar = inner.source
	return inner, nil
}

func (t treeReader) readList(out *node, values []ast.Node) (*node, error) {
	out.kind = kindList
	for _, v := range values {
		item, err := t.read(v)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, item)
	}
	return out, nil
}

func (t treeReader) readMap(out *node, values []*ast.MappingValueNode) (*node, error) {
	out.kind = kindMap
	var merged []entry
	for _, v := range values {
		value, err := t.read(v.Value)
		if err != nil {
			return nil, err
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			if value.kind != kindMap {
				return nil, t.fail(v, "<< merges a map, not %s", value.what())
			}
			merged = append(merged, value.entries...)
			continue
		}
		key, err := t.key(v.Key)
		if err != nil {
			return nil, err
		}
		out.entries = append(out.entries, entry{key: key, line: lineOf(v.Key), value: value})
	}
	for _, e := range merged {
		if out.get(e.key) == nil {
			out.entries = append(out.entries, e)
		}
	}
	return out, nil
}

func (t treeReader) key(n ast.MapKeyNode) (string, error) {
	if q, ok := n.(*ast.MappingKeyNode); ok {
		inner, err := t.read(q.Value)
		if err != nil {
			return "", err
		}
		if inner.kind != kindScalar {
			return "", t.fail(n, "a key must be a plain word")
		}
		return inner.source, nil
	}
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value, nil
	}
	return strings.TrimSpace(n.GetToken().Value), nil
}

// number makes integers what JSON decodes to, so that both sides compare.
func number(v any) any {
	switch n := v.(type) {
	case uint64:
		return float64(n)
	case int64:
		return float64(n)
	}
	return v
}

// flow writes the node on one line, as messages show it.
func (n *node) flow() string {
	switch n.kind {
	case kindMap:
		parts := make([]string, 0, len(n.entries))
		for _, e := range n.entries {
			parts = append(parts, e.key+": "+e.value.flow())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case kindList:
		parts := make([]string, 0, len(n.items))
		for _, item := range n.items {
			parts = append(parts, item.flow())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.scalar == nil {
		return "null"
	}
	if s, ok := n.scalar.(string); ok && (s == "" || strings.ContainsAny(s, "{}[],:\n\"'#")) {
		return fmt.Sprintf("%q", s)
	}
	return n.source
}
