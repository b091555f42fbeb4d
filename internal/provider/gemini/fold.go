package gemini

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
)

// Fold reads the body of one answer and judges it. It needs no HTTP: write
// the bytes, then End. A stream of events and one JSON object (what
// generateContent sends, and most errors) are told apart by their first
// character. In a stream an error may also stand bare, as JSON on lines of its
// own: lines that are none of server-sent events are kept.
//
// The outcome does not depend on how the bytes were cut. What it becomes:
//
//	error object, nothing put out       by its code: Failure rejected, Uncertain, or
//	                                    Failure ran (no code)
//	error object after output           Completion error if the answer was whole, else Uncertain
//	the last frame has no reason, or    Uncertain
//	  the end is not framed by HTTP
//	an unreadable frame or line, a      Completion unrecognised
//	  frame after a reason other
//	  than STOP, …
//	a reason not on the whitelist       Completion unrecognised
//	STOP without calls                  Completion stop
//	STOP with calls                     Completion tool_calls; Veto says why they may not run
//	MAX_TOKENS, CONTINUATION            Completion output_budget
//	SAFETY and its like, a blocked      Completion content_filter
//	  prompt
//	MALFORMED_FUNCTION_CALL, …          Completion error
//
// A call is Closed if it came whole, or its closer came, and the answer ended
// with STOP. Whether its arguments are one JSON object is for the loop to say.
type Fold struct {
	out Sink

	form   form
	head   []byte // form unknown: what may be a byte order mark; form JSON: the body
	parser sse.Parser
	stray  strays // lines that are none of server-sent events
	sum    hash.Hash
	size   int64
	whole  bool // the JSON body came to its closing brace
	answer answer
}

// Sink is told of a content block as it grows and when it ends ([loop.Stream]
// is one).
type Sink interface {
	Delta(kind, text string)
	Message(text string)
}

type form int

const (
	formUnknown form = iota
	formEvents
	formJSON
)

// NewFold begins an answer. out may be nil.
func NewFold(out Sink) *Fold {
	if out == nil {
		out = silent{}
	}
	return &Fold{out: out, sum: sha256.New()}
}

type silent struct{}

func (silent) Delta(string, string) {}
func (silent) Message(string)       {}

// Write takes the next bytes of the body.
func (f *Fold) Write(b []byte) {
	f.sum.Write(b)
	f.size += int64(len(b))
	switch f.form {
	case formJSON:
		f.head = append(f.head, b...)
	case formEvents:
		f.events(b)
	default:
		f.head = append(f.head, b...)
		f.sniff()
	}
}

// sniff finds the form of the body. Blank space before it is handed to the
// parser, which makes nothing of it.
func (f *Fold) sniff() {
	const mark = "\xEF\xBB\xBF"
	first := f.size == int64(len(f.head))
	if first && len(f.head) < len(mark) && strings.HasPrefix(mark, string(f.head)) {
		return
	}
	all := f.head
	f.head = nil
	rest := all
	if first {
		rest = bytes.TrimPrefix(rest, []byte(mark))
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	switch {
	case len(rest) > 0 && rest[0] == '{':
		f.form, f.head = formJSON, rest
		return
	case len(rest) > 0:
		f.form = formEvents
	}
	f.events(all)
}

func (f *Fold) events(b []byte) {
	f.stray.write(b)
	if err := f.parser.Write(b, f.event); err != nil {
		f.answer.conflict("event_too_long")
	}
}

func (f *Fold) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	if len(data) > 0 {
		f.frame(data)
	}
}

func (f *Fold) frame(data []byte) {
	var fr frame
	if err := json.Unmarshal(data, &fr); err != nil {
		f.answer.conflict("unreadable_frame")
		return
	}
	f.answer.take(fr, f.out)
}

// End says how the exchange ended and judges the answer. An unterminated last
// event counts if its data is a whole JSON object; a piece of one shows that
// the answer is not whole.
func (f *Fold) End(end httpwire.End) loop.Outcome {
	piece := f.finish()
	if end == httpwire.EndJournal {
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	}
	a := &f.answer
	if a.err != nil && !a.ran() {
		return a.err.beforeOutput()
	}
	framed := end == httpwire.EndClean || f.form == formJSON && f.whole
	if piece || !framed || !a.whole() {
		return httpwire.Uncertain(end, f.missing(end))
	}
	return f.completion()
}

