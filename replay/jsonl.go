package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// The lines that an export writes and an audit reads:
//
//	{"stream_seq": 12, "subject": "…", "event": {…}}
//
// The value of event is the stored bytes, verbatim, so that the chain can be
// checked from the file alone. It stands last: whatever it holds, the line can
// be taken apart.

// ReadJSONL reads records from lines as WriteJSONL writes them; blank lines
// are skipped. Of c it uses MaxLine. A value of event that is no JSON is
// yielded as it stands, for the audit to judge (E2); a line that cannot be
// taken apart ends the feed with an error that names it.
func ReadJSONL(r io.Reader, c Config) event.Feed {
	c = c.withDefaults()
	return func(yield func(event.Record, error) bool) {
		scan := bufio.NewScanner(r)
		scan.Buffer(make([]byte, 0, min(64<<10, c.MaxLine)), c.MaxLine)
		n := 0
		for scan.Scan() {
			n++
			line := bytes.TrimSpace(scan.Bytes())
			if len(line) == 0 {
				continue
			}
			rec, err := parseLine(bytes.Clone(line))
			if err != nil {
				yield(event.Record{}, fmt.Errorf("replay: line %d: %w", n, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(event.Record{}, fmt.Errorf("replay: line %d: longer than %d bytes; raise Config.MaxLine: %w", n+1, c.MaxLine, err))
		} else if err != nil {
			yield(event.Record{}, fmt.Errorf("replay: line %d: %w", n+1, err))
		}
	}
}

var errLine = errors.New(`want {"stream_seq": 12, "subject": "…", "event": {…}}, as an export writes it`)

// parseLine takes one line apart; the record keeps it.
func parseLine(line []byte) (event.Record, error) {
	var rec event.Record
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return rec, errLine
	}
	seen := map[string]bool{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil || seen[name.String()] {
			return whole(rec, seen, line)
		}
		key := name.String()
		switch key {
		case "stream_seq", "subject", "event":
		default:
			if seen["event"] {
				return whole(rec, seen, line)
			}
		}
		seen[key] = true
		value, err := d.ReadValue()
		if err != nil {
			return whole(rec, seen, line)
		}
		if err := setField(&rec, key, value.Clone()); err != nil {
			return rec, err
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' || d.InputOffset() != int64(len(line)) {
		return whole(rec, seen, line)
	}
	if !seen["stream_seq"] || !seen["event"] {
		return rec, errLine
	}
	return rec, nil
}

// setField puts one field of a line into the record.
func setField(rec *event.Record, key string, value jsontext.Value) error {
	var err error
	switch key {
	case "stream_seq":
		err = json.Unmarshal(value, &rec.StreamSeq)
	case "subject":
		err = json.Unmarshal(value, &rec.Subject)
	case "event":
		rec.Data = value
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// whole takes all that follows the name event, to the line's last brace, as
// the stored bytes: they are no JSON value, or more than one.
func whole(rec event.Record, seen map[string]bool, line []byte) (event.Record, error) {
	_, rest, ok := bytes.Cut(line, []byte(`"event":`))
	if !ok || !seen["event"] || !seen["stream_seq"] {
		return rec, errLine
	}
	rest, ok = bytes.CutSuffix(rest, []byte("}"))
	if !ok {
		return rec, errLine
	}
	rec.Data = bytes.TrimPrefix(rest, []byte(" "))
	return rec, nil
}

// WriteJSONL writes one record as a line, its bytes verbatim. Bytes with a
// line break, which no event of this system has, cannot stand on a line.
func WriteJSONL(w io.Writer, rec event.Record) error {
	if bytes.ContainsAny(rec.Data, "\r\n") {
		return fmt.Errorf("replay: write record %d: its bytes have a line break and cannot stand on one line unchanged", rec.StreamSeq)
	}
	subject, err := json.Marshal(rec.Subject, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("replay: write record %d: subject: %w", rec.StreamSeq, err)
	}
	line := fmt.Appendf(nil, `{"stream_seq": %d, "subject": %s, "event": `, rec.StreamSeq, subject)
	line = append(append(line, rec.Data...), '}', '\n')
	if _, err := w.Write(line); err != nil {
		return fmt.Errorf("replay: write record %d: %w", rec.StreamSeq, err)
	}
	return nil
}
