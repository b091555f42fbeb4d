package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// do carries a step of the host out; the error says why it cannot.
func (p *play) do(act Act) error {
	switch a := act.(type) {
	case Submit:
		return p.submit(a)
	case Await:
		return p.await(a)
	case Open:
		p.stage.Open(a.Gate)
		return nil
	case Crash:
		return p.crash(a)
	case Start:
		return p.startStep(a)
	case Claim:
		o, err := p.find(a.Owner)
		if err != nil {
			return err
		}
		return p.claimStep(o)
	case Hold:
		p.mu.Lock()
		p.holds = append(p.holds, a)
		p.mu.Unlock()
		return nil
	case Inspect:
		return p.inspect(a)
	case Advance:
		return p.clock.advance(a.By, p.settle)
	case Rebuild:
		return p.rebuild()
	}
	panic(fmt.Sprintf("scenario: no such step: %T", act))
}

// submit publishes an input, or several with numbered ids, each with the log's
// ack before the next.
func (p *play) submit(s Submit) error {
	if s.Repeat == 0 {
		return p.publish(s, "")
	}
	for i := range s.Repeat {
		if err := p.publish(s, fmt.Sprintf("-%d", i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) publish(s Submit, suffix string) error {
	id, body, err := p.body(s, suffix)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	seq, err := p.log.SubmitPlain(p.ctx, p.session, id, body)
	if err != nil {
		return fmt.Errorf("submit %s: %w", id, err)
	}
	p.sent = append(p.sent, submitted{identity{id, event.InputDigest(body)}, seq})
	return nil
}

// body is the input as it is sent: the fields of the file in their order.
func (p *play) body(s Submit, suffix string) (id string, body []byte, err error) {
	fields := s.Fields
	if s.field("version") == nil {
		fields = append([]Field{{Key: "version", Value: event.Version}}, fields...)
	}
	for i, f := range fields {
		value, err := p.names.Resolve(f.Value)
		if err != nil {
			return "", nil, err
		}
		if f.Key == "input_id" {
			id = fmt.Sprint(value) + suffix
			value = id
		}
		encoded, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return "", nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = jsontext.AppendQuote(body, f.Key); err != nil {
			return "", nil, err
		}
		body = append(append(body, ':'), encoded...)
	}
	return id, append(append([]byte{'{'}, body...), '}'), nil
}

// await waits for events behind those that were awaited before.
func (p *play) await(a Await) error {
	deadline := time.NewTimer(a.Timeout)
	defer deadline.Stop()
	w := waiting{await: a, from: p.cursor, seen: p.cursor, found: make([]int, len(a.All))}
	for {
		log, _, err := p.tail.events()
		if err != nil {
			return err
		}
		if at, ok := w.look(log, p.names); ok {
			p.cursor = at + 1
			return nil
		}
		if p.rough && p.unsettled() == "" && p.tail.length() == w.seen {
			return errors.New("await: it will not come")
		}
		if err := p.pause(deadline.C); err != nil {
			return w.missed(p, log, err)
		}
	}
}

// waiting is an await on its way.
type waiting struct {
	await Await
	from  int   // index of the first event that counts
	seen  int   // index of the next event to look at
	found []int // for each of await.All: its event's index + 1
}

// look takes new events up; at is the index of the last one that was awaited.
func (w *waiting) look(log []seen, names *Names) (at int, ok bool) {
	for i := w.seen; i < len(log); i++ {
		w.seen = i + 1
		if w.takes(log[i], i, names) {
			return i, true
		}
	}
	return 0, false
}

// takes reports whether the event is the last that was waited for.
func (w *waiting) takes(e seen, i int, names *Names) bool {
	for _, pattern := range w.await.Any {
		if names.Match(pattern.Fields, e.fields) {
			return true
		}
	}
	for j, pattern := range w.await.All {
		if w.found[j] == 0 && names.Match(pattern.Fields, e.fields) {
			w.found[j] = i + 1
			break
		}
	}
	for _, at := range w.found {
		if at == 0 {
			return false
		}
	}
	return len(w.found) > 0
}

// missed says what did not come.
func (w *waiting) missed(p *play, log []seen, err error) error {
	if p.ctx.Err() != nil {
		return fmt.Errorf("await: %w", err)
	}
	for j, pattern := range w.await.All {
		if w.found[j] == 0 {
			return fmt.Errorf("await %s: not within %v: %s", pattern, w.await.Timeout, missed(pattern, log, w.from, p.names))
		}
	}
	return fmt.Errorf("await any of %v: not within %v; the log has %d events", w.await.Any, w.await.Timeout, len(log))
}

// crash kills an owner now, or arms a point.
func (p *play) crash(c Crash) error {
	if c.At != nil {
		p.mu.Lock()
		p.crashes = append(p.crashes, *c.At)
		p.mu.Unlock()
		return nil
	}
	o, err := p.find(c.Owner)
	if err != nil {
		return err
	}
	p.kill(o)
	o.appends.Wait() // what was on its way to the server is there, or never will be
	return nil
}

// startStep runs an owner, after the armed crash that it comes after.
func (p *play) startStep(s Start) error {
	deadline := time.NewTimer(awaitTimeout)
	defer deadline.Stop()
	for s.Claim {
		armed := p.armed()
		if armed == nil {
			break
		}
		if p.rough && p.unsettled() == "" {
			break
		}
		if err := p.pause(deadline.C); err != nil {
			return fmt.Errorf("start %s: the crash at %s did not happen within %v", s.Owner, *armed, awaitTimeout)
		}
	}
	if o, _ := p.find(s.Owner); o != nil {
		return fmt.Errorf("start %s: it still runs; crash it first, or start {as: another name}", s.Owner)
	}
	return p.start(s.Owner, s.Claim)
}

// claimStep makes a running owner claim. One that lost a race, or the session
// before, comes back as a new process of the same name.
func (p *play) claimStep(o *owner) error {
	p.mu.Lock()
	fenced := o.fenced
	p.mu.Unlock()
	if !fenced {
		err := p.claim(o)
		if err == nil || !errors.Is(err, event.ErrFenced) {
			return err
		}
	}
	p.kill(o)
	o.appends.Wait()
	return p.takeOver(o.name, o.claims)
}

// armed is a crash that has not happened yet, if there is one.
func (p *play) armed() *Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.crashes) == 0 {
		return nil
	}
	at := p.crashes[0]
	return &at
}

// find is the living owner of a name.
func (p *play) find(name string) (*owner, error) {
	p.mu.Lock()
	reviving := p.reviving
	p.mu.Unlock()
	if reviving != nil {
		<-reviving
	}
	if o := p.owner(name); o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("no owner %s runs", name)
}

// inspect asks the session's owner for a look-up.
func (p *play) inspect(i Inspect) error {
	id, err := p.names.Resolve(i.Operation)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	p.mu.Lock()
	o := p.holder
	if o == nil || o.dead {
		o = nil
		if alive := p.living(); len(alive) > 0 {
			o = alive[0]
		}
	}
	p.mu.Unlock()
	if o == nil {
		return fmt.Errorf("inspect %v: no owner runs", id)
	}
	operation := fmt.Sprint(id)
	before := p.looked(operation)
	if err := o.runner.Inspect(o.ctx, p.session, operation); err != nil {
		return fmt.Errorf("inspect %s: %w", operation, err)
	}
	return p.arrival(operation, before)
}

func (p *play) looked(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks[operation]
}

// arrivalTimeout bounds the wait for a look-up that was asked for: one that
// runs already is not asked for again.
const arrivalTimeout = 200 * time.Millisecond

// arrival waits until the look-up has reached the provider, so that the stage
// knows of it before the host goes on.
func (p *play) arrival(operation string, before int) error {
	deadline := time.NewTimer(arrivalTimeout)
	defer deadline.Stop()
	for p.looked(operation) == before {
		if err := p.pause(deadline.C); errors.Is(err, context.DeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
