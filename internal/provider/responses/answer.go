package responses

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
)

// answer is what the events so far add up to: the items are those of the last
// response.
type answer struct {
	seen      bool  // an event of this protocol came
	last      int64 // highest sequence number
	gap       bool  // a resumed stream left events out
	id        string
	items     map[int]*item // by output index
	reasoning []byte
	status    string // of the terminal event, "" = none came
	reason    string // why it is incomplete
	usage     *event.Usage
	failure   *fault // the error in the terminal event
	err       *fault // the first error event
	raw       []string
	conflicts []string // evidence that contradicts itself

	past  map[string]bool // ids of the responses before this one
	gone  map[string]bool // ids of their items
	spend *event.Usage    // theirs
}

func newAnswer() answer {
	return answer{last: -1, items: map[int]*item{}, past: map[string]bool{}, gone: map[string]bool{}}
}

func (a *answer) ended() bool { return a.status != "" }

// unborn reports whether an error came instead of a response.
func (a *answer) unborn() bool {
	return a.err != nil && a.id == "" && len(a.items) == 0 && !a.ended()
}

func (a *answer) conflict(what string) {
	if !slices.Contains(a.conflicts, what) {
		a.conflicts = append(a.conflicts, what)
	}
}

func (a *answer) fail(e *fault) {
	a.seen = true
	a.raw = append(a.raw, "error")
	if a.err == nil {
		a.err = e
	}
}

// repeats reports whether a resumed stream brings an event that was seen.
func (a *answer) repeats(sequence *int64, resumed bool) bool {
	if sequence == nil {
		return false
	}
	n := *sequence
	if resumed && n <= a.last {
		return true
	}
	if resumed && n > a.last+1 {
		a.gap = true
	}
	a.last = max(a.last, n)
	return false
}

// response reads the response in an event.
func (a *answer) response(e eventObject) (responseObject, bool) {
	var r responseObject
	if json.Unmarshal(e.Response, &r) != nil {
		a.conflict("unreadable_event")
		return r, false
	}
	a.seen = true
	return r, true
}

// mine reports whether an event of response id speaks of this answer: a late
// one of a response that steering ended does not.
func (a *answer) mine(id string) bool {
	switch {
	case a.past[id]:
		return false
	case a.id == "":
		a.id = id
	case id != "" && id != a.id:
		a.conflict("other_response")
		return false
	}
	return true
}

// succeed begins the response that took steering up.
func (a *answer) succeed(id string, out Sink) {
	for _, index := range slices.Sorted(maps.Keys(a.items)) {
		it := a.items[index]
		it.announce(out)
		for _, name := range it.ids {
			a.gone[name] = true
		}
	}
	a.past[a.id] = true
	a.spend = a.spent()
	a.id = id
	a.items = map[int]*item{}
	a.status, a.reason, a.usage, a.failure = "", "", nil, nil
}

// end takes a terminal event. Where no item came before, the response in it is
// all there is; where the response is completed, it must say the same.
func (a *answer) end(status string, r responseObject, out Sink) {
	reason := r.Incomplete.Reason
	if a.ended() {
		if status != a.status || reason != a.reason {
			a.conflict("two_ends")
		}
		return
	}
	if r.Status != "" && r.Status != status || status == statusCompleted && reason != "" {
		a.conflict("status_differs")
	}
	switch {
	case len(a.items) == 0:
		a.adopt(r, out)
	case status == statusCompleted && len(r.Output) > 0:
		said := newAnswer()
		said.adopt(r, silent{})
		if said.text() != a.text() || !slices.Equal(said.toolCalls(), a.toolCalls()) {
			a.conflict("output_differs")
		}
	}
	a.status, a.reason = status, reason
	a.raw = append(a.raw, a.native())
	a.usage, a.failure = readUsage(r.Usage), readFault(r.Error)
}

// adopt takes the items of a response that came whole.
func (a *answer) adopt(r responseObject, out Sink) {
	for index, raw := range r.Output {
		a.item(index, raw, true, out)
	}
}

// text is the text of all messages, in order.
func (a *answer) text() string {
	var b strings.Builder
	for _, index := range slices.Sorted(maps.Keys(a.items)) {
		a.items[index].write(&b, partText)
	}
	return b.String()
}

func (a *answer) refusal() string {
	var b strings.Builder
	for _, index := range slices.Sorted(maps.Keys(a.items)) {
		a.items[index].write(&b, partRefusal)
	}
	return b.String()
}

// toolCalls are the calls in the order of their index. An item's own status
// says whether it was closed.
func (a *answer) toolCalls() []event.ToolCall {
	var calls []event.ToolCall
	for _, index := range slices.Sorted(maps.Keys(a.items)) {
		if it := a.items[index]; it.kind == kindCall {
			calls = append(calls, event.ToolCall{
				ID: it.callID, Name: it.name, Arguments: string(it.arguments),
				Closed: it.status == statusCompleted && it.callID != "" && it.name != "",
			})
		}
	}
	return calls
}

// spent is what all responses of the answer used.
func (a *answer) spent() *event.Usage {
	if a.usage == nil || a.spend == nil {
		if a.usage == nil {
			return a.spend
		}
		return a.usage
	}
	return &event.Usage{
		Input: a.spend.Input + a.usage.Input, Output: a.spend.Output + a.usage.Output,
		Reasoning: a.spend.Reasoning + a.usage.Reasoning,
	}
}

// native is how the last response ended, in the server's words.
func (a *answer) native() string {
	if a.reason != "" {
		return a.status + ":" + a.reason
	}
	return a.status
}
