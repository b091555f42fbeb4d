package loop

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
)

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a session with a log in memory and a clock that a test moves: what
// a runner does, one step at a time.
type world struct {
	t     reporter
	state State
	past  *Past
	log   []event.Event
	inbox uint64
	now   time.Time
	ids   int
}

func newWorld(t reporter, config Config) *world {
	config.Service = Service{ID: "test", Revision: "1"}
	return &world{
		t: t, state: New("s", config), past: NewPast(config), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("%026d", w.ids)
}

func (w *world) tick() Tick { return Tick{Now: w.now, IDs: [2]string{w.id(), w.id()}} }

// do decides, stores and folds one command.
func (w *world) do(c Command) error {
	fact, err := Decide(w.state, c)
	if err != nil {
		var rejected *RejectedError
		if !errors.As(err, &rejected) && !errors.Is(err, ErrAcknowledged) {
			w.t.Fatalf("%T: Decide gave an error of another kind: %v", c, err)
		}
		return err
	}
	epoch := w.state.Epoch
	switch fact.Payload.(type) {
	case event.SessionOpened, event.SessionClaimed:
		epoch = w.state.NextEpoch()
	}
	e, err := event.Encode(event.Event{
		ID: w.id(), SessionID: "s", Sequence: w.state.Seq + 1, Epoch: epoch, Time: w.now,
		Prev: w.state.Prev, Cause: fact.Cause, Payload: fact.Payload,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	before := w.state.clone()
	next := Evolve(w.state, e)
	if !reflect.DeepEqual(before, w.state) {
		w.t.Fatalf("folding %s changed the state it was given", e.Type)
	}
	if next.Phase == PhaseBroken {
		w.t.Fatalf("%T made an impossible fact: %s", c, next.Broken)
	}
	w.state = next
	w.past.Fold(e)
	w.log = append(w.log, e)
	return nil
}

// settle does what Next asks for until the world must act.
func (w *world) settle() Plan {
	for range 10_000 {
		t := w.tick()
		plan := Next(w.state, t)
		if plan.Record {
			w.must(w.do(Advance{Tick: t}))
			continue
		}
		if len(plan.Effects) != 1 || !w.inline(plan.Effects[0], t) {
			return plan
		}
	}
	w.t.Fatal("the loop does not come to rest")
	return Plan{}
}

func (w *world) inline(e Effect, t Tick) bool {
	switch e := e.(type) {
	case Carry:
		w.must(w.do(CarryOut{Tick: t, InputID: e.InputID, Input: w.past.Input(e.Target), Target: w.past.Target(e.Target)}))
	case Admit:
		w.must(w.do(AdmitRequest{Tick: t, OperationID: e.OperationID, RequestDigest: w.state.Request(w.past, e.OperationID).Digest()}))
	case Dispatch:
		w.must(w.do(DispatchRequest{Tick: t, OperationID: e.OperationID, RequestDigest: w.state.Request(w.past, e.OperationID).Digest()}))
	case Submit:
		_ = w.submit(e.Body, e.InputID)
	default:
		return false
	}
	return true
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

func (w *world) open() {
	w.must(w.do(Open{}))
	w.must(w.do(ClaimSession{Owner: "a"}))
}

// submit takes an input as the inbox holds it.
func (w *world) submit(body []byte, id string) error {
	w.inbox++
	return w.do(Take{Delivery: event.Delivery{InboxSeq: w.inbox, InputID: id, Data: body}, Prior: w.past.Input(id)})
}

// restart folds the log anew, as the next owner does, and checks that the
// state is the same: it is a function of the events alone.
func (w *world) restart() {
	s, p := New("s", w.state.Config), NewPast(w.state.Config)
	for _, e := range w.log {
		stored, err := event.Decode(e.Stored())
		if err != nil {
			w.t.Fatal(err)
		}
		s = Evolve(s, stored)
		p.Fold(stored)
	}
	if !reflect.DeepEqual(s, w.state) {
		w.t.Fatalf("the state is not a fold of the log:\n got %+v\nwant %+v", s, w.state)
	}
	w.state, w.past = s, p
}

// since renders the events after n, one a line: the type, then the payload
// with its ids shortened.
func (w *world) since(n int) string {
	var b strings.Builder
	for _, e := range w.log[n:] {
		_, body, _ := strings.Cut(string(e.Stored()), `"prev":"`+e.Prev+`"`)
		body = strings.TrimPrefix(body, `,"cause":"`+e.Cause+`"`)
		body = strings.TrimSuffix(strings.TrimPrefix(body, ","), "}")
		fmt.Fprintf(&b, "%s %s\n", e.Type, w.shorten(body))
	}
	return b.String()
}

// shorten writes an id as #n.
func (w *world) shorten(s string) string {
	for i := w.ids; i > 0; i-- {
		s = strings.ReplaceAll(s, fmt.Sprintf("%026d", i), fmt.Sprintf("#%d", i))
	}
	return s
}
