package anthropic

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// fault is an error object that the server sent.
type fault struct {
	code string // its type, short, never empty
}

// statuses are the HTTP statuses that the error types stand for: in a stream
// the type is all there is.
var statuses = map[string]int{
	"invalid_request_error": 400,
	"authentication_error":  401,
	"billing_error":         402,
	"permission_error":      403,
	"not_found_error":       404,
	"conflict_error":        409,
	"request_too_large":     413,
	"rate_limit_error":      429,
	"api_error":             500,
	"timeout_error":         504,
	"overloaded_error":      529,
}

func readFault(v jsontext.Value) *fault {
	var e struct {
		Type jsontext.Value `json:"type"`
	}
	var kind string
	if json.Unmarshal(v, &e) == nil && e.Type.Kind() == '"' && json.Unmarshal(e.Type, &kind) == nil {
		kind = httpwire.Code(kind)
	}
	if kind == "" {
		kind = "provider_error"
	}
	return &fault{code: kind}
}

// refusal reads the body of an answer that is not 2xx; empty if it is not an
// error of this protocol (a proxy's page, for example).
func refusal(body []byte) httpwire.Refusal {
	var m wholeMessage
	if json.Unmarshal(body, &m) != nil || empty(m.Error) {
		return httpwire.Refusal{}
	}
	return httpwire.Refusal{Code: readFault(m.Error).code}
}

// beforeOutput judges an error that came instead of an answer.
func (e *fault) beforeOutput() loop.Outcome {
	status, known := statuses[e.code]
	switch {
	case !known:
		return loop.Failure{Dispatch: event.DispatchRan, Code: e.code, NextAction: "read the provider's message in the operation's saved frames"}
	case httpwire.StatusVerdict(status, false) == httpwire.VerdictRejected:
		return loop.Failure{
			Dispatch: event.DispatchRejected, Code: e.code,
			NextAction: "read the provider's message in the operation's saved frames, and correct the request or the settings",
		}
	case status == 504:
		return loop.Uncertain{Reason: event.UnknownTimeout, Detail: "error instead of an answer: " + e.code}
	}
	return loop.Uncertain{Reason: event.UnknownTransport, Detail: "error instead of an answer: " + e.code}
}
