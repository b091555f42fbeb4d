package ollama

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Fold reads the body of one answer and judges it. It needs no HTTP: write
// the bytes, then End.
//
// The outcome does not depend on how the bytes were cut. What it becomes:
//
//	error line, nothing put out         Failure ran
//	error line after output             Uncertain; Completion error if a line said done too
//	no line that says done              Uncertain
//	an unreadable line, a line after    Completion unrecognised
//	  the one that says done
//	a reason not on the whitelist       Completion unrecognised
//	stop without calls                  Completion stop
//	stop with calls                     Completion tool_calls
//	length                              Completion output_budget if eval_count reached the budget that
//	                                    was asked for, context_window if it did not or none was asked
//	                                    for, unrecognised without eval_count
//
// The server reads calls whole before it sends them: a call is Closed if it
// has a name and the answer ended with stop. Whether its arguments are one JSON
// object is for the loop to say.
type Fold struct {
	budget int64
	out    Sink

	line    []byte // of the line that has not ended yet
	tooLong bool
	sum     hash.Hash
	size    int64
	answer  answer
}

// Sink is told of a content block as it grows and when it ends ([loop.Stream]
// is one).
type Sink interface {
	Delta(kind, text string)
	Message(text string)
}

// maxLine bounds one line, in bytes.
const maxLine = 64 << 20

// NewFold begins an answer. budget is the output budget that the request
// asked for, in tokens, 0 = none. out may be nil.
func NewFold(budget int64, out Sink) *Fold {
	if out == nil {
		out = silent{}
	}
	return &Fold{budget: budget, out: out, sum: sha256.New()}
}

type silent struct{}

func (silent) Delta(string, string) {}
func (silent) Message(string)       {}

// Done reports whether a line said done.
func (f *Fold) Done() bool { return f.answer.done }

// Write takes the next bytes of the body.
func (f *Fold) Write(b []byte) {
	f.sum.Write(b)
	f.size += int64(len(b))
	for {
		head, rest, ended := bytes.Cut(b, []byte{'\n'})
		f.grow(head)
		if !ended {
			return
		}
		f.take(f.line)
		f.line = f.line[:0]
		b = rest
	}
}

func (f *Fold) grow(b []byte) {
	if f.tooLong || len(f.line)+len(b) > maxLine {
		f.tooLong, f.line = true, nil
		f.answer.conflict("line_too_long")
		return
	}
	f.line = append(f.line, b...)
}

// take reads one line; blank ones are none.
func (f *Fold) take(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return
	}
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		f.answer.conflict("unreadable_line")
		return
	}
	f.answer.take(l, f.out)
}

// End says how the exchange ended and judges the answer. An unterminated last
// line counts if it is a whole JSON object.
func (f *Fold) End(end httpwire.End) loop.Outcome {
	if !f.tooLong {
		f.last()
	}
	if end == httpwire.EndJournal {
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	}
	a := &f.answer
	switch {
	case a.failed != "" && !a.ran():
		return loop.Failure{Dispatch: event.DispatchRan, Code: a.failed, NextAction: "read the server's message in the operation's saved frames"}
	case !a.done:
		return httpwire.Uncertain(end, f.missing(end))
	}
	return f.completion()
}

func (f *Fold) last() {
	var l line
	if b := bytes.TrimSpace(f.line); len(b) > 0 && json.Unmarshal(b, &l) == nil {
		f.answer.take(l, f.out)
	}
}

func (f *Fold) missing(end httpwire.End) string {
	what := "no line said done"
	switch {
	case f.size == 0:
		what = "the body is empty"
	case !f.answer.ran():
		what = "the body holds no line of this protocol"
	}
	detail := fmt.Sprintf("%s: end %s after %d bytes", what, end, f.size)
	if f.answer.failed != "" {
		detail += ", error " + f.answer.failed
	}
	return detail
}

func (f *Fold) completion() loop.Completion {
	a := &f.answer
	finish := a.judge(f.budget)
	return loop.Completion{
		FinishReason:   a.reason,
		Finish:         finish,
		Text:           string(a.text),
		ToolCalls:      a.toolCalls(finish == event.FinishToolCalls),
		Usage:          a.usage,
		ResponseDigest: base64.RawURLEncoding.EncodeToString(f.sum.Sum(nil)),
		ResponseBytes:  f.size,
	}
}
