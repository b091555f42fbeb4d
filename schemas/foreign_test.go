package schemas

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

// TestSchemasAgreeWithTheContract holds the schemas against the contract's own
// table, and the written-down table against the contract where it is at hand.
func TestSchemasAgreeWithTheContract(t *testing.T) {
	rows := contractRows(t)
	if len(rows) != len(loaded.EventTypes()) {
		t.Fatalf("%d rows, %d schemas", len(rows), len(loaded.EventTypes()))
	}
	for typ, row := range rows {
		schema := readRaw(t, "events/"+typ+".json")
		var want []string
		for _, name := range row {
			optional := strings.HasSuffix(name, "?")
			name = strings.TrimSuffix(name, "?")
			if schema.properties()[name].node == nil {
				t.Errorf("%s has no %s", typ, name)
			}
			if !optional {
				want = append(want, name)
			}
		}
		got := slices.DeleteFunc(schema.required(), func(n string) bool { return slices.Contains(envelopeFields, n) })
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s requires %v, want %v", typ, got, want)
		}
	}
	checkAgainstContract(t, rows)
}

// contractRows reads testdata/contract.txt: the fields of each type.
func contractRows(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/contract.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" || strings.HasPrefix(line, "#") {
			continue
		}
		var names []string
		for _, w := range words[1:] {
			if w == "G" {
				names = append(names, "generation_id", "input_ids", "accepted_input_ids")
				continue
			}
			names = append(names, w)
		}
		rows[words[0]] = names
	}
	return rows
}

// checkAgainstContract looks, where the contract itself lies beside the
// checkout, for each type and each of its fields in its row of section 4.
func checkAgainstContract(t *testing.T, rows map[string][]string) {
	t.Helper()
	contract, err := os.ReadFile("../../shared/design/contract.md")
	if errors.Is(err, os.ErrNotExist) {
		return // testdata/contract.txt stands for it
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(contract), "\n## 4 ")
	section, _, _ = strings.Cut(section, "\n## 5 ")
	for typ, names := range rows {
		family, transition, _ := strings.Cut(typ, ".")
		row := ""
		for line := range strings.Lines(section) {
			head, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), "|")
			if strings.Contains(head, "`"+typ+"`") ||
				strings.HasPrefix(head, "`"+family+".") && strings.Contains(head, "`."+transition+"`") {
				row = line
			}
		}
		for _, name := range names {
			found := strings.Contains(row, strings.TrimSuffix(name, "?")) || strings.Contains(row, "`G")
			if !found {
				t.Errorf("the contract's row of %s has no %s: %s", typ, name, row)
			}
		}
	}
}

// TestForeignLogIsValid: a log of a writer that follows the contract and knows
// nothing of ours.
func TestForeignLogIsValid(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range foreignLines(t) {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		seen[string(e.Type)] = true
		if err := loaded.Event(string(e.Type), []byte(line)); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		more := strings.Replace(line, `"version":1`, `"new_field":{"a":[null,1e999999999]},"version":1`, 1)
		if err := loaded.Event(string(e.Type), []byte(more)); err != nil {
			t.Errorf("an unknown field: %v", err)
		}
	}
	if len(seen) != len(loaded.EventTypes()) {
		t.Errorf("the log has %d of %d types", len(seen), len(loaded.EventTypes()))
	}
}

