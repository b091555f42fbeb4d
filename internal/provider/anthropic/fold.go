package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
)

// Fold reads the body of one answer and judges it. It needs no HTTP: write
// the bytes, then End. A stream of events and one JSON object (what a server
// without streaming sends, and most errors) are told apart by their first
// character. What an event is, its JSON type says, never the name beside it.
//
// The outcome does not depend on how the bytes were cut. What it becomes:
//
//	error event, nothing put out        by its type: Failure rejected (a fault of the request),
//	                                    Uncertain (overloaded, timeout, …), Failure ran (unknown)
//	error event after output            Uncertain; Completion error if message_stop came too
//	no message_stop                     Uncertain
//	no message_start, an unreadable     Completion unrecognised
//	  frame, two reasons, a delta of
//	  a block that is not open, …
//	a reason not on the whitelist       Completion unrecognised
//	end_turn, stop_sequence             Completion stop
//	max_tokens                          Completion output_budget
//	model_context_window_exceeded       Completion context_window
//	pause_turn, compaction              Completion paused
//	refusal                             Completion refusal
//	tool_use, with a call               Completion tool_calls
//
// A call is Closed if its content_block_stop came. Whether its arguments are
// one JSON object is for the loop to say.
type Fold struct {
	out Sink

	form   form
	head   []byte // form unknown: what may be a byte order mark; form JSON: the body
	parser sse.Parser
	sum    hash.Hash
	size   int64
	done   bool // message_stop came, or the JSON body is whole
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
	return &Fold{out: out, sum: sha256.New(), answer: answer{blocks: map[int]*block{}}}
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
	if err := f.parser.Write(b, f.event); err != nil && !f.done {
		f.answer.conflict("event_too_long")
	}
}

func (f *Fold) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return
	}
	var fr frame
	if err := json.Unmarshal(data, &fr); err != nil {
		f.answer.conflict("unreadable_frame")
		return
	}
	f.done = f.answer.take(fr, f.done, f.out) || f.done
}

// End says how the exchange ended and judges the answer. An unterminated last
// event counts if its data is a whole JSON object.
func (f *Fold) End(end httpwire.End) loop.Outcome {
	f.finish()
	if end == httpwire.EndJournal {
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	}
	a := &f.answer
	if a.err != nil && !a.ran() {
		return a.err.beforeOutput()
	}
	if !f.done {
		return httpwire.Uncertain(end, f.missing(end))
	}
	return f.completion()
}

func (f *Fold) finish() {
	switch f.form {
	case formJSON:
		f.whole()
	case formEvents:
		if e, ok := f.parser.Tail(); ok && readable(e) {
			f.event(e)
		}
	}
}

// readable reports whether an unterminated event is whole nevertheless.
func readable(e sse.Event) bool {
	data := bytes.TrimSpace(e.Data)
	var fr frame
	return len(data) > 0 && data[0] == '{' && json.Unmarshal(data, &fr) == nil
}

// whole reads a JSON body. Without its closing brace it stays unread: there
// was no terminal frame.
func (f *Fold) whole() {
	var m wholeMessage
	if err := json.Unmarshal(f.head, &m); err != nil {
		return
	}
	f.done = f.answer.whole(m, f.out)
}

func (f *Fold) missing(end httpwire.End) string {
	what := "no message_stop came"
	switch {
	case f.size == 0:
		what = "the body is empty"
	case f.form == formJSON:
		what = "the JSON body is not whole, or is no message"
	case !f.answer.started:
		what = "the body holds no message of this protocol"
	}
	detail := fmt.Sprintf("%s: end %s after %d bytes", what, end, f.size)
	if f.answer.err != nil {
		detail += ", error " + f.answer.err.code
	}
	return detail
}

func (f *Fold) completion() loop.Completion {
	a := &f.answer
	return loop.Completion{
		FinishReason:   a.native(),
		Finish:         a.judge(),
		Text:           a.text(),
		ToolCalls:      a.toolCalls(),
		Usage:          a.usage.read(),
		ResponseDigest: base64.RawURLEncoding.EncodeToString(f.sum.Sum(nil)),
		ResponseBytes:  f.size,
	}
}
