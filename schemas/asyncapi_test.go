package schemas

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/loopd/loopd/event"
)

func readAsyncAPI(t *testing.T) map[string]any {
	t.Helper()
	data, err := FS.ReadFile("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.UnmarshalWithOptions(data, &doc, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at walks a document by keys.
func at(t *testing.T, doc any, steps ...string) any {
	t.Helper()
	for _, step := range steps {
		m, ok := doc.(map[string]any)
		if !ok || m[step] == nil {
			t.Fatalf("asyncapi.yaml has no %s", strings.Join(steps, "/"))
		}
		doc = m[step]
	}
	return doc
}

func TestAsyncAPIAddresses(t *testing.T) {
	doc := readAsyncAPI(t)
	if doc["asyncapi"] != "3.0.0" {
		t.Errorf("asyncapi is %v", doc["asyncapi"])
	}
	want := map[string]string{
		"inbox":  "loop.in.{session}.{input}",
		"events": "loop.ev.{session}.{family}.{transition}",
		"frames": "loop.op.{session}.{operation}",
	}
	for _, family := range families() {
		want["events."+family] = "loop.ev.{session}." + family + ".{transition}"
	}
	channels := at(t, doc, "channels").(map[string]any)
	for name, node := range channels {
		address, _ := at(t, node, "address").(string)
		if address != want[name] {
			t.Errorf("channel %s is at %q, want %q", name, address, want[name])
		}
		parameters := at(t, node, "parameters").(map[string]any)
		if got := strings.Count(address, "{"); got != len(parameters) {
			t.Errorf("channel %s: %d parameters in the address, %d described", name, got, len(parameters))
		}
		for parameter := range parameters {
			if !strings.Contains(address, "{"+parameter+"}") {
				t.Errorf("channel %s: no parameter %s in the address", name, parameter)
			}
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("no channel %s", name)
	}
	var enum []string
	for _, f := range at(t, doc, "channels", "events", "parameters", "family", "enum").([]any) {
		enum = append(enum, f.(string))
	}
	if slices.Sort(enum); !slices.Equal(enum, families()) {
		t.Errorf("families %v, want %v", enum, families())
	}
}

func TestAsyncAPIMessages(t *testing.T) {
	doc := readAsyncAPI(t)
	messages := func(channel string) []string {
		var out []string
		for name := range at(t, doc, "channels", channel, "messages").(map[string]any) {
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	if got := messages("events"); !slices.Equal(got, loaded.EventTypes()) {
		t.Errorf("events carry %v", got)
	}
	if got := messages("inbox"); !slices.Equal(got, loaded.InputKinds()) {
		t.Errorf("the inbox carries %v", got)
	}
	for _, family := range families() {
		want := slices.DeleteFunc(slices.Clone(loaded.EventTypes()), func(typ string) bool { return event.Type(typ).Family() != family })
		if got := messages("events." + family); !slices.Equal(got, want) {
			t.Errorf("events.%s carry %v, want %v", family, got, want)
		}
	}
	for _, typ := range loaded.EventTypes() {
		payloadIs(t, doc, typ, "./events/"+typ+".json")
	}
	for _, kind := range loaded.InputKinds() {
		payloadIs(t, doc, "input."+kind, "./inputs/"+kind+".json")
	}
}

func payloadIs(t *testing.T, doc any, message, file string) {
	t.Helper()
	if got := at(t, doc, "components", "messages", message, "payload", "schema", "$ref"); got != file {
		t.Errorf("message %s has the schema %v, want %s", message, got, file)
	}
}

// TestAsyncAPIReferences resolves every $ref: to a file here, or to a place in
// the document.
func TestAsyncAPIReferences(t *testing.T) {
	doc := readAsyncAPI(t)
	count := 0
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, item := range node {
				walk(item)
			}
		case map[string]any:
			for key, value := range node {
				ref, ok := value.(string)
				if key != "$ref" || !ok {
					walk(value)
					continue
				}
				count++
				if local, ok := strings.CutPrefix(ref, "#/"); ok {
					at(t, doc, strings.Split(local, "/")...)
				} else if _, err := FS.ReadFile(strings.TrimPrefix(ref, "./")); err != nil {
					t.Errorf("%s: %v", ref, err)
				}
			}
		}
	}
	walk(doc)
	if count < 2*len(loaded.EventTypes()) {
		t.Errorf("only %d references", count)
	}
}

// families are the first words of the event types, sorted.
func families() []string {
	var out []string
	for _, typ := range event.Types() {
		out = append(out, typ.Family())
	}
	slices.Sort(out)
	return slices.Compact(out)
}
