package replay

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

func readAll(t *testing.T, text string, c Config) ([]event.Record, error) {
	t.Helper()
	var all []event.Record
	for r, err := range ReadJSONL(strings.NewReader(text), c) {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// TestJSONLKeepsEveryByte: what an export wrote is audited as the log itself.
func TestJSONLKeepsEveryByte(t *testing.T) {
	records := recoverySession().records()
	odd := []string{
		`{"b": 1,  "a":[1.0, 2e3 ],"é":"\u00e9\/"}`, // spaces, numbers and escapes as they stand
		`{"a":1,"a":2}`, "{\"a\":\"\xff\"}", // no event, and still verbatim
		`{`, ``, `{}}`, `{},"x":1`, `{},"subject":"other"`, `x "event": y`,
	}
	for i, o := range odd {
		records = append(records, event.Record{StreamSeq: uint64(1000 + i), Subject: "loop.ev.s.\"x\".y", Data: []byte(o)})
	}
	var out bytes.Buffer
	for _, r := range records {
		if err := WriteJSONL(&out, r); err != nil {
			t.Fatal(err)
		}
	}
	back, err := readAll(t, out.String(), Config{})
	if err != nil || len(back) != len(records) {
		t.Fatalf("%d of %d records: %v", len(back), len(records), err)
	}
	for i, r := range records {
		if b := back[i]; b.StreamSeq != r.StreamSeq || b.Subject != r.Subject || !bytes.Equal(b.Data, r.Data) {
			t.Errorf("record %d came back as %d %s %s, was %s", r.StreamSeq, b.StreamSeq, b.Subject, b.Data, r.Data)
		}
	}
	for f, err := range Audit(ReadJSONL(strings.NewReader(out.String()), Config{}), Config{}) {
		if err != nil || f.Rule != "E2" || f.StreamSeq < 1000 {
			t.Errorf("%+v %v", f, err)
		}
	}
}

func TestJSONLTakesOtherOrdersAndSpaces(t *testing.T) {
	got, err := readAll(t, "\n{\"event\" : {\"x\": 1} ,\"more\":{}, \"stream_seq\":7}\r\n\n", Config{})
	if err == nil {
		t.Errorf("a name behind the event that nobody knows may be part of it: %+v", got)
	}
	got, err = readAll(t, "\n{\"event\" : {\"x\": 1} , \"stream_seq\":7,\"subject\":\"a\"}\r\n\n", Config{})
	if err != nil || len(got) != 1 || got[0].StreamSeq != 7 || string(got[0].Data) != `{"x": 1}` {
		t.Errorf("%+v %v", got, err)
	}
}

func TestJSONLRefuses(t *testing.T) {
	for _, line := range []string{`{}`, `[]`, `x`, `{"stream_seq": 1}`, `{"event": {}}`, `{"stream_seq": "1", "event": {}}`, `{"stream_seq": 1, "subject": 2, "event": {}}`} {
		if _, err := readAll(t, "{\"stream_seq\": 1, \"event\": {}}\n"+line+"\n", Config{}); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", line, err)
		}
	}
	long := `{"stream_seq": 1, "event": {"a":"` + strings.Repeat("x", 100) + `"}}`
	if _, err := readAll(t, long, Config{MaxLine: 100}); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("a long line: %v", err)
	}
	if err := WriteJSONL(&bytes.Buffer{}, event.Record{Data: []byte("{\n}")}); err == nil {
		t.Error("a line break was written")
	}
	if err := WriteJSONL(failing{}, event.Record{Data: []byte("{}")}); err == nil {
		t.Error("a failed write was not told")
	}
	if _, err := readAll(t, "", Config{}); err != nil {
		t.Errorf("no lines: %v", err)
	}
	for _, err := range ReadJSONL(failing{}, Config{}) {
		if err == nil {
			t.Error("a failed read was not told")
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }
func (failing) Read([]byte) (int, error)  { return 0, errors.New("no disk") }
