package view

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Key names a row. The row of a session has the session's id in both places.
type Key struct {
	View    Name
	Session string
	ID      string
}

func (k Key) String() string { return fmt.Sprintf("%s %q of session %q", k.View, k.ID, k.Session) }

// A part ends with 0x00 0x01, and a zero byte inside it is 0x00 0xff: no part
// is a prefix of another one's encoding, and bytes compare as the parts do.
const (
	escape     = 0x00
	terminator = 0x01
	escapedNul = 0xff
)

// Append adds the key's ordered bytes to b.
func (k Key) Append(b []byte) []byte {
	b = appendPart(b, string(k.View))
	b = appendPart(b, k.Session)
	return appendPart(b, k.ID)
}

// AppendPrefix adds the bytes that the keys of a view begin with, or, with a
// session, the keys of a view in that session.
func AppendPrefix(b []byte, name Name, session ...string) []byte {
	b = appendPart(b, string(name))
	for _, s := range session {
		b = appendPart(b, s)
	}
	return b
}

// ParseKey reads what Append wrote.
func ParseKey(b []byte) (Key, error) {
	var parts [3]string
	rest := b
	for i := range parts {
		part, after, err := cutPart(rest)
		if err != nil {
			return Key{}, fmt.Errorf("view: key %x: %w", b, err)
		}
		parts[i], rest = part, after
	}
	if len(rest) > 0 {
		return Key{}, fmt.Errorf("view: key %x: %d bytes too many", b, len(rest))
	}
	return Key{View: Name(parts[0]), Session: parts[1], ID: parts[2]}, nil
}

// subjectID is the id of a row that is about a row of another view.
func subjectID(subject Name, id string) string { return string(subject) + "/" + id }

// subjectOf takes a subjectID apart.
func subjectOf(id string) (subject Name, rest string) {
	before, after, _ := strings.Cut(id, "/")
	return Name(before), after
}

func appendPart(b []byte, part string) []byte {
	for i := range len(part) {
		b = append(b, part[i])
		if part[i] == escape {
			b = append(b, escapedNul)
		}
	}
	return append(b, escape, terminator)
}

func cutPart(b []byte) (part string, rest []byte, err error) {
	var out []byte
	for {
		i := bytes.IndexByte(b, escape)
		if i < 0 || i+1 == len(b) {
			return "", nil, errors.New("a part has no end")
		}
		out = append(out, b[:i]...)
		switch b[i+1] {
		case terminator:
			return string(out), b[i+2:], nil
		case escapedNul:
			out = append(out, escape)
			b = b[i+2:]
		default:
			return "", nil, fmt.Errorf("byte %#x after an escape", b[i+1])
		}
	}
}
