// Package sse reads server-sent events as the WHATWG defines them: lines end
// with LF, CRLF or a lone CR; one leading byte order mark is dropped; comments
// are counted and dropped; the data lines of an event are joined by LF; an
// event without data is none.
//
// Invariants
//
//  1. The events do not depend on how the bytes were cut into chunks.
//  2. An event counts only when its blank line came; what stands after the last
//     one is the tail, and only [Parser.Tail] tells of it.
//  3. A line may be as long as the limit allows: a longer event is an error,
//     and nothing is read after it.
//
// It does not reconnect and knows no field but event and data.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrTooLong is what Write's error wraps when one event passes the limit.
var ErrTooLong = errors.New("event too long")

// DefaultLimit is the size of one event that a zero Parser accepts, in bytes.
const DefaultLimit = 64 << 20

// Event is one dispatched event.
type Event struct {
	Name string // of its last event line; "" = none came
	Data []byte // its data lines, joined by LF; the receiver may keep it
}

// Parser cuts a body into events. The zero value is ready.
type Parser struct {
	Limit int // bytes that one event may hold before its blank line; 0 = DefaultLimit

	line     []byte // of the line that has not ended yet
	data     []byte // of the event that has not ended yet, each line with its LF
	name     string // of the same event
	skipLF   bool   // the last byte was CR: an LF now belongs to it
	begun    bool   // the first line ended: no byte order mark any more
	comments int
	err      error
}

// Comments counts the comment lines so far.
func (p *Parser) Comments() int { return p.comments }

// Write takes the next bytes and hands each event that they end to emit, in
// order. An error is final: every later Write returns it.
func (p *Parser) Write(b []byte, emit func(Event)) error {
	for len(b) > 0 && p.err == nil {
		if p.skipLF {
			p.skipLF = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			p.grow(b)
			break
		}
		p.grow(b[:end])
		p.skipLF = b[end] == '\r'
		b = b[end+1:]
		p.endLine(emit)
	}
	return p.err
}

// Tail is the event that the body ended in, as if its blank line had come;
// false if nothing stands after the last event. It changes nothing.
func (p *Parser) Tail() (Event, bool) {
	rest := p.Clone()
	var tail Event
	found := false
	keep := func(e Event) { tail, found = e, true }
	if len(rest.line) > 0 {
		rest.endLine(keep)
	}
	rest.line = nil
	rest.endLine(keep)
	return tail, found
}

// Clone is an independent parser in the same state.
func (p *Parser) Clone() Parser {
	c := *p
	c.line, c.data = bytes.Clone(p.line), bytes.Clone(p.data)
	return c
}

func (p *Parser) grow(b []byte) {
	limit := p.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if len(p.line)+len(p.data)+len(b) > limit {
		p.err = fmt.Errorf("sse: read event: %w: more than %d bytes without a blank line", ErrTooLong, limit)
		return
	}
	p.line = append(p.line, b...)
}

// endLine takes the line that just ended as WHATWG's "process the line".
func (p *Parser) endLine(emit func(Event)) {
	if p.err != nil {
		return
	}
	line := p.line
	if !p.begun {
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		p.begun = true
	}
	switch {
	case len(line) == 0:
		p.dispatch(emit)
	case line[0] == ':':
		p.comments++
	default:
		p.field(line)
	}
	p.line = p.line[:0]
}

func (p *Parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		p.data = append(append(p.data, value...), '\n')
	case "event":
		p.name = string(value)
	}
}

func (p *Parser) dispatch(emit func(Event)) {
	name, data := p.name, p.data
	p.name, p.data = "", nil
	if len(data) > 0 {
		emit(Event{Name: name, Data: bytes.TrimSuffix(data, []byte("\n"))})
	}
}
