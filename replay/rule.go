package replay

import (
	"fmt"
	"slices"

	"github.com/loopd/loopd/event"
)

// Rule is one rule of contract section 7: its id is stable, its sentence is
// the contract's.
type Rule struct {
	ID       string `json:"id"`
	Sentence string `json:"sentence"`

	// types are the events that it judges, nil = every one; it is judged at
	// the event, before the ledger takes it in.
	types []event.Type
	judge func(l *look)
}

// Rules are all rules in the contract's order.
func Rules() []Rule { return slices.Clone(rules) }

var rules = slices.Concat(rulesE, rulesI, rulesG, rulesS, rulesO, rulesC, rulesV, rulesJ, rulesW, rulesP)

// rulesFor are the rules that judge this payload. A type that this version
// does not know is judged as an envelope alone.
func rulesFor(p event.Payload) []Rule {
	if some, ok := rulesByType[p.Type()]; ok {
		if _, unknown := p.(event.Unknown); !unknown {
			return some
		}
	}
	return envelopeRules
}

var (
	envelopeRules = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.types != nil || r.judge == nil })
	rulesByType   = indexRules()
)

func indexRules() map[event.Type][]Rule {
	index := map[event.Type][]Rule{}
	for _, t := range event.Types() {
		for _, r := range rules {
			if r.judge != nil && (r.types == nil || slices.Contains(r.types, t)) {
				index[t] = append(index[t], r)
			}
		}
	}
	return index
}

// look is one rule's view of one event: the event, and the ledger as it was
// before it.
type look struct {
	s         *session
	e         *event.Event
	streamSeq uint64
	validate  func(eventType string, data []byte) error
	rule      string
	found     []Finding
}

// say reports that the event breaks the rule.
func (l *look) say(format string, args ...any) {
	l.found = append(l.found, Finding{
		Rule: l.rule, Session: l.s.id, StreamSeq: l.streamSeq, Sequence: l.e.Sequence,
		Message: string(l.e.Type) + ": " + fmt.Sprintf(format, args...),
	})
}

// sayMissing reports the absence of an earlier event, unless events of the
// session are missing: then its absence proves nothing.
func (l *look) sayMissing(format string, args ...any) {
	if !l.s.hole {
		l.say(format, args...)
	}
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
