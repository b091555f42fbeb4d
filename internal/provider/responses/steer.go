package responses

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// operation is what became of the steering of one running operation. A
// steering input goes
//
//	sent ──► accepted ──► applied      the successor was created: the commit point
//	  │         ├───────► waiting      the response stopped for its tools' results
//	  │         └───────► failed       the server could not make a successor
//	  ├──────► refused                 before it was accepted: no effect
//	  └──────► lost                    no answer came: nobody knows
//
// Steering names the response that it corrects. A response that ended can be
// corrected no more; the next input waits for its successor, if there is to be
// one.
type operation struct {
	socket *socket
	send   sync.Mutex // keeps the order of submission

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when target or over do
	target   string        // the running response, "" = none
	last     string        // the same, or the last one that ran
	over     bool          // nothing is awaited any more
	steers   []*steer      // in the order of submission
	required []requiredInput
	stopped  string // the response that waits for the required inputs
}

type steer struct {
	inputID string // "" = not ours
	target  string // the response that it corrects
	id      string // the server's, once it took it
	state   steerState
	answer  chan loop.SteerAnswer // gets one
}

type steerState int

const (
	steerSent steerState = iota
	steerAccepted
	steerWaiting
	steerApplied
	steerRefused
	steerFailed
	steerLost
)

func newOperation(s *socket) *operation {
	return &operation{socket: s, changed: make(chan struct{})}
}

// Steer hands an input to the running response of an operation, and says what
// the server answered. Nothing is sent, and the input refused, while there is
// nothing to steer; everything else that is no definite answer is unknown.
func (a *Adapter) Steer(ctx context.Context, operationID string, in event.Input) loop.SteerAnswer {
	op := a.live.operation(operationID)
	if op == nil || !a.cfg.Steering || len(in.Attachments) > 0 {
		return loop.SteerRefused
	}
	s, ok := op.submit(ctx, in)
	if !ok {
		return loop.SteerRefused
	}
	select {
	case answer := <-s.answer:
		return answer
	case <-ctx.Done():
		return loop.SteerUnknown
	}
}

// submit sends a steering input; false = nothing was sent.
func (o *operation) submit(ctx context.Context, in event.Input) (*steer, bool) {
	o.send.Lock()
	defer o.send.Unlock()
	s := o.begin(ctx, in)
	if s == nil {
		return nil, false
	}
	frame, err := json.Marshal(struct { // these fields and no others
		Type     string `json:"type"`
		Previous string `json:"previous_response_id"`
		Input    string `json:"input"`
	}{"response.steer", s.target, in.Text})
	if err == nil {
		// the connection ends with a write that does not: not for this ctx
		err = o.socket.write(context.WithoutCancel(ctx), frame)
	}
	if err != nil {
		o.change(func() { s.become(steerLost, loop.SteerUnknown) })
	}
	return s, true
}

// begin enters an input once there is a response to steer; nil = there is none
// any more, or ctx ended.
func (o *operation) begin(ctx context.Context, in event.Input) *steer {
	for {
		o.mu.Lock()
		if !o.over && o.target != "" && ctx.Err() == nil {
			s := &steer{inputID: in.InputID, target: o.target, answer: make(chan loop.SteerAnswer, 1)}
			o.steers = append(o.steers, s)
			o.mu.Unlock()
			return s
		}
		over, changed := o.over, o.changed
		o.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// become moves a steering input on, and answers who waits for it.
func (s *steer) become(state steerState, answer loop.SteerAnswer) {
	if s.state == steerSent {
		s.answer <- answer
	}
	s.state = state
}

// change is a step that others wait for.
func (o *operation) change(step func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	step()
	close(o.changed)
	o.changed = make(chan struct{})
}

// created takes a response's beginning: the inputs that it applies, in the
// order of submission.
func (o *operation) created(id, previous string) (applied []string) {
	o.change(func() {
		o.target, o.last = id, id
		for _, s := range o.steers {
			if previous == "" || s.target != previous || s.state != steerAccepted && s.state != steerWaiting {
				continue
			}
			s.state = steerApplied
			if s.inputID != "" {
				applied = append(applied, s.inputID)
			}
		}
	})
	return applied
}

// ended takes a terminal event.
func (o *operation) ended() { o.change(func() { o.target = "" }) }

// waits reports whether more may come after the response ended: while it is
// open what became of steering, and after one that was steered, unless that
// failed.
func (o *operation) waits(steered bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	open := slices.ContainsFunc(o.steers, func(s *steer) bool {
		return s.state == steerSent || s.state == steerLost || s.state == steerAccepted
	})
	failed := slices.ContainsFunc(o.steers, func(s *steer) bool { return s.state == steerFailed && s.target == o.last })
	return open || steered && !failed
}

// accepted, failed and pending take what the server says to steering. It names
// no submission: its answers come in the order of submission.
func (o *operation) accepted(said steerObject) {
	o.change(func() {
		s := o.first(said, steerSent)
		if s == nil {
			s = &steer{target: said.Previous}
			s.state = steerAccepted
			o.steers = append(o.steers, s)
		}
		s.id = said.ID
		s.become(steerAccepted, loop.SteerAccepted)
	})
}

func (o *operation) failed(said steerObject) {
	o.change(func() {
		if said.ID == "" {
			if s := o.first(said, steerSent); s != nil {
				s.become(steerRefused, loop.SteerRefused)
			}
			return
		}
		if s := o.byID(said.ID); s != nil {
			s.state = steerFailed
		} else if s := o.first(said, steerSent); s != nil {
			// it was accepted, so the server says, and then failed
			s.become(steerFailed, loop.SteerUnknown)
		}
	})
}

func (o *operation) pending(said steerObject, required []requiredInput) {
	o.change(func() {
		s := o.byID(said.ID)
		if s == nil {
			s = o.first(said, steerAccepted)
		}
		if s != nil && s.state == steerAccepted {
			s.state = steerWaiting
		}
		o.stopped = said.Previous
		for _, r := range required {
			if !slices.Contains(o.required, r) {
				o.required = append(o.required, r)
			}
		}
	})
}

func (o *operation) first(said steerObject, state steerState) *steer {
	for _, s := range o.steers {
		if s.state == state && (said.Previous == "" || s.target == said.Previous) {
			return s
		}
	}
	return nil
}

func (o *operation) byID(id string) *steer {
	for _, s := range o.steers {
		if id != "" && s.id == id {
			return s
		}
	}
	return nil
}

// close ends the wait of everybody: what was sent and not answered is lost.
func (o *operation) close() {
	o.change(func() {
		o.over, o.target = true, ""
		for _, s := range o.steers {
			if s.state == steerSent {
				s.become(steerLost, loop.SteerUnknown)
			}
		}
	})
}

// waiting are the inputs that go on with the stopped response.
func (o *operation) waiting() (stopped string, required []requiredInput, steers []*steer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.steers {
		if s.state == steerWaiting {
			steers = append(steers, s)
		}
	}
	return o.stopped, o.required, steers
}
