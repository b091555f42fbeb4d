package bailing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

const (
	operationSchema = "bailing.model-operation.v1"
	responseSchema  = "bailing.provider-response.v1"
)

// operation is the hub's view of an operation: the receipt, once it is final.
// What it says of billing is not read, but for the reference cost.
type operation struct {
	Schema      string         `json:"schema"`
	OperationID string         `json:"operation_id"`
	ServiceID   string         `json:"service_id"`
	State       string         `json:"state"`
	ResultState string         `json:"result_state"`
	Dispatch    string         `json:"dispatch"`
	NextAction  string         `json:"next_action"`
	Fault       *hubFault      `json:"error"`
	Response    *response      `json:"response"`
	Expired     bool           `json:"response_expired"`
	Usage       jsontext.Value `json:"usage"`
	Cost        jsontext.Value `json:"reference_cost_usd"`
}

// hubFault is the error of an operation, without the prose.
type hubFault struct {
	Code         string         `json:"code"`
	HTTPStatus   int            `json:"http_status"`
	ProviderCode jsontext.Value `json:"provider_code"`
}

// header is what each piece of one provider answer repeats.
type header struct {
	Schema      string `json:"schema"`
	Format      string `json:"format"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
}

// response is the provider's whole answer. The hub decoded it: bytes that were
// no UTF-8 are U+FFFD already.
type response struct {
	header `json:",inline"`
	Body   *string `json:"body"`
}

func (h header) check() error {
	types := map[string]string{"sse": "text/event-stream", "json": "application/json"}
	switch want, known := types[h.Format]; {
	case h.Schema != responseSchema:
		return errors.New("provider response: another schema")
	case !known || h.ContentType != want:
		return errors.New("provider response: format and content type do not agree")
	case h.Status < 200 || h.Status > 599:
		return errors.New("provider response: the status is none")
	}
	return nil
}

// original is what an answer must be of, and how to read it.
type original struct {
	operationID, serviceID string
	profile                chat.Profile
	budget                 int64
	maxBytes               int64
}

// read takes a view apart, strictly; an error says what is wrong with it.
func (w original) read(data []byte) (operation, error) {
	var o operation
	if err := json.Unmarshal(data, &o); err != nil {
		return operation{}, errors.New("the operation is not readable")
	}
	if o.Schema != operationSchema {
		return operation{}, errors.New("the operation has another schema")
	}
	if o.OperationID != w.operationID || o.ServiceID != w.serviceID {
		return operation{}, errors.New("the operation is another one's")
	}
	for _, f := range []struct {
		name, value string
		known       []string
	}{
		{"state", o.State, []string{"admitted", "dispatch_committed", "completed", "unknown", "cancelled", "failed"}},
		{"result_state", o.ResultState, []string{"pending", "complete", "unknown", "cancelled", "failed"}},
		{"dispatch", o.Dispatch, []string{dispatchNone, dispatchCompleted, dispatchUnknown, dispatchRejected}},
		{"next_action", o.NextAction, []string{"none", "inspect_original", "contact_operator"}},
	} {
		if !slices.Contains(f.known, f.value) {
			return operation{}, fmt.Errorf("the operation's %s is not known", f.name)
		}
	}
	if o.Response == nil {
		return o, nil
	}
	if err := o.Response.check(); err != nil {
		return operation{}, err
	}
	if o.Response.Body == nil || int64(len(*o.Response.Body)) > w.maxBytes {
		return operation{}, errors.New("provider response: no body, or one beyond MaxAnswerBytes")
	}
	return o, nil
}

// Words of dispatch: whether the request went on to the provider.
const (
	dispatchNone      = "not_dispatched"
	dispatchCompleted = "completed"
	dispatchUnknown   = "unknown"
	dispatchRejected  = "rejected"
)

// standing is what a view proves.
//
//	state               result     dispatch            standing
//	admitted,           pending    not_dispatched,     pending
//	dispatch_committed             unknown
//	completed           complete   completed           complete with a response; expired with
//	                                                   response_expired instead of one
//	unknown             unknown    unknown             unknown: the hub lost the provider's answer
//	failed              failed     rejected            rejected: the provider refused it
//	cancelled           cancelled  not_dispatched      cancelled: nothing ever left the hub
//	cancelled           cancelled  completed, unknown  withheld: it ran or may have run, and the
//	                                                   hub keeps what came late to itself
//	anything else                                      contradictory
type standing int

const (
	contradictory standing = iota
	pending
	complete
	expired
	unknown
	rejected
	cancelled
	withheld
)

func (s standing) String() string {
	return [...]string{"contradictory", "pending", "complete", "expired", "unknown", "rejected", "cancelled", "withheld"}[s]
}

func (o operation) standing() standing {
	type view struct {
		state, result, dispatch string
		response, expired       bool
	}
	switch (view{o.State, o.ResultState, o.Dispatch, o.Response != nil, o.Expired}) {
	case view{"admitted", "pending", dispatchNone, false, false},
		view{"admitted", "pending", dispatchUnknown, false, false},
		view{"dispatch_committed", "pending", dispatchNone, false, false},
		view{"dispatch_committed", "pending", dispatchUnknown, false, false}:
		return pending
	case view{"completed", "complete", dispatchCompleted, true, false}:
		return complete
	case view{"completed", "complete", dispatchCompleted, false, true}:
		return expired
	case view{"unknown", "unknown", dispatchUnknown, false, false}:
		return unknown
	case view{"failed", "failed", dispatchRejected, false, false}:
		return rejected
	case view{"cancelled", "cancelled", dispatchNone, false, false}:
		return cancelled
	case view{"cancelled", "cancelled", dispatchCompleted, false, false},
		view{"cancelled", "cancelled", dispatchUnknown, false, false}:
		return withheld
	}
	return contradictory
}

// outcome is what the receipt makes of the operation; inner has read the
// response's body, and counts only if the standing is complete.
func (o operation) outcome(inner *chat.Fold) loop.Outcome {
	switch s := o.standing(); s {
	case complete:
		return o.completed(inner.End(httpwire.EndClean))
	case rejected, cancelled:
		return o.failure(s)
	case unknown:
		return loop.Uncertain{Reason: event.UnknownTransport, Detail: "the hub does not know what became of it: " + o.code()}
	case withheld:
		return loop.Uncertain{Reason: event.UnknownCancelled, Detail: "cancelled at the hub after it may have run; a late result is withheld"}
	default:
		return loop.Uncertain{Reason: event.UnknownNoTerminal, Detail: "the hub's receipt is " + s.String()}
	}
}

// completed judges an answer that the hub saved whole. What the provider's own
// protocol leaves open stays open: a receipt is no terminal frame of it.
func (o operation) completed(inner loop.Outcome) loop.Outcome {
	status := o.Response.Status
	if status/100 != 2 {
		f := loop.Failure{
			Dispatch: event.DispatchRan, Code: "provider_http_" + strconv.Itoa(status), HTTPStatus: status,
			NextAction: "read the provider's message in the operation's saved frames",
		}
		if said, ok := inner.(loop.Failure); ok {
			f.Code = said.Code
		}
		return f
	}
	switch r := inner.(type) {
	case loop.Completion:
		r.Usage = o.usage(r.Usage)
		return r
	case loop.Failure:
		r.HTTPStatus = status
		return r
	case loop.Uncertain:
		r.Detail = "the hub saved the provider's answer, which is not whole: " + r.Detail
		return r
	}
	return inner
}

func (o operation) failure(s standing) loop.Failure {
	if s == cancelled {
		return loop.Failure{
			Dispatch: event.DispatchNotDispatched, Code: "cancelled",
			NextAction: "it was cancelled at the hub before anything was sent on; send the input again if it is still wanted",
		}
	}
	f := loop.Failure{Dispatch: event.DispatchRejected, Code: o.code(), NextAction: "the provider refused the request"}
	if o.Fault != nil {
		if n := o.Fault.HTTPStatus; n >= 100 && n <= 599 {
			f.HTTPStatus = n
		}
		if code := httpwire.Code(text(o.Fault.ProviderCode)); code != "" {
			f.NextAction += " (" + code + ")"
		}
	}
	f.NextAction += ": correct the request or the settings, or ask who runs the hub"
	return f
}

func (o operation) code() string {
	if o.Fault != nil {
		if code := httpwire.Code(o.Fault.Code); code != "" {
			return code
		}
	}
	return "no_code"
}

// usage is what the provider said it used, else what the hub counted; the cost
// is the hub's reference cost where it has one. Without tokens there is none:
// a cost alone would pass for an answer of no length.
func (o operation) usage(inner *event.Usage) *event.Usage {
	u := inner
	if u == nil {
		var counted struct {
			Input  *int64 `json:"inputTokens"`
			Output *int64 `json:"outputTokens"`
		}
		if json.Unmarshal(o.Usage, &counted) != nil || counted.Input == nil || counted.Output == nil || min(*counted.Input, *counted.Output) < 0 {
			return nil
		}
		u = &event.Usage{Input: *counted.Input, Output: *counted.Output}
	}
	if cost, ok := dollars(o.Cost); ok {
		with := *u
		with.Cost = cost
		return &with
	}
	return u
}

// dollars reads an amount, a number or a decimal in a string.
func dollars(v jsontext.Value) (float64, bool) {
	s := string(v)
	if v.Kind() == '"' {
		s = text(v)
	}
	amount, err := strconv.ParseFloat(s, 64)
	return amount, err == nil && amount >= 0 && amount <= 1e12
}

// text is the string in v, "" for anything else.
func text(v jsontext.Value) string {
	var s string
	if len(v) == 0 || v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
