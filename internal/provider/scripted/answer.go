package scripted

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// answer gathers the frames of one response into its completion: the same
// code for a stream that is read live and for the saved answer of a look-up.
type answer struct {
	text  strings.Builder // since the last applied boundary
	block strings.Builder // the open text block
	calls []event.ToolCall
	hash  hash.Hash
	bytes int64
}

func newAnswer() *answer { return &answer{hash: sha256.New()} }

// wire is the body line of a frame, nil for what does not travel: gates,
// steering and the end of the connection.
func wire(f Frame, usage *event.Usage) []byte {
	var line any
	switch f := f.(type) {
	case Text:
		line = map[string]string{"text": f.Text}
	case Reasoning:
		line = map[string]string{"reasoning": f.Text}
	case BlockEnd:
		line = map[string]string{"block_end": f.Kind}
	case ToolCall:
		line = map[string]any{"tool_call": map[string]string{"id": f.ID, "name": f.Name, "arguments": f.Arguments}}
	case Applied:
		line = map[string]any{"applied": f.InputIDs}
	case Finish:
		body := map[string]any{"finish": f.Reason}
		if usage != nil {
			body["usage"] = usage
		}
		line = body
	case Error:
		line = map[string]any{"error": map[string]any{"status": f.Status, "code": f.Code}}
	default:
		return nil
	}
	b, err := json.Marshal(line, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("scripted: a frame is always JSON: " + err.Error())
	}
	return append(b, '\n')
}

// saw counts body bytes.
func (a *answer) saw(b []byte) {
	a.hash.Write(b)
	a.bytes += int64(len(b))
}

// add takes one content frame up.
func (a *answer) add(f Frame) {
	switch f := f.(type) {
	case Text:
		a.text.WriteString(f.Text)
		a.block.WriteString(f.Text)
	case BlockEnd:
		a.block.Reset()
	case Applied:
		a.text.Reset()
		a.block.Reset()
	case ToolCall:
		a.calls = append(a.calls, event.ToolCall{
			ID: f.ID, Name: f.Name, Arguments: f.Arguments,
			Closed: jsontext.Value(f.Arguments).IsValid(jsontext.AllowDuplicateNames(true)),
		})
	}
}

// completion is the answer after its terminal frame.
func (a *answer) completion(reason string, usage *event.Usage, budget int64) loop.Completion {
	c := loop.Completion{
		FinishReason: reason, Finish: finish(reason), Text: a.text.String(), ToolCalls: a.calls, Usage: usage,
		ResponseDigest: base64.RawURLEncoding.EncodeToString(a.hash.Sum(nil)), ResponseBytes: a.bytes,
	}
	if c.Finish == event.FinishToolCalls && usage != nil && budget > 0 && usage.Output >= budget {
		c.Veto = "the usage reached the output budget"
	}
	return c
}

// saved is what the provider kept of an entry, however much of it arrived.
func saved(e *Entry, budget int64) loop.Inspection {
	a := newAnswer()
	var failure *loop.Failure
	for _, f := range e.Frames {
		b := wire(f, e.Usage)
		a.saw(b)
		a.add(f)
		switch f := f.(type) {
		case Finish:
			c := a.completion(f.Reason, e.Usage, budget)
			return loop.Inspection{Observed: event.ObservedComplete, Completion: &c}
		case Error:
			failure = failed(f, event.DispatchRan)
		}
	}
	if failure != nil {
		return loop.Inspection{Observed: event.ObservedComplete, Failure: failure}
	}
	c := a.completion("", e.Usage, budget)
	return loop.Inspection{Observed: event.ObservedComplete, Completion: &c}
}

func failed(f Error, dispatch string) *loop.Failure {
	return &loop.Failure{
		Dispatch: dispatch, Code: f.Code, HTTPStatus: f.Status,
		NextAction: "read the code; when its cause is gone, send a new input",
	}
}
