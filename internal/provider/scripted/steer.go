package scripted

import (
	"context"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// An operation is what the provider remembers of a request, or of steering
// that asked for it before it came.
type operation struct {
	id        string
	arrived   bool
	connected bool // its request runs
	entry     *Entry
	budget    int64
	lookups   int
	steers    map[string]*steer // by input id: those that the rest of the script answers
}

// steer is one expected steer_live call.
type steer struct {
	answer   loop.SteerAnswer
	hangs    bool
	answered bool
}

// gate names a waiting place of the provider's own.
func (o *operation) gate(what string) string { return "\x00" + o.id + "\x00" + what }

// expectSteering notes which inputs the script will answer.
func (o *operation) expectSteering() {
	for _, f := range o.entry.Frames {
		if s, ok := f.(Steer); ok {
			for _, a := range s.Answers {
				o.steers[a.InputID] = &steer{}
			}
		}
	}
}

// Steer is steer_live: it waits until the script comes to this input, or the
// operation's connection ends. An input that the rest of the script does not
// name is refused.
func (p *Provider) Steer(ctx context.Context, operationID string, in event.Input) loop.SteerAnswer {
	p.mu.Lock()
	op := p.operation(operationID)
	p.mu.Unlock()
	if p.cfg.Gates.Wait(ctx, op.gate("up")) != nil {
		return loop.SteerUnknown
	}
	p.mu.Lock()
	s := op.steers[in.InputID]
	refuse := s == nil || (!op.connected && !s.answered)
	p.mu.Unlock()
	if refuse {
		return loop.SteerRefused
	}
	p.cfg.Gates.Open(op.gate("asked\x00" + in.InputID))
	if p.cfg.Gates.Wait(ctx, op.gate("said\x00"+in.InputID)) != nil {
		return loop.SteerUnknown
	}
	p.mu.Lock()
	answer, hangs := s.answer, s.hangs
	p.mu.Unlock()
	if hangs {
		_ = p.cfg.Gates.Wait(ctx, op.gate("never")) // nobody opens it: until ctx ends
		return loop.SteerUnknown
	}
	return answer
}

// answerSteering plays a steer frame.
func (p *Provider) answerSteering(ctx context.Context, op *operation, f Steer) error {
	for _, a := range f.Answers {
		if err := p.cfg.Gates.Wait(ctx, op.gate("asked\x00"+a.InputID)); err != nil {
			return err
		}
		p.mu.Lock()
		s := op.steers[a.InputID]
		s.answered = true
		switch a.Answer {
		case SteerAccepted:
			s.answer = loop.SteerAccepted
		case SteerRefused:
			s.answer = loop.SteerRefused
		case SteerHangs:
			s.hangs = true
		}
		p.mu.Unlock()
		p.cfg.Gates.Open(op.gate("said\x00" + a.InputID))
	}
	return nil
}

// hangUp ends the connection: who still waits for an answer gets none.
func (p *Provider) hangUp(op *operation) {
	p.mu.Lock()
	op.connected = false
	var waiting []string
	for id, s := range op.steers {
		if !s.answered {
			waiting = append(waiting, id)
		}
	}
	p.mu.Unlock()
	for _, id := range waiting {
		p.cfg.Gates.Open(op.gate("said\x00" + id))
	}
}
