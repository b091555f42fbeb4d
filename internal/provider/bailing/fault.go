package bailing

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

const (
	errorSchema = "bailing.usage-error.v1"

	codeNotFound = "USAGE_OPERATION_NOT_FOUND"
	codeConflict = "USAGE_IDEMPOTENCY_CONFLICT"
)

// usageError is the hub's refusal, without the prose.
type usageError struct {
	Schema   string         `json:"schema"`
	Error    jsontext.Value `json:"error"`
	Feedback struct {
		Code       string         `json:"code"`
		Dispatch   string         `json:"dispatch"`
		NextAction string         `json:"next_action"`
		ResetAt    jsontext.Value `json:"resetAt"` // ms since 1970
	} `json:"feedback"`
}

// readError reads the body of an answer that is not 2xx; false if it is not
// the hub's (a proxy's page, for example).
func readError(body []byte) (usageError, bool) {
	var e usageError
	if json.Unmarshal(body, &e) != nil || e.Schema != errorSchema {
		return usageError{}, false
	}
	return e, true
}

func (e usageError) code() string {
	for _, s := range []string{e.Feedback.Code, text(e.Error)} {
		if code := httpwire.Code(s); code != "" {
			return code
		}
	}
	return "usage_error"
}

// refused judges an exchange that gave no stream. What the hub says of the
// dispatch is decisive, with one bound: of a 5xx only an explicit
// not_dispatched proves anything.
//
//	no byte left                        not_dispatched
//	the hub says not_dispatched         not_dispatched
//	the hub says rejected, below 500    rejected
//	the id holds another request        rejected: this one went nowhere
//	the hub says anything else          uncertain
//	no word of the hub                  by the status, as any server's
func refused(res httpwire.Result) loop.Outcome {
	e, ok := readError(res.ErrorBody)
	if !ok || !res.Sent || res.End == httpwire.EndJournal {
		return res.Outcome(httpwire.Refusal{})
	}
	f := loop.Failure{Code: e.code(), HTTPStatus: res.Status, NextAction: e.nextAction()}
	switch {
	case e.Feedback.Dispatch == dispatchNone:
		f.Dispatch = event.DispatchNotDispatched
	case res.Status < 500 && (e.Feedback.Dispatch == dispatchRejected || f.Code == codeConflict):
		f.Dispatch = event.DispatchRejected
	default:
		return loop.Uncertain{
			Reason: event.UnknownTransport, Detail: fmt.Sprintf("http %d, code %s: the hub does not say that nothing ran", res.Status, f.Code),
		}
	}
	return f
}

// nextActions are the hub's words for what to do, for a person here. None of
// these refusals left an original behind.
var nextActions = map[string]string{
	"wait_for_capacity": "the hub is busy: wait, then send the input again",
	"wait_for_reset":    "the allowance is used up: wait for its reset, then send the input again",
	"upgrade_required":  "the plan does not cover this: upgrade it at the hub",
	"upgrade":           "the plan does not cover this: upgrade it at the hub",
	"authenticate":      "check the usage key",
	"reauthenticate":    "the usage key is not valid any more: renew it",
	"contact_operator":  "ask who runs the hub",
	"retry_original":    "send the input again",
	"inspect_original":  "look the operation up at the hub",
	"resolve_error":     "correct the request or the settings",
	"select_model":      "choose another service: see ServiceID",
}

func (e usageError) nextAction() string {
	if e.code() == codeConflict {
		return "the hub holds another request under this operation id: look it up there"
	}
	next, known := nextActions[e.Feedback.NextAction]
	if !known {
		next = "correct the request or the settings"
	}
	var ms int64
	if json.Unmarshal(e.Feedback.ResetAt, &ms) == nil && ms > 0 && ms < 1e14 {
		next += " (reset at " + time.UnixMilli(ms).UTC().Format(time.RFC3339) + ")"
	}
	return next + "; the hub's message is in the operation's saved frames"
}
