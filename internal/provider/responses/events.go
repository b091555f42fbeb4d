package responses

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// eventObject is one event. What only some types of events have is read when
// the type is known.
type eventObject struct {
	Type         string         `json:"type"`
	Sequence     *int64         `json:"sequence_number"`
	OutputIndex  int            `json:"output_index"`
	ContentIndex int            `json:"content_index"`
	ItemID       string         `json:"item_id"`
	Delta        jsontext.Value `json:"delta"`
	Text         jsontext.Value `json:"text"`
	Refusal      jsontext.Value `json:"refusal"`
	Arguments    jsontext.Value `json:"arguments"`
	Item         jsontext.Value `json:"item"`
	Response     jsontext.Value `json:"response"`
	Steer        jsontext.Value `json:"steer"`
	Required     jsontext.Value `json:"required_input"`

	Error  jsontext.Value `json:"error"`
	Status jsontext.Value `json:"status"`
	Code   jsontext.Value `json:"code"` // of an error that is the whole object
}

// responseObject is a response, in its events and as a look-up's answer.
type responseObject struct {
	Object     string         `json:"object"`
	ID         string         `json:"id"`
	Previous   string         `json:"previous_response_id"`
	Status     string         `json:"status"`
	Error      jsontext.Value `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output   []jsontext.Value `json:"output"`
	Usage    jsontext.Value   `json:"usage"`
	Metadata jsontext.Value   `json:"metadata"`
}

// The statuses that end a response, and those before.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"

	reasonSteered = "steered"
)

// take folds one event. Types that are not here change nothing: some are only
// for show, others repeat what a later event says.
func (f *Fold) take(e eventObject, isError bool) {
	a := &f.answer
	switch e.Type {
	case "response.created":
		f.created(e)
	case "response.queued", "response.in_progress":
		if r, ok := a.response(e); ok {
			a.mine(r.ID)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if r, ok := a.response(e); ok && a.mine(r.ID) {
			f.end(e.Type[len("response."):], r)
		}
	case "response.output_item.added", "response.output_item.done",
		"response.output_text.delta", "response.output_text.done",
		"response.refusal.delta", "response.refusal.done",
		"response.reasoning_text.delta", "response.reasoning_summary_text.delta",
		"response.function_call_arguments.delta", "response.function_call_arguments.done":
		a.seen = true
		a.output(e, f.out)
	case "response.steer.accepted", "response.steer.failed", "response.steer.pending":
		a.seen = true
		f.steered(e)
	case "error":
		a.fail(e.fault())
	case "":
		if isError || !empty(e.Error) {
			a.fail(e.fault())
		}
	default:
		if isError {
			a.fail(e.fault())
		}
	}
}

// created is a response's beginning: of the one that was asked for, or of the
// successor that took steering up.
func (f *Fold) created(e eventObject) {
	a := &f.answer
	r, ok := a.response(e)
	if !ok {
		return
	}
	if f.steers != nil && a.id != "" && r.ID != a.id && r.Previous == a.id {
		a.succeed(r.ID, f.out)
	} else if !a.mine(r.ID) {
		return
	}
	if f.steers != nil && !a.ended() {
		if ids := f.steers.created(r.ID, r.Previous); len(ids) > 0 {
			f.out.Applied(ids)
		}
	}
}

// end takes a terminal event.
func (f *Fold) end(status string, r responseObject) {
	f.answer.end(status, r, f.out)
	if f.steers != nil {
		f.steers.ended()
	}
}

// steered takes what a server says to steering.
func (f *Fold) steered(e eventObject) {
	var s steerObject
	if f.steers == nil || json.Unmarshal(e.Steer, &s) != nil {
		f.answer.conflict("unexpected_steering")
		return
	}
	switch e.Type {
	case "response.steer.accepted":
		f.steers.accepted(s)
	case "response.steer.failed":
		f.steers.failed(s)
	case "response.steer.pending":
		var required []requiredInput
		if json.Unmarshal(e.Required, &required) != nil {
			f.answer.conflict("unreadable_event")
			return
		}
		f.steers.pending(s, required)
	}
}

// steerObject names a steering input, by the id that the server gave it.
type steerObject struct {
	ID       string `json:"id"`
	Previous string `json:"previous_response_id"`
}

// requiredInput is what a stopped response waits for.
type requiredInput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
}

// empty reports whether a field is missing, null or "".
func empty(v jsontext.Value) bool {
	return len(v) == 0 || v.Kind() == 'n' || string(v) == `""`
}

// lenientString is the string in v, "" for anything else.
func lenientString(v jsontext.Value) string {
	if len(v) == 0 || v.Kind() != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// readUsage reads a usage object; nil if it does not say how much was put out.
// Nothing but zeros is how some servers leave it out.
func readUsage(v jsontext.Value) *event.Usage {
	if empty(v) || v.Kind() != '{' {
		return nil
	}
	var u struct {
		Input   int64  `json:"input_tokens"`
		Output  *int64 `json:"output_tokens"`
		Details struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if json.Unmarshal(v, &u) != nil || u.Output == nil || min(u.Input, *u.Output, u.Details.Reasoning) < 0 || u.Input+*u.Output == 0 {
		return nil
	}
	return &event.Usage{Input: u.Input, Output: *u.Output, Reasoning: u.Details.Reasoning}
}
