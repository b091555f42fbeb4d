package host

import (
	"fmt"
	"slices"

	"github.com/loopd/loopd/event"
)

// Result is what became of an input: one of the types below. Event is the one
// that decides it, Fact its payload.
type Result interface {
	// Decided is the event that decides the result.
	Decided() event.Event
	result()
}

// The results of content: user, steer and service inputs.
type (
	// Finished: it is part of a generation that finished; Fact.Text is the
	// answer. Jobs in Fact.ActiveJobIDs still run.
	Finished struct {
		Event event.Event
		Fact  event.GenerationFinished
	}
	// Failed: it is part of a generation that ended without an answer.
	Failed struct {
		Event event.Event
		Fact  event.GenerationFailed
	}
	// Detached: it is part of a generation that ended without knowing what the
	// provider still does.
	Detached struct {
		Event event.Event
		Fact  event.GenerationDetached
	}
	// Rejected: it was not admitted, and never will be.
	Rejected struct {
		Event event.Event
		Fact  event.InputRejected
	}
	// Held: it was admitted, and never will be delivered.
	Held struct {
		Event event.Event
		Fact  event.InputHeld
	}
	// Withdrawn: it was taken back before it was delivered.
	Withdrawn struct {
		Event event.Event
		Fact  event.InputWithdrawn
	}
	// Unknown: its delivery was interrupted, and its generation ended without
	// a confirmation.
	Unknown struct {
		Event event.Event
		Fact  event.InputUnknown
	}
	// Unconfirmed: the provider accepted it, and its generation ended without
	// a word on whether it was used. A confirmation may still follow in the
	// log.
	Unconfirmed struct {
		Event        event.Event // the end of the generation
		GenerationID string
	}
)

// The results of commands: stop, interrupt, withdraw, decision, cancel_job. A
// command may also be Rejected.
type (
	// Carried: the command had its effect, which Event tells.
	Carried struct {
		Event event.Event
	}
	// Refused: the command was admitted, and had no effect.
	Refused struct {
		Event event.Event
		Fact  event.CommandRejected
	}
)

func (r Finished) Decided() event.Event    { return r.Event }
func (r Failed) Decided() event.Event      { return r.Event }
func (r Detached) Decided() event.Event    { return r.Event }
func (r Rejected) Decided() event.Event    { return r.Event }
func (r Held) Decided() event.Event        { return r.Event }
func (r Withdrawn) Decided() event.Event   { return r.Event }
func (r Unknown) Decided() event.Event     { return r.Event }
func (r Unconfirmed) Decided() event.Event { return r.Event }
func (r Carried) Decided() event.Event     { return r.Event }
func (r Refused) Decided() event.Event     { return r.Event }

func (Finished) result()    {}
func (Failed) result()      {}
func (Detached) result()    {}
func (Rejected) result()    {}
func (Held) result()        {}
func (Withdrawn) result()   {}
func (Unknown) result()     {}
func (Unconfirmed) result() {}
func (Carried) result()     {}
func (Refused) result()     {}

// Explain says in a few words why a result is no answer; "" for one that is.
func Explain(r Result) string {
	switch r := r.(type) {
	case Finished, Carried:
		return ""
	case Rejected:
		return fmt.Sprintf("not admitted: %s: %s", r.Fact.Reason, r.Fact.Hint)
	case Refused:
		return "without effect: " + r.Fact.Reason
	case Failed:
		return fmt.Sprintf("no answer: %s in %s: %s", r.Fact.ErrorType, r.Fact.Stage, r.Fact.NextAction)
	case Detached:
		return fmt.Sprintf("no answer: the generation was detached (%s); what the model server still does is not known", r.Fact.Reason)
	}
	return fmt.Sprintf("no answer: %s", r.Decided().Type)
}

// waiting is one input on its way through the events of its session.
type waiting struct {
	id      string
	kind    event.Kind // once it is accepted
	unknown *Unknown   // told once its generation has ended unconfirmed
}

// take folds the next event; a result ends the wait.
func (w *waiting) take(e event.Event) Result {
	if r := w.admission(e); r != nil {
		return r
	}
	switch p := e.Payload.(type) {
	case event.InputHeld:
		if p.InputID == w.id {
			return Held{e, p}
		}
	case event.InputWithdrawn:
		if p.InputID == w.id {
			return Withdrawn{e, p}
		}
	case event.InputUnknown:
		if p.InputID == w.id {
			w.unknown = &Unknown{e, p}
		}
	case event.GenerationFinished:
		if r := w.ended(e, p.Correlation, Finished{e, p}); r != nil {
			return r
		}
	case event.GenerationFailed:
		if r := w.ended(e, p.Correlation, Failed{e, p}); r != nil {
			return r
		}
	case event.GenerationDetached:
		if r := w.ended(e, p.Correlation, Detached{e, p}); r != nil {
			return r
		}
	case event.SessionClosed:
		if w.unknown != nil {
			return *w.unknown
		}
	}
	if w.kind.Command() {
		return w.command(e)
	}
	return nil
}

// admission notes that the input was accepted, or says that it was refused. An
// identity conflict refuses other content: the first one stands.
func (w *waiting) admission(e event.Event) Result {
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		if p.InputID == w.id {
			w.kind = p.Kind
		}
	case event.InputRejected:
		if p.InputID == w.id && p.Reason != event.RejectIdentityConflict {
			return Rejected{e, p}
		}
	}
	return nil
}

// ended is what the end of a generation says of the input: r where it was part
// of it (contract 5.6).
func (w *waiting) ended(e event.Event, c event.Correlation, r Result) Result {
	switch {
	case slices.Contains(c.InputIDs, w.id):
		return r
	case slices.Contains(c.AcceptedInputIDs, w.id):
		return Unconfirmed{e, c.GenerationID}
	case w.unknown != nil && w.unknown.Fact.GenerationID == c.GenerationID:
		return *w.unknown
	}
	return nil
}

// command is what an event says of an accepted command. A stop and an
// interrupt cause several events: the last of them counts.
func (w *waiting) command(e event.Event) Result {
	if p, ok := e.Payload.(event.CommandRejected); ok && p.InputID == w.id {
		return Refused{e, p}
	}
	if e.Cause != w.id || e.Type == event.TypeInputAccepted {
		return nil
	}
	switch w.kind {
	case event.KindStop:
		if e.Type != event.TypeSessionClosed {
			return nil
		}
	case event.KindInterrupt:
		if e.Type != event.TypeGenerationDetached {
			return nil
		}
	}
	return Carried{e}
}
