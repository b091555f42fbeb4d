package responses

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

// Fold reads the events of one answer and judges it. It needs no connection:
// Write the bytes of an HTTP body, or each Message of a WebSocket, then End. A
// stream of events and one JSON object (what a look-up gives, and most errors)
// are told apart by their first character.
//
// The outcome does not depend on how the bytes were cut. What it becomes:
//
//	error before any response            Failure: rejected if it names a fault of the request, else ran;
//	                                     Uncertain if its status proves nothing
//	no terminal event, an error or not   Uncertain
//	events missing from a resumed stream Uncertain: a look-up has the whole
//	failed, cancelled                    Failure: ran
//	an unreadable event, two ends,       Completion unrecognised
//	  texts that differ, an item of a
//	  kind that we cannot answer, …
//	completed after an error event       Completion error
//	completed, calls, all completed      Completion tool_calls; Veto says why they may not run
//	completed, a refusal                 Completion refusal
//	completed                            Completion stop
//	incomplete: max_output_tokens        Completion output_budget; where that may mean the context
//	                                     (LengthMayBeContext): output_budget if usage reached the budget
//	                                     that was asked for, context_window if it did not or none was
//	                                     asked for, unrecognised without usage
//	incomplete: content_filter, steered  Completion of that finish
//	incomplete: anything else            Completion unrecognised
//
// A successor that steering brought (steer.go) goes on with the same answer:
// its items begin anew, and the terminal event that counts is its own.
type Fold struct {
	profile Profile
	budget  int64
	out     Sink
	steers  *operation // nil: no successor is expected

	form    form
	head    []byte // form unknown: what may be a byte order mark; form JSON: the body
	parser  sse.Parser
	sum     hash.Hash
	size    int64
	resumed bool // events that were seen come again
	answer  answer
}

// Sink is told of a content block as it grows and when it ends, and of
// steering that a successor took up ([loop.Stream] is one).
type Sink interface {
	Delta(kind, text string)
	Message(text string)
	Applied(inputIDs []string)
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
	return &Fold{profile: profile, budget: budget, out: out, sum: sha256.New(), answer: newAnswer()}
}

type silent struct{}

func (silent) Delta(string, string) {}
func (silent) Message(string)       {}
func (silent) Applied([]string)     {}

// Done reports whether nothing more is to come: the terminal event of the last
// response was there, and no steering waits for its successor.
func (f *Fold) Done() bool {
	if f.answer.unborn() {
		return true
	}
	return f.answer.ended() && (f.steers == nil || !f.steers.waits(f.answer.reason == reasonSteered))
}

// Settling reports whether the response ended, and steering is why it is not
// Done.
func (f *Fold) Settling() bool { return f.answer.ended() && !f.Done() }

// Count takes bytes that belong to the exchange but not to the answer.
func (f *Fold) Count(b []byte) {
	f.sum.Write(b)
	f.size += int64(len(b))
}

// Write takes the next bytes of a body.
func (f *Fold) Write(b []byte) {
	f.Count(b)
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

// Message takes one message of a WebSocket, as it was saved.
func (f *Fold) Message(b []byte) {
	f.Count(b)
	f.frame(b, false)
}

// Resume begins to read a body that repeats or goes on with the events of the
// one before.
func (f *Fold) Resume() {
	if f.form == formJSON {
		f.whole()
	} else {
		f.tail()
	}
	f.form, f.head, f.parser, f.resumed = formUnknown, nil, sse.Parser{}, true
}

// sniff finds the form of the body. Blank space before it is handed to the
// parser, which makes nothing of it, and is not kept.
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
	if err := f.parser.Write(b, f.event); err != nil && !f.answer.ended() {
		f.answer.conflict("event_too_long")
	}
}

func (f *Fold) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	if len(data) > 0 && string(data) != "[DONE]" { // some servers end with it; it proves nothing here
		f.frame(data, e.Name == "error")
	}
}

// frame folds one JSON object. isError says that the whole of it is an error
// unless it holds one.
func (f *Fold) frame(data []byte, isError bool) {
	var e eventObject
	if err := json.Unmarshal(data, &e); err != nil {
		f.answer.conflict("unreadable_event")
		return
	}
	if f.answer.repeats(e.Sequence, f.resumed) {
		return
	}
	f.take(e, isError)
}

// End says how the exchange ended and judges the answer. An unterminated last
// event counts if it is a whole JSON object.
func (f *Fold) End(end httpwire.End) loop.Outcome {
	switch f.form {
	case formJSON:
		f.whole()
	case formEvents:
		f.tail()
	}
	a := &f.answer
	switch {
	case end == httpwire.EndJournal:
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	case a.unborn():
		return a.err.beforeOutput()
	case !f.Done():
		return httpwire.Uncertain(end, f.missing(end))
	case a.gap:
		return httpwire.Uncertain(httpwire.EndClean, "events are missing from the stream that was read on")
	}
	return f.judge()
}

func (f *Fold) tail() {
	e, ok := f.parser.Tail()
	if !ok {
		return
	}
	var object eventObject
	data := bytes.TrimSpace(e.Data)
	if len(data) > 0 && data[0] == '{' && json.Unmarshal(data, &object) == nil {
		f.event(e)
	}
}

// whole reads a JSON body: a response, or an error. Without its closing brace
// it stays unread: there was no terminal event.
func (f *Fold) whole() {
	var r responseObject
	if err := json.Unmarshal(f.head, &r); err != nil {
		return
	}
	if r.Object != "response" {
		f.frame(f.head, false)
		return
	}
	f.answer.seen = true
	if !f.answer.mine(r.ID) {
		return
	}
	switch r.Status {
	case statusCompleted, statusIncomplete, statusFailed, statusCancelled:
		f.end(r.Status, r)
	}
}

func (f *Fold) missing(end httpwire.End) string {
	what := "no terminal event came"
	switch {
	case f.size == 0:
		what = "nothing came"
	case f.form == formJSON:
		what = "the JSON body is not whole, or no response that ended"
	case !f.answer.seen:
		what = "no event of this protocol came"
	case f.Settling():
		what = "it is open what became of steering after the response ended"
	}
	detail := fmt.Sprintf("%s: end %s after %d bytes", what, end, f.size)
	if f.answer.id != "" {
		detail += ", response " + f.answer.id
	}
	if f.answer.err != nil {
		detail += ", error " + f.answer.err.code
	}
	return detail
}

func (f *Fold) completion(finish event.Finish, veto string) loop.Completion {
	a := &f.answer
	return loop.Completion{
		FinishReason:   a.native(),
		Finish:         finish,
		Text:           a.text(),
		ToolCalls:      a.toolCalls(),
		Veto:           veto,
		Usage:          a.spent(),
		ResponseDigest: base64.RawURLEncoding.EncodeToString(f.sum.Sum(nil)),
		ResponseBytes:  f.size,
	}
}
