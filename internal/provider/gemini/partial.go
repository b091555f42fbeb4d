package gemini

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// partialArg is one value of streamed arguments, or a piece of a string.
type partialArg struct {
	Path         string         `json:"jsonPath"` // RFC 9535: $.a.b[0]
	String       *string        `json:"stringValue"`
	Number       jsontext.Value `json:"numberValue"`
	Bool         *bool          `json:"boolValue"`
	Null         jsontext.Value `json:"nullValue"` // its presence is the value
	WillContinue bool           `json:"willContinue"`
}

// assembly puts streamed arguments together: members in the order in which
// they came, numbers digit for digit. Nothing is guessed: a path that is not
// understood, a value that is set twice or an element that leaves a gap spoils
// it.
type assembly struct {
	root    *node
	open    *node  // the string of which more is to come
	path    string // its path
	spoiled bool
}

// node is one value: the members of an object, the elements of an array, or a
// leaf.
type node struct {
	kind  byte // '{', '[', 's' for a string, 'v' for a finished value, 0 for nothing yet
	names []string
	kids  []*node
	text  []byte
}

const (
	maxPath     = 1024 // bytes of a path
	maxElements = 4096 // elements of one array
)

// add takes one value and reports whether it was understood.
func (s *assembly) add(p partialArg) bool {
	if s.spoiled || !s.set(p) {
		s.spoiled = true
	}
	return !s.spoiled
}

func (s *assembly) set(p partialArg) bool {
	if s.open != nil {
		if p.Path != s.path || p.String == nil {
			return false // the string before it was not finished
		}
		return s.write(p)
	}
	if s.root == nil {
		s.root = &node{kind: '{'}
	}
	n, ok := s.root.find(p.Path)
	if !ok || n.kind != 0 {
		return false
	}
	switch {
	case p.String != nil:
		n.kind = 's'
		s.open, s.path = n, p.Path
		return s.write(p)
	case p.Number.Kind() == '0':
		n.text = p.Number.Clone()
	case p.Bool != nil:
		n.text = strconv.AppendBool(nil, *p.Bool)
	case len(p.Null) > 0:
		n.text = []byte("null")
	default:
		return false
	}
	n.kind = 'v'
	return true
}

// write appends a piece to the open string.
func (s *assembly) write(p partialArg) bool {
	s.open.text = append(s.open.text, *p.String...)
	if !p.WillContinue {
		s.open = nil
	}
	return true
}

// find is the node at a path, made if it is not there yet.
func (n *node) find(path string) (*node, bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || rest == "" || len(path) > maxPath {
		return nil, false
	}
	for rest != "" {
		name, index, after, ok := step(rest)
		if !ok {
			return nil, false
		}
		kind := byte('{')
		if index >= 0 {
			kind = '['
		}
		if n.kind == 0 {
			n.kind = kind
		}
		if n.kind != kind {
			return nil, false
		}
		if n, ok = n.kid(name, index); !ok {
			return nil, false
		}
		rest = after
	}
	return n, true
}

// kid is the member or element, made if it is not there yet.
func (n *node) kid(name string, index int) (*node, bool) {
	if index < 0 {
		for i, have := range n.names {
			if have == name {
				return n.kids[i], true
			}
		}
		n.names = append(n.names, name)
	} else if index < len(n.kids) {
		return n.kids[index], true
	} else if index > len(n.kids) || index >= maxElements {
		return nil, false
	}
	k := &node{}
	n.kids = append(n.kids, k)
	return k, true
}

// step reads the first segment of a path: .name, ['name'], ["name"] or [0].
// index is -1 for a name.
func step(path string) (name string, index int, rest string, ok bool) {
	if after, dotted := strings.CutPrefix(path, "."); dotted {
		end := strings.IndexAny(after, ".[")
		if end < 0 {
			end = len(after)
		}
		return after[:end], -1, after[end:], end > 0
	}
	after, bracket := strings.CutPrefix(path, "[")
	if !bracket || after == "" {
		return "", 0, "", false
	}
	if quote := after[0]; quote == '\'' || quote == '"' {
		name, rest, ok = strings.Cut(after[1:], string(quote)+"]")
		return name, -1, rest, ok && !strings.ContainsAny(name, `\'"`)
	}
	digits, rest, ok := strings.Cut(after, "]")
	index, err := strconv.Atoi(digits)
	return "", index, rest, ok && err == nil && index >= 0
}

// closed reports whether nothing is missing of what began.
func (s *assembly) closed() bool { return !s.spoiled && s.open == nil }

// String is the JSON object so far; "" once it is spoiled.
func (s *assembly) String() string {
	if s.spoiled {
		return ""
	}
	if s.root == nil {
		return "{}"
	}
	b, err := s.root.append(nil)
	if err != nil {
		return ""
	}
	return string(b)
}

func (n *node) append(b []byte) ([]byte, error) {
	var err error
	switch n.kind {
	case '{', '[':
		b = append(b, n.kind)
		for i, k := range n.kids {
			if i > 0 {
				b = append(b, ',')
			}
			if n.kind == '{' {
				if b, err = jsontext.AppendQuote(b, n.names[i]); err != nil {
					return nil, err
				}
				b = append(b, ':')
			}
			if b, err = k.append(b); err != nil {
				return nil, err
			}
		}
		return append(b, n.kind+2), nil // '}' and ']' stand two after '{' and '['
	case 's':
		return jsontext.AppendQuote(b, n.text)
	}
	return append(b, n.text...), nil
}
