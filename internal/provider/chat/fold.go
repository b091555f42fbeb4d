package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
)

// Fold reads the body of one answer and judges it. It needs no HTTP: write
// the bytes, then End. A stream of events and one JSON object (what a server
// without streaming sends, and most errors) are told apart by their first
// character.
//
// The outcome does not depend on how the bytes were cut. What it becomes:
//
//	error object, nothing put out       Failure: rejected if it names a fault of the request, else ran;
//	                                    Uncertain if it passes on an upstream's status
//	error object after output           Completion error if [DONE] came, else Uncertain
//	no terminal frame                   Uncertain
//	an unreadable frame, two reasons,   Completion unrecognised
//	  output after the reason, …
//	a reason not on the whitelist       Completion unrecognised
//	stop, length and a refusal          Completion refusal
//	length                              Completion output_budget; where length may mean the context
//	                                    (LengthMayBeContext): output_budget if usage reached the budget
//	                                    that was asked for, context_window if it did not or none was
//	                                    asked for, unrecognised without usage
//	tool_calls                          Completion tool_calls; Veto says why the calls may not run
//
// The terminal frame is [DONE]; of a JSON body, its closing brace; with
// DoneOptional, a finish reason and a framed end. A call is Closed if the
// terminal frame came, the reason is stop or tool_calls, and it has an id and
// a name: whether its arguments are one JSON object is for the loop to say.
type Fold struct {
	profile Profile
	budget  int64
	out     Sink

	form   form
	head   []byte // form unknown: what may be a byte order mark; form JSON: the body
	parser sse.Parser
	sum    hash.Hash
	size   int64
	done   bool // the terminal frame came
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

// NewFold begins an answer. budget is the output budget that the request
// asked for, in tokens, 0 = none. out may be nil.
func NewFold(profile Profile, budget int64, out Sink) *Fold {
	if out == nil {
		out = silent{}
	}
	return &Fold{
		profile: profile, budget: budget, out: out, sum: sha256.New(),
		answer: answer{calls: map[int]*call{}},
	}
}

type silent struct{}

func (silent) Delta(string, string) {}
func (silent) Message(string)       {}

// Done reports whether the protocol's terminal frame came.
func (f *Fold) Done() bool { return f.done }

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
// parser, which makes nothing of it: it may be long (servers send empty lines to
// keep a connection alive) and is not kept.
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
	if err := f.parser.Write(b, f.event); err != nil && !f.done {
		f.answer.conflict("event_too_long")
	}
}

func (f *Fold) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	switch {
	case len(data) == 0:
	case string(data) == "[DONE]":
		f.done = true
	default:
		f.frame(data, e.Name == "error")
	}
}

// frame folds one JSON object. isError says that the whole of it is an error
// unless it holds one.
func (f *Fold) frame(data []byte, isError bool) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		f.answer.conflict("unreadable_frame")
		return
	}
	f.answer.take(c, isError, f.done, f.profile, f.out)
}

// End says how the exchange ended and judges the answer. An unterminated last
// event counts if it is [DONE] or a whole JSON object.
func (f *Fold) End(end httpwire.End) loop.Outcome {
	f.finish(end)
	if end == httpwire.EndJournal {
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	}
	a := &f.answer
	if a.err != nil && !a.ran() {
		return a.err.beforeOutput()
	}
	if a.err != nil && a.err.executed() {
		return a.err.failure(event.DispatchRan)
	}
	if !f.done {
		return httpwire.Uncertain(end, f.missing(end))
	}
	return f.completion()
}

func (f *Fold) finish(end httpwire.End) {
	switch f.form {
	case formJSON:
		f.whole()
	case formEvents:
		if e, ok := f.parser.Tail(); ok && f.readable(e) {
			f.event(e)
		}
		if f.profile.DoneOptional && end == httpwire.EndClean && len(f.answer.reasons) > 0 {
			f.done = true
		}
	}
}

// readable reports whether an unterminated event is whole nevertheless.
func (f *Fold) readable(e sse.Event) bool {
	data := bytes.TrimSpace(e.Data)
	if string(data) == "[DONE]" {
		return true
	}
	var c chunk
	return len(data) > 0 && data[0] == '{' && json.Unmarshal(data, &c) == nil
}

// whole reads a JSON body. Without its closing brace it stays unread: there
// was no terminal frame.
func (f *Fold) whole() {
	var c chunk
	if err := json.Unmarshal(f.head, &c); err != nil {
		return
	}
	f.answer.take(c, false, false, f.profile, f.out)
	f.done = len(c.Choices) > 0
}

func (f *Fold) missing(end httpwire.End) string {
	what := "no [DONE] came"
	switch {
	case f.size == 0:
		what = "the body is empty"
	case f.form == formJSON:
		what = "the JSON body is not whole, or is no completion"
	case !f.answer.seen:
		what = "the body holds no chunk of this protocol"
	}
	detail := fmt.Sprintf("%s: end %s after %d bytes", what, end, f.size)
	if f.answer.err != nil {
		detail += ", error " + f.answer.err.code
	}
	return detail
}

func (f *Fold) completion() loop.Completion {
	finish, veto := f.judge()
	return loop.Completion{
		FinishReason:   f.answer.native(),
		Finish:         finish,
		Text:           string(f.answer.text),
		ToolCalls:      f.answer.toolCalls(finish == event.FinishStop || finish == event.FinishToolCalls),
		Veto:           veto,
		Usage:          f.answer.usage,
		ResponseDigest: base64.RawURLEncoding.EncodeToString(f.sum.Sum(nil)),
		ResponseBytes:  f.size,
	}
}
