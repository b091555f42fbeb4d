package replay

import (
	"iter"
	"maps"
	"slices"

	"github.com/loopd/loopd/event"
)

// Finding is one broken rule at one event.
type Finding struct {
	Rule      string    `json:"rule"`       // id of contract section 7
	Session   string    `json:"session"`    // "" if a record names none
	StreamSeq uint64    `json:"stream_seq"` // of the record; 0 at the end of the log
	Sequence  event.Seq `json:"sequence"`   // of the event in its session; 0 if unknown
	Message   string    `json:"message"`    // what was found, and what was expected
}

// Config is what an audit runs by; the zero value is usable.
type Config struct {
	// Validate holds an event's stored bytes against the schema of its type
	// (rule E2). Nil checks the envelope and the payload's types only. It is
	// not asked about types or versions that this program does not know.
	Validate func(eventType string, data []byte) error
	// Prefix is the first token of the subjects, default "loop"; it serves to
	// find the session of a record that does not decode.
	Prefix string
	// MaxFindings bounds the findings told of one session, default 1 000;
	// further ones are counted in Summary.Untold.
	MaxFindings int
	// MaxLine bounds a line that ReadJSONL reads, in bytes, default 64 MiB.
	MaxLine int
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "loop"
	}
	if c.MaxFindings == 0 {
		c.MaxFindings = 1000
	}
	if c.MaxLine == 0 {
		c.MaxLine = 64 << 20
	}
	return c
}

// Summary counts what an audit has seen so far.
type Summary struct {
	Records  uint64            `json:"records"`
	Sessions int               `json:"sessions"`
	Closed   int               `json:"closed"` // sessions with a session.closed
	Findings uint64            `json:"findings"`
	Untold   uint64            `json:"untold"`  // beyond Config.MaxFindings, in Findings and ByRule too
	ByRule   map[string]uint64 `json:"by_rule"` // rules with findings only
}

// Audit holds every record of the feed against every rule and yields the
// findings as they appear, those of the log's end last. A feed that breaks off
// yields its error, after which nothing follows: the end was not seen.
func Audit(feed event.Feed, c Config) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		a := New(c)
		for rec, err := range feed {
			if err != nil {
				yield(Finding{}, err)
				return
			}
			for _, f := range a.Observe(rec) {
				if !yield(f, nil) {
					return
				}
			}
		}
		for _, f := range a.Close() {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Auditor audits records as they come, of many sessions side by side. It is
// not safe for concurrent use.
type Auditor struct {
	config   Config
	sessions map[string]*session
	records  uint64
	total    uint64
	untold   uint64
	byRule   map[string]uint64
	closed   bool
}

// New returns an auditor that has seen nothing.
func New(c Config) *Auditor {
	return &Auditor{config: c.withDefaults(), sessions: map[string]*session{}, byRule: map[string]uint64{}}
}

// Observe takes the next record in stream order and returns what it breaks.
// The record's bytes must not change afterwards.
func (a *Auditor) Observe(rec event.Record) []Finding {
	a.records++
	e, err := event.Decode(rec.Data)
	if err != nil {
		return a.undecodable(rec, err)
	}
	s := a.session(e.SessionID)
	if s.again(e) {
		return a.tell(s, []Finding{{Rule: "E1", Session: s.id, StreamSeq: rec.StreamSeq, Sequence: e.Sequence,
			Message: "the same event stands twice in a row; each is stored once"}})
	}
	l := look{s: s, e: &e, streamSeq: rec.StreamSeq, validate: a.config.Validate}
	for _, r := range rulesFor(e.Payload) {
		l.rule = r.ID
		r.judge(&l)
	}
	s.fold(&e)
	return a.tell(s, l.found)
}

// Close ends the audit: what only the end of the log can show (W1).
func (a *Auditor) Close() []Finding {
	if a.closed {
		return nil
	}
	a.closed = true
	var all []Finding
	for _, id := range slices.Sorted(maps.Keys(a.sessions)) {
		s := a.sessions[id]
		all = append(all, a.tell(s, leftUnsaid(s))...)
	}
	return all
}

// Summary says what was seen so far.
func (a *Auditor) Summary() Summary {
	sum := Summary{Records: a.records, Sessions: len(a.sessions), Findings: a.total, Untold: a.untold, ByRule: maps.Clone(a.byRule)}
	for _, s := range a.sessions {
		if s.closed {
			sum.Closed++
		}
	}
	return sum
}

// undecodable reports a record that is no event, and lets its session go on
// behind it: the chain counts its bytes, its meaning is lost.
func (a *Auditor) undecodable(rec event.Record, err error) []Finding {
	f := Finding{Rule: "E2", StreamSeq: rec.StreamSeq, Message: "the record is no event: " + err.Error()}
	f.Session, f.Sequence = guessSession(rec, a.config.Prefix)
	if f.Session == "" {
		a.total++
		a.byRule[f.Rule]++
		return []Finding{f}
	}
	s := a.session(f.Session)
	s.skip(rec.Data, f.Sequence)
	return a.tell(s, []Finding{f})
}

func (a *Auditor) session(id string) *session {
	s := a.sessions[id]
	if s == nil {
		s = newSession(id)
		a.sessions[id] = s
	}
	return s
}

func (a *Auditor) tell(s *session, found []Finding) []Finding {
	for i, f := range found {
		a.total++
		a.byRule[f.Rule]++
		if s.told++; s.told > a.config.MaxFindings {
			a.untold += uint64(len(found) - i)
			a.total += uint64(len(found) - i - 1)
			for _, rest := range found[i+1:] {
				a.byRule[rest.Rule]++
			}
			return found[:i]
		}
	}
	return found
}
