package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func logOf(t *testing.T, lines ...string) []seen {
	t.Helper()
	var log []seen
	for i, line := range lines {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		log = append(log, seen{event: event.Event{Sequence: event.Seq(i + 1)}, fields: fields})
	}
	return log
}

func scenarioOf(t *testing.T, text string) *Scenario {
	t.Helper()
	sc, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestCheck(t *testing.T) {
	log := logOf(t,
		`{"type":"a","id":"1","list":["x","y"],"deep":{"n":1,"m":2}}`,
		`{"type":"b","id":"1"}`,
		`{"type":"a","id":"2","list":[]}`,
		`{"type":"b","id":"2","late":false}`,
	)
	for name, tc := range map[string]struct {
		text string
		want []string // "line: words", in order
	}{
		"in order":               {"expect:\n- {type: a, id: $i}\n- {type: b, id: $i}\n- {type: b, id: '2'}\n", nil},
		"others between":         {"expect:\n- {type: a}\n- {id: '2', type: b}\n", nil},
		"list and map":           {"expect:\n- {list: [$x, y], deep: {n: 1}}\n- {list: []}\n", nil},
		"null is not there":      {"expect:\n- {type: b, late: null}\n", nil},
		"first sight binds":      {"expect:\n- {type: a, id: $i}\n- {type: a, id: $j}\n- {type: b, id: $i}\n", []string{"4: not after event 3; it is event 2, too early"}},
		"wrong order":            {"expect:\n- {type: b}\n- {type: a, id: '1'}\n", []string{"3: it is event 1, too early"}},
		"wrong field":            {"expect:\n- {type: b, id: '3'}\n", []string{"2: comes closest, but its id is 1, not 3"}},
		"no field":               {"expect:\n- {type: b, text: x}\n", []string{"2: it has no text"}},
		"text is no number":      {"expect:\n- {type: b, id: 1}\n", []string{"2: its id is 1, not 1"}},
		"shorter list":           {"expect:\n- {list: [x]}\n", []string{"2: no such event"}},
		"not in the map":         {"expect:\n- {deep: {n: 1, k: 1}}\n", []string{"2: no such event"}},
		"no such type":           {"expect:\n- {type: c}\n", []string{"2: no such event after event 0"}},
		"never":                  {"never:\n- {type: c}\n- {type: b, id: '2'}\n", []string{"3: it is event 4"}},
		"never with a name":      {"expect:\n- {type: a, id: $i}\nnever:\n- {type: b, id: $i}\n", []string{"4: it is event 2"}},
		"count":                  {"count:\n- {type: a, n: 2}\n- {type: a, list: [], n: 1}\n- {type: c, n: 0}\n- {n: 4}\n", nil},
		"count wrong":            {"count:\n- {type: a, n: 1}\n- {type: c, n: 1}\n", []string{"2: 2 events match", "3: 0 events match"}},
		"count binds":            {"count:\n- {type: b, id: $i, n: 1}\n", nil},
		"two of one event":       {"expect:\n- {type: c}\n- {type: a, id: '2'}\n- {type: a, id: '1'}\n", []string{"2: no such event", "4: too early"}},
		"a failed match is free": {"expect:\n- {id: $i, type: b, late: false}\n- {id: $i, type: zz}\nnever:\n- {id: $i, type: b, late: true}\n", []string{"3: no such event"}},
	} {
		got := scenarioOf(t, tc.text).check(log, &Names{})
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
			continue
		}
		for i, want := range tc.want {
			line, words, _ := strings.Cut(want, ": ")
			if fmt.Sprint(got[i].Line) != line || !strings.Contains(got[i].Msg, words) {
				t.Errorf("%s: %+v, want %s", name, got[i], want)
			}
		}
	}
}

func TestExplainingBindsNothing(t *testing.T) {
	log := logOf(t, `{"type":"a","id":"1","n":1}`)
	names := &Names{}
	sc := scenarioOf(t, "expect:\n- {type: a, id: $i, n: 2}\nnever:\n- {type: b, id: $i}\n")
	if got := sc.check(log, names); len(got) != 1 {
		t.Fatal(got)
	}
	if v, err := names.Resolve("$i"); err == nil {
		t.Errorf("$i is bound to %v by an event that does not match", v)
	}
}

func TestResolve(t *testing.T) {
	names := &Names{}
	if !names.Match("$a", "x") || names.Match("$a", "y") || !names.Match("$a", "x") {
		t.Error("a name is bound at first sight and equal after")
	}
	if names.Match("$none", nil) {
		t.Error("a name was bound to what is not there")
	}
	got, err := names.Resolve(map[string]any{"l": []any{"$a", "$ 5", "a$a"}, "n": 1.0})
	if err != nil || !equal(got, map[string]any{"l": []any{"x", "$ 5", "a$a"}, "n": 1.0}) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := names.Resolve([]any{"$b"}); err == nil || !strings.Contains(err.Error(), "$b is not bound") {
		t.Errorf("an unbound name: %v", err)
	}
}

func TestRequestCheck(t *testing.T) {
	req := loop.Request{Messages: []loop.Message{
		{Role: loop.RoleSystem, Text: "be good"},
		{Role: loop.RoleUser, Text: "hello there", InputIDs: []string{"in-1", "in-2"}},
		{Role: loop.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "c", Arguments: `{"q":7}`}}},
		{Role: loop.RoleTool, Text: "42"},
	}}
	inputs := map[string]bool{"in-1": true, "in-2": true, "hello": true}
	names := &Names{}
	names.Match("$i", "in-2")
	for expect, want := range map[string]int{
		`{contains: [in-1, there, '42', $i, '"q":7'], not_contains: [nobody], roles: [system, user, assistant, tool]}`: 0,
		`{roles: [user, tool]}`:       0,
		`{roles: [tool, user]}`:       1,
		`{contains: [hello]}`:         1, // an input's id, although the text stands there
		`{contains: [nobody, none]}`:  2,
		`{not_contains: [in-2, $i]}`:  2,
		`{contains: [$unbound]}`:      1,
		`{not_contains: [$unbound]}`:  0,
		`{roles: [system, system]}`:   1,
		`{not_contains: ['hello t']}`: 1,
	} {
		r := scenarioOf(t, "provider:\n- expect: "+expect+"\n").Requests[0]
		if got := r.Check(req, inputs, names); len(got) != want || r.Line != 2 {
			t.Errorf("%s: %q", expect, got)
		}
	}
}
