package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// author writes one session as the loop decides it: the world's part is drawn
// at random. Events wait in made until they are asked for.
type author struct {
	random *rand.Rand
	name   string
	state  loop.State
	past   *loop.Past
	made   []event.Event
	turns  int // still to come
	inbox  uint64
	clock  time.Time
}

var authored = loop.Config{
	Service: loop.Service{ID: "openai/chat/gpt-large", Revision: "1"},
	Tools:   map[string]loop.Tool{"lookup": {Effect: event.EffectRead, Description: "look a customer's order up"}},
}

func newAuthor(name string, random *rand.Rand) *author {
	turns := 1
	for turns < 6 && random.IntN(4) == 0 {
		turns++
	}
	return &author{
		random: random, name: name, state: loop.New(name, authored), past: loop.NewPast(authored), turns: turns,
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(86_400)) * time.Second),
	}
}

// ended reports whether the session has no more events.
func (a *author) ended() bool { return a.turns == 0 && len(a.made) == 0 }

// next is the session's next event.
func (a *author) next() (event.Event, error) {
	var err error
	switch {
	case len(a.made) > 0:
	case a.state.Seq == 0:
		err = a.do(loop.Open{}, loop.ClaimSession{Owner: "generated-1"})
	case a.turns > 0:
		a.turns--
		err = a.turn()
	}
	if err != nil {
		return event.Event{}, err
	}
	if len(a.made) == 0 {
		return event.Event{}, errors.New("a turn without events")
	}
	e := a.made[0]
	a.made = a.made[1:]
	return e, nil
}

func (a *author) turn() error {
	if err := a.submit(event.KindUser, a.words(8, 80)); err != nil {
		return err
	}
	if a.random.IntN(3) == 0 {
		if err := a.useTool(); err != nil {
			return err
		}
	}
	switch a.random.IntN(10) {
	case 0: // the request is refused
		return a.end(loop.Failure{Dispatch: event.DispatchRejected, Code: "rate_limited", HTTPStatus: 429})
	case 1: // the answer is cut off, and goes on
		if err := a.answer(event.FinishOutputBudget, a.words(200, 400)); err != nil {
			return err
		}
	case 2: // a correction arrives while the request runs
		if err := a.submit(event.KindSteer, a.words(4, 12)); err != nil {
			return err
		}
		if err := a.answer(event.FinishStop, a.words(20, 60)); err != nil {
			return err
		}
	}
	return a.answer(event.FinishStop, a.words(20, 200))
}

func (a *author) useTool() error {
	call := event.ToolCall{ID: "call_" + a.id(), Name: "lookup", Arguments: fmt.Sprintf(`{"order":%d,"fields":["status","carrier"]}`, a.random.IntN(1e6)), Closed: true}
	if err := a.answer(event.FinishToolCalls, "", call); err != nil {
		return err
	}
	calls := a.state.Generation.Invocations
	result := loop.ToolOutcome{Result: `{"status":"shipped","carrier":"post","eta":"2026-01-03","items":[{"sku":"A-1","n":2}]}`}
	if err := a.do(loop.EndInvocation{InvocationID: calls[len(calls)-1].InvocationID, Outcome: result}); err != nil {
		return err
	}
	return a.settle()
}

func (a *author) submit(kind event.Kind, text string) error {
	a.inbox++
	id := fmt.Sprintf("in-%d", a.inbox)
	body := fmt.Appendf(nil, `{"version":1,"input_id":%q,"kind":%q,"text":%q,"sent_at":"2026-01-01T00:00:00Z"}`, id, kind, text)
	if err := a.do(loop.Take{Delivery: event.Delivery{InboxSeq: a.inbox, InputID: id, Data: body}, Prior: a.past.Input(id)}); err != nil {
		return err
	}
	return a.settle()
}

func (a *author) answer(finish event.Finish, text string, calls ...event.ToolCall) error {
	if text != "" {
		if err := a.do(loop.Say{OperationID: a.state.Generation.Operation.ID, Text: text}); err != nil {
			return err
		}
	}
	return a.end(loop.Completion{
		FinishReason: string(finish), Finish: finish, Text: text, ToolCalls: calls, ResponseBytes: int64(4 * len(text)),
		ResponseDigest: event.Digest([]byte(text)), Usage: &event.Usage{Input: 900, Output: int64(len(text) / 4), Reasoning: 64},
	})
}

func (a *author) end(outcome loop.Outcome) error {
	if err := a.do(loop.EndOperation{OperationID: a.state.Generation.Operation.ID, Outcome: outcome}); err != nil {
		return err
	}
	return a.settle()
}

// settle records what the loop itself does next, until the world must act.
func (a *author) settle() error {
	for {
		t := loop.Tick{Now: a.clock, IDs: [2]string{a.id(), a.id()}}
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

// do decides, encodes and folds.
func (a *author) do(commands ...loop.Command) error {
	for _, cmd := range commands {
		fact, err := loop.Decide(a.state, cmd)
		if err != nil {
			return fmt.Errorf("session %s: decide %T: %w", a.name, cmd, err)
		}
		epoch := a.state.Epoch
		switch fact.Payload.(type) {
		case event.SessionOpened, event.SessionClaimed:
			epoch = a.state.NextEpoch()
		}
		a.clock = a.clock.Add(time.Duration(1+a.random.IntN(2000)) * time.Millisecond)
		e, err := event.Encode(event.Event{
			ID: a.id(), SessionID: a.name, Sequence: a.state.Seq + 1, Epoch: epoch, Time: a.clock,
			Prev: a.state.Prev, Cause: fact.Cause, Payload: fact.Payload,
		})
		if err != nil {
			return err
		}
		a.state = loop.Evolve(a.state, e)
		if a.state.Phase == loop.PhaseBroken {
			return errors.New("session " + a.name + ": " + a.state.Broken)
		}
		a.past.Fold(e)
		a.made = append(a.made, e)
	}
	return nil
}

// id is a ULID of the session's own: no two sessions share one.
func (a *author) id() string {
	const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	b := []byte("01KDVDEM00")
	for range 16 {
		b = append(b, letters[a.random.IntN(len(letters))])
	}
	return string(b)
}

// words is from least to most words of running text.
func (a *author) words(least, most int) string {
	const sample = "the order left the warehouse on Friday and should reach you within two working days unless the weather in the north holds the carrier up again"
	text := strings.Fields(sample)
	var b strings.Builder
	for n := range least + a.random.IntN(most-least+1) {
		if n > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text[a.random.IntN(len(text))])
	}
	return b.String()
}
