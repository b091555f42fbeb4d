package main

import (
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/loopd/loopd/event"
)

func (s *demoStage) title(text string) { fmt.Fprintf(s.io.out, "\n%s\n", text) }

// note is a line of the timeline: who does what.
func (s *demoStage) note(who, what string) {
	fmt.Fprintf(s.io.out, "%5.1fs  %-8s %s\n", time.Since(s.began).Seconds(), who, what)
}

// tellEvent is a line of the timeline for an event of the log.
func (s *demoStage) tellEvent(e event.Event) {
	words := plainWords(e)
	if words == "" {
		words = fields(e, 40)
	}
	s.note(fmt.Sprintf("log %d", e.Sequence), fmt.Sprintf("%-22s %s", e.Type, shortIDs(words)))
}

// ulidPattern finds the long ids of the log; a timeline shows their ends.
var ulidPattern = regexp.MustCompile(`[0-7][0-9A-HJKMNP-TV-Z]{25}`)

func shortIDs(s string) string {
	return ulidPattern.ReplaceAllStringFunc(s, func(id string) string { return "…" + id[len(id)-5:] })
}

// plainWords says what an event of the demo means; "" = its fields speak for
// themselves.
func plainWords(e event.Event) string {
	switch p := e.Payload.(type) {
	case event.SessionOpened:
		return fmt.Sprintf("the session begins, answered by %s", p.Provider)
	case event.SessionClaimed:
		return fmt.Sprintf("%s owns the session: epoch %d; every older owner is fenced", p.Owner, e.Epoch)
	case event.SessionIdle:
		return "nothing active, nothing pending"
	case event.InputAccepted:
		return fmt.Sprintf("%s is admitted", p.InputID)
	case event.InputQueued:
		return fmt.Sprintf("%s waits for the boundary: the running request cannot take it", p.InputID)
	case event.InputDelivered:
		return fmt.Sprintf("%s enters the context of generation %s (%s)", p.InputID, p.GenerationID, p.Delivery)
	case event.GenerationStarted:
		return fmt.Sprintf("generation %s begins with %s", p.GenerationID, p.InitialInputID)
	case event.OperationAdmitted:
		return fmt.Sprintf("request %s is decided, nothing has left", p.OperationID)
	case event.OperationDispatched:
		return fmt.Sprintf("request %s may leave now, once and never again", p.OperationID)
	case event.OperationCompleted:
		recovered := ""
		if p.Recovered {
			recovered = ", recovered:true"
		}
		return fmt.Sprintf("the answer to %s is saved (%s%s): %q", p.OperationID, p.Finish, recovered, cut(p.Text, 60))
	case event.OperationUnknown:
		return fmt.Sprintf("nobody knows what became of %s (%s): never ask again, inspect the original", p.OperationID, p.Reason)
	case event.OperationInspected:
		return fmt.Sprintf("a read-only look-up of %s says: %s", p.OperationID, p.Observed)
	case event.CheckpointSaved:
		return fmt.Sprintf("%s checkpoint of generation %s", p.Kind, p.GenerationID)
	case event.GenerationFinished:
		return fmt.Sprintf("generation %s ends and answers %v", p.GenerationID, p.InputIDs)
	}
	return ""
}

// promises are what the demo promised, and whether it held.
type promises []promise

type promise struct {
	held bool
	text string
}

func (p *promises) add(held bool, text string) { *p = append(*p, promise{held, text}) }

// tell prints them; held = all did.
func (p promises) tell(out io.Writer) (held bool) {
	held = len(p) > 0
	for _, one := range p {
		mark := "held   "
		if !one.held {
			mark, held = "BROKEN ", false
		}
		fmt.Fprintf(out, "  %s %s\n", mark, one.text)
	}
	return held
}
