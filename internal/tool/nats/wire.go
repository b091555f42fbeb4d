package nats

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	natsgo "github.com/nats-io/nats.go"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// The headers of the wire.
const (
	HeaderInvocation = "Loop-Invocation-Id" // the idempotency key, on everything that is sent
	HeaderPending    = "Loop-Pending"       // "true": not a reply yet
)

const (
	headerStatus       = "Status" // the server's own
	statusNobody       = "503"
	headerServiceError = "Nats-Service-Error" // of NATS micro services

	suffixInspect = ".inspect"
	suffixCancel  = ".cancel"
)

// maxName bounds a tool's name: 128 characters of any script.
const maxName = 512

// Subject is where calls of a tool are sent.
func Subject(prefix, tool string) (string, error) {
	switch {
	case tool == "" || len(tool) > maxName:
		return "", fmt.Errorf("a name of %d bytes; it must have 1 to %d", len(tool), maxName)
	case plain(tool):
		return prefix + ".tool." + tool, nil
	}
	return prefix + ".tool.~" + base64.RawURLEncoding.EncodeToString([]byte(tool)), nil
}

func plain(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// key names a call: all of an inspection and of a cancellation.
type key struct {
	Version      int    `json:"version"`
	SessionID    string `json:"session_id"`
	InvocationID string `json:"invocation_id"`
}

func encodeKey(req loop.ToolRequest) []byte {
	b, err := json.Marshal(key{1, req.SessionID, req.InvocationID}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("nats: a key is always JSON: " + err.Error())
	}
	return b
}

// encodeCall keeps the bytes of the arguments as they are: no encoder touches
// them.
func encodeCall(req loop.ToolRequest) ([]byte, error) {
	arguments := jsontext.Value(req.Arguments)
	if !arguments.IsValid() || arguments.Kind() != '{' {
		return nil, errors.New("its arguments are not one JSON object")
	}
	b, err := json.Marshal(struct {
		key        `json:",inline"`
		ToolCallID string `json:"tool_call_id"`
		Tool       string `json:"tool"`
	}{key{1, req.SessionID, req.InvocationID}, req.ToolCallID, req.Tool})
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"arguments":`...)
	b = append(b, req.Arguments...)
	return append(b, '}'), nil
}

// answer reads what came on the reply subject; final is false for a sign of
// life.
func (t *Tools) answer(tool string, m *natsgo.Msg) (out loop.ToolOutcome, final bool) {
	switch {
	case len(m.Data) == 0 && m.Header.Get(headerStatus) == statusNobody:
		subject, _ := Subject(t.cfg.Prefix, tool) // it was made before
		return notRun(tool, fmt.Errorf("no process serves it; start one that subscribes to %s", subject)), true
	case m.Header.Get(HeaderPending) == "true":
		return out, false
	case isPubAck(m.Data):
		t.cfg.Logger.Error("a stream captures the calls of tools; its receipts are no replies; take the subject out of the stream",
			"tool", tool, "receipt", string(m.Data))
		return out, false
	}
	return t.outcome(tool, m), true
}

// outcome reads a reply.
func (t *Tools) outcome(tool string, m *natsgo.Msg) loop.ToolOutcome {
	if text := m.Header.Get(headerServiceError); text != "" {
		if len(m.Data) > 0 {
			text += ": " + string(m.Data)
		}
		return t.bounded(tool, strings.ToValidUTF8(text, "\uFFFD"), true)
	}
	if !utf8.Valid(m.Data) {
		return unreadable(tool, "it is not UTF-8")
	}
	var reply map[string]jsontext.Value
	err := json.Unmarshal(m.Data, &reply)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return unreadable(tool, "it repeats a name")
	}
	result, isResult := reply["result"]
	failure, isFailure := reply["error"]
	delete(reply, "version")
	if err != nil || len(reply) != 1 || isResult == isFailure {
		return t.bounded(tool, string(m.Data), false)
	}
	if isFailure {
		return t.bounded(tool, text(failure), true)
	}
	return t.bounded(tool, text(result), false)
}

// inspection reads the answer to a look-up.
func (t *Tools) inspection(tool string, m *natsgo.Msg) loop.ToolInspection {
	var reply struct {
		Version  int            `json:"version"`
		Observed event.Observed `json:"observed"`
		Result   jsontext.Value `json:"result"`
		Error    jsontext.Value `json:"error"`
	}
	wrong := loop.ToolInspection{Observed: event.ObservedError}
	if m.Header.Get(headerServiceError) != "" || json.Unmarshal(m.Data, &reply) != nil {
		return wrong
	}
	switch reply.Observed {
	case event.ObservedPending, event.ObservedMissing, event.ObservedUnsupported, event.ObservedExpired:
		return loop.ToolInspection{Observed: reply.Observed}
	case event.ObservedComplete:
		if (reply.Result == nil) == (reply.Error == nil) {
			return wrong
		}
		if reply.Error != nil {
			return loop.ToolInspection{Observed: reply.Observed, Outcome: t.bounded(tool, text(reply.Error), true)}
		}
		return loop.ToolInspection{Observed: reply.Observed, Outcome: t.bounded(tool, text(reply.Result), false)}
	}
	return wrong
}

// bounded holds a result to its limit. One that is too large is a failure that
// says that the tool did run.
func (t *Tools) bounded(tool, result string, failed bool) loop.ToolOutcome {
	if len(result) > t.cfg.MaxResult {
		return unreadable(tool, fmt.Sprintf("it has %d bytes, at most %d are allowed; ask for less, or raise the limit", len(result), t.cfg.MaxResult))
	}
	return loop.ToolOutcome{Result: result, Failed: failed}
}

func unreadable(tool, why string) loop.ToolOutcome {
	return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s ran, and what it did stands, but its result cannot be used: %s", tool, why)}
}

// text is a JSON string's text, and any other value as it is.
func text(v jsontext.Value) string {
	var s string
	if v.Kind() == '"' && json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// isPubAck recognises the receipt that a stream sends for what it captures.
func isPubAck(b []byte) bool {
	var ack struct {
		Stream    string `json:"stream"`
		Seq       uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Domain    string `json:"domain"`
		Value     string `json:"val"`
		Batch     string `json:"batch"`
		Count     int    `json:"count"`
	}
	return json.Unmarshal(b, &ack, json.RejectUnknownMembers(true)) == nil && ack.Stream != "" && ack.Seq > 0
}
