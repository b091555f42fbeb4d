package responses

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// fault is an error object that a server sent.
type fault struct {
	code   string // short, never empty
	kind   string // the error's type, "" = none
	status int    // an HTTP status that it names, 0 = none
}

// requestFaults are codes and types that tell of a request that no model ever
// saw.
var requestFaults = map[string]bool{
	"invalid_request_error": true, "invalid_request": true, "invalid_prompt": true, "context_length_exceeded": true,
	"authentication_error": true, "invalid_api_key": true, "permission_error": true,
	"not_found_error": true, "model_not_found": true, "insufficient_quota": true, "rate_limit_exceeded": true,
	"previous_response_not_found": true, "websocket_connection_limit_reached": true,
	"websocket_queue_limit_reached": true, "websocket_stream_limit_reached": true,
}

// beforeOutput judges an error that came instead of an answer.
func (e *fault) beforeOutput() loop.Outcome {
	switch {
	case e.status == 0 && (requestFaults[e.code] || requestFaults[e.kind]):
		return e.failure(event.DispatchRejected)
	case e.status == 0:
		return e.failure(event.DispatchRan)
	case httpwire.StatusVerdict(e.status, false) == httpwire.VerdictRejected:
		return e.failure(event.DispatchRejected)
	}
	return loop.Uncertain{Reason: event.UnknownTransport, Detail: "error instead of an answer: " + e.code}
}

func (e *fault) failure(dispatch string) loop.Failure {
	next := "read the provider's message in the operation's saved frames"
	if dispatch == event.DispatchRejected {
		next += ", and correct the request or the settings"
	}
	return loop.Failure{Dispatch: dispatch, Code: e.code, HTTPStatus: e.status, NextAction: next}
}

// fault is the error of an event: nested, or the event itself.
func (e eventObject) fault() *fault {
	f := readFault(e.Error)
	if f == nil {
		f = newFault(e.Code, nil)
	}
	if n, err := strconv.Atoi(string(e.Status)); err == nil && n >= 400 && n <= 599 {
		f.status = n
	}
	return f
}

// readFault reads an error object; nil if there is none.
func readFault(v jsontext.Value) *fault {
	var o struct {
		Code jsontext.Value `json:"code"`
		Type jsontext.Value `json:"type"`
	}
	switch {
	case empty(v):
		return nil
	case json.Unmarshal(v, &o) != nil:
		return newFault(nil, nil)
	}
	return newFault(o.Code, o.Type)
}

func newFault(code, kind jsontext.Value) *fault {
	e := &fault{kind: httpwire.Code(lenientString(kind)), code: httpwire.Code(lenientString(code))}
	if n, err := strconv.Atoi(string(code)); err == nil {
		e.code = "error_" + strconv.Itoa(n)
		if n >= 400 && n <= 599 {
			e.status = n
		}
	}
	if e.code == "" {
		e.code = e.kind
	}
	if e.code == "" {
		e.code = "provider_error"
	}
	return e
}

// refusal reads the body of an answer that is not 2xx; what is not an error of
// this protocol (a proxy's page, for example) tells nothing.
func refusal(body []byte) httpwire.Refusal {
	var e eventObject
	if json.Unmarshal(body, &e) != nil || empty(e.Error) && empty(e.Code) {
		return httpwire.Refusal{}
	}
	return httpwire.Refusal{Code: e.fault().code}
}
