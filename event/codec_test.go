package event

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const foreign = `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"generation.finished","session_id":"s","sequence":3,"epoch":1,"time":"2026-01-01T00:00:00.000001Z","prev":"x","generation_id":"g","input_ids":["a"],"accepted_input_ids":[],"text":"t","Text":"other", "active_job_ids":[],"disposition":"manager_turn_finished","operation_ids":[],"new_field":{"b":1,"a":2}}`

func TestDecodeKeepsBytesAndIgnoresWhatItDoesNotKnow(t *testing.T) {
	for _, line := range []string{foreign, strings.Replace(foreign, "generation.finished", "weather.changed", 1)} {
		e, err := Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Encode(e)
		if err != nil || !bytes.Equal(again.Stored(), []byte(line)) {
			t.Fatalf("bytes changed: %s %v", again.Stored(), err)
		}
		if f, ok := e.Payload.(GenerationFinished); ok && f.Text != "t" {
			t.Fatalf("a field of another case was taken: %q", f.Text)
		}
	}
}

func TestEncodeDecodeEveryType(t *testing.T) {
	for typ, decode := range catalogue {
		p, err := decode([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if p.Type() != typ {
			t.Errorf("%s decodes to %s", typ, p.Type())
		}
		if typ == TypeInputAccepted {
			p = InputAccepted{Input: []byte(`{}`)}
		}
		e, err := Encode(Event{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", SessionID: "s", Sequence: 1, Epoch: 1, Time: time.Unix(0, 1234567), Payload: p})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(e.Stored(), []byte("null")) {
			t.Errorf("%s: null in %s", typ, e.Stored())
		}
		back, err := Decode(e.Stored())
		if err != nil {
			t.Fatalf("%s: %v", e.Stored(), err)
		}
		if back.Type != typ || !back.Time.Equal(e.Time) || back.Epoch != 1 {
			t.Errorf("%s: came back as %+v", typ, back)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"not json":      `{"version":1`,
		"array":         `[]`,
		"trailing":      foreign + `{}`,
		"repeated name": strings.Replace(foreign, `"prev":"x"`, `"prev":"x","prev":"y"`, 1),
		"bad utf8":      strings.Replace(foreign, `"t"`, "\"\xff\"", 1),
		"no id":         strings.Replace(foreign, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "nope", 1),
		"sequence 0":    strings.Replace(foreign, `"sequence":3`, `"sequence":0`, 1),
		"bad time":      strings.Replace(foreign, "2026-01-01T", "yesterday", 1),
		"wrong shape":   strings.Replace(foreign, `"input_ids":["a"]`, `"input_ids":"a"`, 1),
	} {
		if _, err := Decode([]byte(line)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInputDigestIsOverContentAsSent(t *testing.T) {
	same := []string{
		`{"input_id":"a","kind":"user","text":"é","version":1,"sent_at":"now"}`,
		`{ "text":"\u00e9", "kind":"user", "input_id":"a" }`,
	}
	if InputDigest([]byte(same[0])) != InputDigest([]byte(same[1])) {
		t.Error("the same content has two digests")
	}
	for _, other := range []string{
		`{"input_id":"a","kind":"user","text":"é","source":"user"}`,
		`{"input_id":"a","kind":"user","text":"é","x":1}`,
		`not json`,
		`{"input_id":"a","input_id":"a","kind":"user","text":"é"}`,
	} {
		if InputDigest([]byte(other)) == InputDigest([]byte(same[0])) {
			t.Errorf("other content, same digest: %s", other)
		}
	}
	if InputDigest([]byte("not json")) != Digest([]byte("not json")) {
		t.Error("bytes that do not parse are digested as bytes")
	}
}

func TestArgumentsDigest(t *testing.T) {
	digest := func(s string) string {
		d, err := ArgumentsDigest(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if digest(`{"a":1,"b":2}`) != digest(` {"b":2, "a":1}`) {
		t.Error("order and space must not count")
	}
	if digest(`{"a":9007199254740993}`) == digest(`{"a":9007199254740992}`) {
		t.Error("two amounts, one digest")
	}
	for _, bad := range []string{``, `[]`, `1`, `{"a":1`, `{"a":1}{}`, `{"a":1,"a":2}`} {
		if _, err := ArgumentsDigest(bad); err == nil {
			t.Errorf("%q has a digest", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(e)
		if err != nil || !bytes.Equal(again.Stored(), b) {
			t.Fatalf("bytes changed: %q %v", again.Stored(), err)
		}
	})
}
