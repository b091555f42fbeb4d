package replay

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
)

// Report audits a feed and writes each finding on a line as it appears, then a
// summary; as JSON, findings, and {"summary": {…}} last. A feed that breaks off
// yields its error, and no summary is written: the end was not seen.
func Report(w io.Writer, feed event.Feed, c Config, asJSON bool) (Summary, error) {
	a := New(c)
	for rec, err := range feed {
		if err == nil {
			err = writeFindings(w, a.Observe(rec), asJSON)
		}
		if err != nil {
			return a.Summary(), fmt.Errorf("replay: audit: %w", err)
		}
	}
	err := writeFindings(w, a.Close(), asJSON)
	sum := a.Summary()
	switch {
	case err != nil:
	case asJSON:
		err = writeJSON(w, map[string]Summary{"summary": sum})
	default:
		_, err = io.WriteString(w, sum.text())
	}
	if err != nil {
		return sum, fmt.Errorf("replay: audit: %w", err)
	}
	return sum, nil
}

func writeFindings(w io.Writer, found []Finding, asJSON bool) error {
	for _, f := range found {
		var err error
		if asJSON {
			err = writeJSON(w, f)
		} else {
			_, err = fmt.Fprintf(w, "%s at %d, session %s, event %d: %s\n", f.Rule, f.StreamSeq, printable(f.Session), f.Sequence, printable(f.Message))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

func (s Summary) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events of %d sessions (%d closed), %d findings, %d of them not told\n", s.Records, s.Sessions, s.Closed, s.Findings, s.Untold)
	for _, r := range Rules() {
		if n := s.ByRule[r.ID]; n > 0 {
			fmt.Fprintf(&b, "%6d × %s: %s\n", n, r.ID, r.Sentence)
		}
	}
	return b.String()
}

// printable is text that stays on its line and moves no cursor, whatever the
// log holds.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// OfSession keeps the records of one session, "" = all. A record that does not
// decode is the session's that an audit finds in it.
func OfSession(feed event.Feed, session, prefix string) event.Feed {
	return func(yield func(event.Record, error) bool) {
		for rec, err := range feed {
			if err == nil && session != "" && sessionOf(rec, prefix) != session {
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func sessionOf(rec event.Record, prefix string) string {
	if e, err := event.Decode(rec.Data); err == nil {
		return e.SessionID
	}
	id, _ := guessSession(rec, prefix)
	return id
}
