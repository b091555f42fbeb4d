package chat

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
	code     string // short, never empty
	kind     string // the error's type, "" = none
	status   int    // an HTTP status that it names, 0 = none
	upstream bool   // it passes on another server's refusal
}

// requestFaults are codes and types that tell of a request that no model ever
// saw.
var requestFaults = map[string]bool{
	"invalid_request_error": true, "invalid_request": true, "context_length_exceeded": true,
	"authentication_error": true, "invalid_api_key": true, "permission_error": true,
	"permission_denied": true, "not_found_error": true, "model_not_found": true,
	"insufficient_quota": true, "exceed_context_size_error": true,
}

// executed reports whether the error tells of a model that ran, whatever came
// before it.
func (e *fault) executed() bool { return e.code == "tool_use_failed" }

// beforeOutput judges an error that came instead of an answer.
func (e *fault) beforeOutput() loop.Outcome {
	switch {
	case e.executed():
		return e.failure(event.DispatchRan)
	case e.status != 0 && httpwire.StatusVerdict(e.status, true) != httpwire.VerdictRejected:
		return loop.Uncertain{Reason: event.UnknownTransport, Detail: "error instead of an answer: " + e.code}
	case e.status != 0, requestFaults[e.code], requestFaults[e.kind]:
		return e.failure(event.DispatchRejected)
	}
	return e.failure(event.DispatchRan)
}

func (e *fault) failure(dispatch string) loop.Failure {
	next := "read the provider's message in the operation's saved frames"
	if dispatch == event.DispatchRejected {
		next += ", and correct the request or the settings"
	}
	return loop.Failure{Dispatch: dispatch, Code: e.code, NextAction: next}
}

// errorObject is the shape of errors; code may be a number, and metadata is
// what a router adds.
type errorObject struct {
	Code     jsontext.Value `json:"code"`
	Type     jsontext.Value `json:"type"`
	Metadata jsontext.Value `json:"metadata"`
}

// fault is the error of a frame, nil if it holds none. isError says that the
// whole frame is one unless it holds one.
func (c *chunk) fault(isError bool) *fault {
	var e errorObject
	switch {
	case !empty(c.Error) && json.Unmarshal(c.Error, &e) == nil:
		return e.fault()
	case !empty(c.Error), isError, lenientString(c.Object) == "error":
		return errorObject{Code: c.Code, Type: c.Type, Metadata: c.Metadata}.fault()
	}
	return nil
}

// bodyFault reads the body of an answer that is not 2xx; nil if it is not an
// error of this protocol (a proxy's page, for example).
func bodyFault(body []byte) *fault {
	var c chunk
	if json.Unmarshal(body, &c) != nil {
		return nil
	}
	return c.fault(true)
}

func (o errorObject) fault() *fault {
	e := &fault{kind: httpwire.Code(lenientString(o.Type))}
	code := lenientString(o.Code)
	if o.Code.Kind() == '0' {
		code = o.Code.String()
	}
	e.code = httpwire.Code(code)
	if n, err := strconv.Atoi(code); err == nil {
		e.code = "error_" + e.code
		if n >= 400 && n <= 599 {
			e.status = n
		}
	}
	if e.code == "" || e.code == "error_" {
		e.code = e.kind
	}
	if e.code == "" {
		e.code = "provider_error"
	}
	var metadata struct {
		Provider jsontext.Value `json:"provider_name"`
	}
	e.upstream = json.Unmarshal(o.Metadata, &metadata) == nil && !empty(metadata.Provider)
	return e
}
