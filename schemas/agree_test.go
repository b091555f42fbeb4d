package schemas

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loopd/loopd/event"
)

// beyondContract are the fields that our writer always sets and that the
// contract does not require: optional in the schemas.
var beyondContract = map[string]bool{
	"job.queued invocation_id":        true,
	"job.returned result":             true,
	"operation.completed usage.input": true, "operation.completed usage.output": true, "operation.completed usage.reasoning": true,
	"operation.completed tool_calls[].id": true, "operation.completed tool_calls[].name": true,
	"operation.completed tool_calls[].arguments": true, "operation.completed tool_calls[].closed": true,
}

// beyondWriter are the fields that the contract allows and our writer never
// sets.
var beyondWriter = map[string]bool{
	"job.cancelled result":        true,
	"job.cancel_requested result": true,
}

// causeRequired are the events that are nothing without a cause (contract,
// section 2): the four that it names, and what only a command brings about.
var causeRequired = []string{
	"continuation.started", "generation.started", "input.withdrawn", "invocation.approved", "invocation.denied",
	"invocation.proposed", "job.cancel_requested", "operation.admitted", "session.closed",
}

// payload returns a zero payload of a type.
func payload(t *testing.T, typ event.Type) reflect.Value {
	t.Helper()
	e, err := event.Decode([]byte(`{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"` + string(typ) +
		`","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":""}`))
	if err != nil {
		t.Fatal(err)
	}
	return reflect.New(reflect.TypeOf(e.Payload)).Elem()
}

func TestTypesAreTheCatalogue(t *testing.T) {
	var catalogue []string
	for _, typ := range event.Types() {
		catalogue = append(catalogue, string(typ))
	}
	slices.Sort(catalogue)
	if got := loaded.EventTypes(); !slices.Equal(got, catalogue) {
		t.Errorf("schemas for %v\nwant %v", got, catalogue)
	}
}

func TestSchemasAgreeWithPayloads(t *testing.T) {
	for _, typ := range event.Types() {
		schema := readRaw(t, "events/"+string(typ)+".json")
		agree(t, string(typ)+" ", schema, payload(t, typ).Type(), envelopeFields)
		if got, want := slices.Contains(schema.required(), "cause"), slices.Contains(causeRequired, string(typ)); got != want {
			t.Errorf("%s: cause required is %v, want %v", typ, got, want)
		}
	}
}

func TestEnvelopeAgrees(t *testing.T) {
	envelope := readRaw(t, "envelope.json")
	names := slices.Sorted(maps.Keys(envelope.properties()))
	if want := slices.Sorted(slices.Values(envelopeFields)); !slices.Equal(names, want) {
		t.Errorf("envelope has %v, want %v", names, want)
	}
	required := slices.DeleteFunc(slices.Clone(envelopeFields), func(n string) bool { return n == "cause" })
	if want := slices.Sorted(slices.Values(required)); !slices.Equal(envelope.required(), want) {
		t.Errorf("envelope requires %v, want %v", envelope.required(), want)
	}
}

func TestInputSchemaAgrees(t *testing.T) {
	typ := reflect.TypeFor[event.Input]()
	agree(t, "input ", readRaw(t, "input.json"), typ, nil)
	common := fields(typ)
	for _, kind := range loaded.InputKinds() {
		for name := range readRaw(t, "inputs/"+kind+".json").node["properties"].(map[string]any) {
			if _, ok := common[name]; !ok {
				t.Errorf("%s: %s is not a field of an input", kind, name)
			}
		}
	}
}

// agree compares one object's schema with its struct, both ways and down.
// apart are the properties that are not the struct's business.
func agree(t *testing.T, at string, schema raw, typ reflect.Type, apart []string) {
	t.Helper()
	properties, required := schema.properties(), schema.required()
	inStruct := fields(typ)
	for name := range properties {
		if _, ok := inStruct[name]; !ok && !slices.Contains(apart, name) && !beyondWriter[at+name] {
			t.Errorf("%s%s: in the schema, not in %s", at, name, typ)
		}
	}
	for name, f := range inStruct {
		p, ok := properties[name]
		if !ok {
			t.Errorf("%s%s: in %s, not in the schema", at, name, typ)
			continue
		}
		want := !f.optional && !beyondContract[at+name]
		if got := slices.Contains(required, name); got != want {
			t.Errorf("%s%s: required is %v, want %v", at, name, got, want)
		}
		agreeValue(t, at+name, p, f.typ)
	}
}

func agreeValue(t *testing.T, at string, p raw, typ reflect.Type) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[jsontext.Value]() {
		return
	}
	if got, want := p.jsonType(), jsonTypeOf(typ); got != want {
		t.Errorf("%s: type %q, want %q", at, got, want)
	}
	switch typ.Kind() {
	case reflect.Struct:
		agree(t, at+".", p.follow(), typ, nil)
	case reflect.Slice:
		item, ok := p.items()
		if ok {
			agreeItem(t, at, item, typ.Elem())
		} else if typ.Elem() != reflect.TypeFor[jsontext.Value]() {
			t.Errorf("%s: items are not described", at)
		}
	}
}

func agreeItem(t *testing.T, at string, item raw, typ reflect.Type) {
	t.Helper()
	if typ.Kind() == reflect.Struct {
		agree(t, at+"[].", item, typ, nil)
		return
	}
	agreeValue(t, at+"[]", item, typ)
}

func jsonTypeOf(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		return "object"
	}
	return fmt.Sprint(typ)
}

type field struct {
	typ      reflect.Type
	optional bool
	index    []int
}

// fields are a struct's JSON fields, embedded ones included.
func fields(typ reflect.Type) map[string]field {
	out := map[string]field{}
	for _, f := range reflect.VisibleFields(typ) {
		tag, ok := f.Tag.Lookup("json")
		if !ok || f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		out[name] = field{f.Type, options == "omitzero", f.Index}
	}
	return out
}

// stored encodes a payload as it would lie in the log.
func stored(t *testing.T, p reflect.Value) []byte {
	t.Helper()
	e, err := event.Encode(event.Event{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", SessionID: "s", Sequence: 2, Epoch: 1, Time: time.Unix(1, 0),
		Prev: event.Digest(nil), Cause: "in-1", Payload: p.Interface().(event.Payload),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Stored()
}
