package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// step is one append as it will be made: what is decided, and what the
// runner's clock and ids would have given. Making it again yields the same
// bytes.
type step struct {
	cmd    loop.Command
	id     string
	stored event.Event // what was encoded when the script was written
}

// config is a manager with one tool.
var config = loop.Config{
	Service: loop.Service{ID: "openai/chat/gpt-large", Revision: "1"},
	Tools:   map[string]loop.Tool{"lookup": {Effect: event.EffectRead, Description: "look a customer's order up"}},
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// session is the fold of one session, as its owner holds it.
type session struct {
	id    string
	state loop.State
	past  *loop.Past
}

func newSession(id string) *session {
	return &session{id: id, state: loop.New(id, config), past: loop.NewPast(config)}
}

// make is what stands before an append: decide, encode, chain.
func (s *session) make(st step) (event.Event, error) {
	fact, err := loop.Decide(s.state, st.cmd)
	if err != nil {
		return event.Event{}, fmt.Errorf("bench: decide %T: %w", st.cmd, err)
	}
	epoch := s.state.Epoch
	switch fact.Payload.(type) {
	case event.SessionOpened, event.SessionClaimed:
		epoch = s.state.NextEpoch()
	}
	return event.Encode(event.Event{
		ID: st.id, SessionID: s.id, Sequence: s.state.Seq + 1, Epoch: epoch, Time: began,
		Prev: s.state.Prev, Cause: fact.Cause, Payload: fact.Payload,
	})
}

// fold is what stands after it.
func (s *session) fold(e event.Event) error {
	s.state = loop.Evolve(s.state, e)
	if s.state.Phase == loop.PhaseBroken {
		return errors.New("bench: " + s.state.Broken)
	}
	s.past.Fold(e)
	return nil
}

// author writes the script of a session: turns of an input, a tool call, a
// correction that arrives while the request runs, and an answer of a few
// paragraphs.
type author struct {
	*session
	steps []step
	ids   int
	inbox uint64
}

// script is a session of the given number of turns, without a server.
func script(id string, turns int) ([]step, error) {
	a := &author{session: newSession(id)}
	if err := a.do(loop.Open{}, loop.ClaimSession{Owner: "bench-1"}); err != nil {
		return nil, err
	}
	for n := range turns {
		if err := a.turn(n); err != nil {
			return nil, err
		}
	}
	return a.steps, nil
}

func (a *author) id() string {
	a.ids++
	return fmt.Sprintf("01KDVDEM00%016d", a.ids)
}

func (a *author) tick() loop.Tick { return loop.Tick{Now: began, IDs: [2]string{a.id(), a.id()}} }

func (a *author) do(commands ...loop.Command) error {
	for _, cmd := range commands {
		st := step{cmd: cmd, id: a.id()}
		e, err := a.make(st)
		if err != nil {
			return err
		}
		if err := a.fold(e); err != nil {
			return err
		}
		st.stored = e
		a.steps = append(a.steps, st)
	}
	return nil
}

func (a *author) turn(n int) error {
	err := a.submit(fmt.Sprintf(`{"version":1,"input_id":"in-%d","kind":"user","text":%q,"sent_at":"2026-01-01T00:00:00Z"}`, n, words(40)), fmt.Sprintf("in-%d", n))
	if err == nil {
		err = a.settle()
	}
	if err == nil {
		err = a.complete(event.FinishToolCalls, "", event.ToolCall{ID: fmt.Sprintf("call_%024d", n), Name: "lookup", Arguments: fmt.Sprintf(`{"order":%d,"fields":["status","carrier"]}`, n), Closed: true})
	}
	if err == nil {
		err = a.returned(`{"status":"shipped","carrier":"post","eta":"2026-01-03","items":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}]}`)
	}
	if err == nil {
		err = a.submit(fmt.Sprintf(`{"version":1,"input_id":"st-%d","kind":"steer","text":"Keep it short, and name the carrier."}`, n), fmt.Sprintf("st-%d", n))
	}
	if err == nil {
		err = a.settle()
	}
	for range 2 { // the first answer meets the correction at its boundary
		if err == nil {
			err = a.complete(event.FinishStop, words(120))
		}
	}
	return err
}

// submit takes an input as the inbox holds it.
func (a *author) submit(body, id string) error {
	a.inbox++
	return a.do(loop.Take{Delivery: event.Delivery{InboxSeq: a.inbox, InputID: id, Data: []byte(body)}, Prior: a.past.Input(id)})
}

func (a *author) complete(finish event.Finish, text string, calls ...event.ToolCall) error {
	op := a.state.Generation.Operation.ID
	if text != "" {
		if err := a.do(loop.Say{OperationID: op, Text: text}); err != nil {
			return err
		}
	}
	err := a.do(loop.EndOperation{OperationID: op, Outcome: loop.Completion{
		FinishReason: string(finish), Finish: finish, Text: text, ToolCalls: calls, ResponseBytes: 4096,
		ResponseDigest: event.Digest([]byte(text)), Usage: &event.Usage{Input: 900, Output: 240, Reasoning: 64},
	}})
	if err != nil {
		return err
	}
	return a.settle()
}

func (a *author) returned(result string) error {
	calls := a.state.Generation.Invocations
	if err := a.do(loop.EndInvocation{InvocationID: calls[len(calls)-1].InvocationID, Outcome: loop.ToolOutcome{Result: result}}); err != nil {
		return err
	}
	return a.settle()
}

// settle records what the loop itself does next, until the world must act.
func (a *author) settle() error {
	for {
		t := a.tick()
		plan := loop.Next(a.state, t)
		var cmd loop.Command
		switch {
		case plan.Record:
			cmd = loop.Advance{Tick: t}
		case len(plan.Effects) == 1:
			switch e := plan.Effects[0].(type) {
			case loop.Admit:
				cmd = loop.AdmitRequest{Tick: t, OperationID: e.OperationID, RequestDigest: a.digest(e.OperationID)}
			case loop.Dispatch:
				cmd = loop.DispatchRequest{Tick: t, OperationID: e.OperationID, RequestDigest: a.digest(e.OperationID)}
			}
		}
		if cmd == nil {
			return nil
		}
		if err := a.do(cmd); err != nil {
			return err
		}
	}
}

func (a *author) digest(operation string) string {
	return a.state.Request(a.past, operation).Digest()
}

// words is n words of running text.
func words(n int) string {
	const sample = "the order left the warehouse on Friday and should reach you within two working days unless the weather in the north holds the carrier up again "
	text := strings.Fields(strings.Repeat(sample, n/20+1))
	return strings.Join(text[:n], " ")
}