// finish reads what no blank line or line end terminated, and reports whether
// a piece of a frame is left.
func (f *Fold) finish() (piece bool) {
	switch f.form {
	case formJSON:
		var fr frame
		if json.Unmarshal(f.head, &fr) == nil {
			f.whole = true
			f.answer.take(fr, f.out)
		}
	case formEvents:
		if e, ok := f.parser.Tail(); ok {
			var fr frame
			if json.Unmarshal(bytes.TrimSpace(e.Data), &fr) != nil {
				return true
			}
			f.answer.take(fr, f.out)
		}
		return f.bareError()
	}
	return false
}

// bareError reads the lines that are none of server-sent events as one JSON
// object. If they are none, they are a piece of one, or of nothing we know.
func (f *Fold) bareError() (piece bool) {
	text := f.stray.text()
	if len(text) == 0 {
		return false
	}
	var fr frame
	if json.Unmarshal(text, &fr) != nil {
		return true
	}
	if empty(fr.Error) {
		f.answer.conflict("stray_lines")
		return false
	}
	f.answer.take(frame{Error: fr.Error}, f.out)
	return false
}

func (f *Fold) missing(end httpwire.End) string {
	what := "the last frame has no finish reason"
	switch {
	case f.size == 0:
		what = "the body is empty"
	case f.form == formJSON:
		what = "the JSON body is not whole, or is no response"
	case f.answer.whole():
		what = "a finish reason came, but nothing shows that it was the last"
	case !f.answer.ran():
		what = "the body holds no answer of this protocol"
	}
	detail := fmt.Sprintf("%s: end %s after %d bytes", what, end, f.size)
	if f.answer.err != nil {
		detail += ", error " + f.answer.err.code
	}
	return detail
}

func (f *Fold) completion() loop.Completion {
	a := &f.answer
	finish, veto := a.judge()
	return loop.Completion{
		FinishReason:   a.native(),
		Finish:         finish,
		Text:           string(a.text),
		ToolCalls:      a.toolCalls(finish == event.FinishStop || finish == event.FinishToolCalls),
		Veto:           veto,
		Usage:          a.usage,
		ResponseDigest: base64.RawURLEncoding.EncodeToString(f.sum.Sum(nil)),
		ResponseBytes:  f.size,
	}
}

// strays gathers the lines of a stream that server-sent events pass over in
// silence because they know no such field.
type strays struct {
	line  []byte // the line that has not ended, while it may be a stray
	known bool   // it has a field's name, or is a comment
	lines []byte // the stray lines that ended
	begun bool   // the first line ended
}

// knownFields are the field names of server-sent events.
var knownFields = []string{"data", "event", "id", "retry"}

const maxStrays = 1 << 20

func (s *strays) write(b []byte) {
	for _, c := range b {
		switch {
		case c == '\r' || c == '\n':
			s.end()
		case s.known:
		case c == ':' && s.field():
			s.known = true
		case len(s.lines)+len(s.line) < maxStrays:
			s.line = append(s.line, c)
		}
	}
}

// field reports whether what stands before the colon is a field's name; none
// before it makes a comment.
func (s *strays) field() bool {
	name := string(s.line)
	if !s.begun {
		name = strings.TrimPrefix(name, "\xEF\xBB\xBF")
	}
	return name == "" || slices.Contains(knownFields, name)
}

func (s *strays) end() {
	if len(s.line) > 0 && !s.known && !s.field() {
		s.lines = append(append(s.lines, s.line...), '\n')
	}
	s.line, s.known, s.begun = s.line[:0], false, true
}

// text is every stray line, the unterminated last one included.
func (s *strays) text() []byte {
	all := s.lines
	if !s.known {
		all = append(slices.Clip(all), s.line...)
	}
	return bytes.TrimSpace(all)
}