func foreignLines(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/foreign.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

const idle = `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"session.idle","session_id":"s","sequence":3,"epoch":1,` +
	`"time":"2026-01-01T00:00:00.000001Z","prev":"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU","text":"t"}`

func TestEnvelope(t *testing.T) {
	for _, c := range []struct{ name, from, to, field string }{
		{"as it is", ``, ``, ""},
		{"first of a session", `"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"`, `""`, ""},
		{"whole second", `00.000001Z`, `00Z`, ""},
		{"a ULID in small letters", `01ARZ3NDEKTSV4RRFFQ69G5FAV`, `01arz3ndektsv4rrffq69g5fav`, ""},
		{"large sequence", `"sequence":3`, `"sequence":18446744073709551615`, ""},
		{"a newer version has other fields", `"version":1`, `"version":2`, ""},

		{"version 0", `"version":1`, `"version":0`, "version"},
		{"version as text", `"version":1`, `"version":"2"`, "version"},
		{"overflowing ULID", `01ARZ3`, `81ARZ3`, "id"},
		{"short ULID", `01ARZ3`, `01ARZ`, "id"},
		{"ULID with a letter it has not", `01ARZ3`, `01ARU3`, "id"},
		{"empty session", `"session_id":"s"`, `"session_id":""`, "session_id"},
		{"sequence 0", `"sequence":3`, `"sequence":0`, "sequence"},
		{"sequence that a double would round to 0", `"sequence":3`, `"sequence":0.00000000000000000000000001`, "sequence"},
		{"sequence beyond all bounds", `"sequence":3`, `"sequence":-1e999999999`, "sequence"},
		{"epoch 0", `"epoch":1`, `"epoch":0`, "epoch"},
		{"local time", `00.000001Z`, `00.000001+02:00`, "time"},
		{"nanoseconds", `00.000001Z`, `00.000001001Z`, "time"},
		{"no such day", `2026-01-01`, `2026-02-30`, "time"},
		{"padded digest", `3hSuFU"`, `3hSuFU="`, "prev"},
		{"hex digest", `47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU`, `e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`, "prev"},
		{"digest with bits too many", `3hSuFU"`, `3hSuFV"`, "prev"},
		{"another type", `"session.idle"`, `"session.busy"`, "type"},
		{"empty cause", `"text"`, `"cause":"","text"`, "cause"},
	} {
		data := strings.Replace(idle, c.from, c.to, 1)
		blame(t, c.name, loaded.Event("session.idle", []byte(data)), c.field)
		if c.from != "" && data == idle {
			t.Errorf("%s: nothing changed", c.name)
		}
	}
}

// blame checks that err names the field, or is nil for none.
func blame(t *testing.T, name string, err error, field string) {
	t.Helper()
	var invalid *ValidationError
	switch {
	case field == "" && err != nil:
		t.Errorf("%s: refused: %v", name, err)
	case field != "" && (!errors.As(err, &invalid) || invalid.Field != field):
		t.Errorf("%s: %v, want a fault at %s", name, err, field)
	}
}

func TestUnknownTypesNeedOnlyAnEnvelope(t *testing.T) {
	weather := strings.Replace(idle, "session.idle", "weather.changed", 1)
	blame(t, "unknown type", loaded.Event("weather.changed", []byte(weather)), "")
	blame(t, "unknown type, no epoch", loaded.Event("weather.changed", []byte(strings.Replace(weather, `"epoch":1,`, ``, 1))), "epoch")
	one := strings.Replace(idle, "session.idle", "weather", 1)
	blame(t, "a type without a family", loaded.Event("weather", []byte(one)), "type")
	newer := strings.Replace(strings.Replace(idle, `"version":1`, `"version":2`, 1), `"text":"t"`, `"words":["t"]`, 1)
	blame(t, "a newer version", loaded.Event("session.idle", []byte(newer)), "")
}

func TestReadsStrictly(t *testing.T) {
	for name, data := range map[string]string{
		"repeated name":           strings.Replace(idle, `"text":"t"`, `"text":"t","text":"u"`, 1),
		"repeated name, escaped":  strings.Replace(idle, `"text":"t"`, `"text":"t","te\u0078t":"u"`, 1),
		"repeated name, far down": strings.Replace(idle, `"text":"t"`, `"text":"t","x":[{"a":1,"a":1}]`, 1),
		"invalid UTF-8":           strings.Replace(idle, `"t"`, "\"\xff\"", 1),
		"two objects":             idle + idle,
		"cut off":                 idle[:len(idle)-1],
		"an array":                "[" + idle + "]",
		"nothing":                 "",
		"null":                    "null",
	} {
		var invalid *ValidationError
		if err := loaded.Event("session.idle", []byte(data)); !errors.As(err, &invalid) || len(invalid.Hint) > maxHint {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := strings.Replace(idle, `"text"`, `"Text"`, 1)
	blame(t, "a name in another case", loaded.Event("session.idle", []byte(other)), "text")
}

func TestErrorsAreForPeople(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	for _, c := range []struct{ typ, from, to, want string }{
		{"session.idle", `"text":"t"`, `"text":7`, "schemas: session.idle: text: want string, got number"},
		{"session.idle", `"text":"t"`, `"texts":"t"`, "schemas: session.idle: text: is required, and missing"},
		{"session.idle", `"epoch":1`, `"epoch":-1`, "schemas: session.idle: epoch: want 1 or more, got less"},
		{"session.idle", `"prev":"4`, `"prev":"`, `schemas: session.idle: prev: got "7DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", want a SHA-256 in base64url without padding (43 characters)`},
		{"session.idle", `01ARZ3`, long, `schemas: session.idle: id: got "` + strings.Repeat("é", 22) + `…", want a ULID`},
		{"session.closed", `"session.idle"`, `"session.idle"`, `schemas: session.closed: type: want "session.closed", got "session.idle"`},
		{"session.closed", `"session.idle"`, `"session.closed","cause":"x","status":"done"`, `schemas: session.closed: status: want one of completed, cancelled, got "done"`},
		{"session.closed", `"session.idle"`, `"session.closed"`, `schemas: session.closed: cause: is required, and missing (and 1 more)`},
	} {
		err := loaded.Event(c.typ, []byte(strings.Replace(idle, c.from, c.to, 1)))
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestErrorsAreBoundedAndStable: the same data gets the same words each time,
// what says which schema counts comes first, and no data makes them long.
func TestErrorsAreBoundedAndStable(t *testing.T) {
	blame(t, "a type that is a number, and more", loaded.Event("session.closed", []byte(`{"type":7}`)), "type")
	many := []byte(strings.Replace(idle, `"version":1`, `"version":1,"input_ids":[1,2,3],"disposition":1,"operation_ids":{},"continuation":[]`, 1))
	many = []byte(strings.Replace(string(many), "session.idle", "generation.finished", 1))
	first := loaded.Event("generation.finished", many)
	for range 50 {
		if again := loaded.Event("generation.finished", many); again.Error() != first.Error() {
			t.Fatalf("first %v, then %v", first, again)
		}
	}
	noise := strings.Repeat("\x01", 1000)
	inBounds(t, loaded.Event(noise, []byte(idle)))
	inBounds(t, loaded.Event(noise, nil))
	inBounds(t, loaded.Input(noise, nil))
	inBounds(t, loaded.Event("session.idle", []byte(`{"type":"`+strings.Repeat(`\u0001`, 1000)+`"}`)))
}
