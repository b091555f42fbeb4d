package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/loopd/loopd/event"
)

// TestWhatEncodeMakesIsValid holds the writer to the schemas: each payload
// with everything in it, and with the optional fields left out.
func TestWhatEncodeMakesIsValid(t *testing.T) {
	for _, typ := range event.Types() {
		schema := readRaw(t, "events/"+string(typ)+".json")
		for _, full := range []bool{true, false} {
			p := payload(t, typ)
			fill(p, schema, full)
			data := stored(t, p)
			if err := loaded.Event(string(typ), data); err != nil {
				t.Errorf("full=%v: %v in %s", full, err, data)
			}
		}
	}
}

// TestEveryRequirementBites changes one thing at a time in a full sample, and
// each change must be refused, at its field.
func TestEveryRequirementBites(t *testing.T) {
	for _, typ := range loaded.EventTypes() {
		p := payload(t, event.Type(typ))
		schema := readRaw(t, "events/"+typ+".json")
		fill(p, schema, true)
		sample := stored(t, p)
		changes := 0
		eachChange(schema, nil, func(at []string, what string, change func(map[string]any, string)) {
			if len(at) == 1 && at[0] == "type" && what == "other value" {
				return // another type is another schema
			}
			changes++
			data := changed(t, sample, at, change)
			err := loaded.Event(typ, data)
			var invalid *ValidationError
			if !errors.As(err, &invalid) {
				t.Errorf("%s %s, %s: not refused", typ, strings.Join(at, "."), what)
				return
			}
			if field := fieldName(at); !strings.HasPrefix(invalid.Field, field) || len(invalid.Hint) > maxHint {
				t.Errorf("%s %s, %s: blamed on %s", typ, field, what, invalid)
			}
		})
		if changes < 20 {
			t.Errorf("%s: only %d changes tried", typ, changes)
		}
	}
}

// eachChange visits the places of a schema with every change that it must not
// survive.
func eachChange(schema raw, at []string, visit func([]string, string, func(map[string]any, string))) {
	required := schema.required()
	properties := schema.properties()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, place := properties[name], append(slices.Clone(at), name)
		set := func(what string, value any) {
			visit(place, what, func(m map[string]any, name string) { m[name] = value })
		}
		if slices.Contains(required, name) {
			visit(place, "missing", func(m map[string]any, name string) { delete(m, name) })
		}
		set("null", nil)
		switch p.jsonType() {
		case "string":
			set("number", 42)
			if len(p.values()) > 0 || p.word("pattern") != "" {
				set("other value", "no such value!")
			}
			if p.word("pattern") == "" && p.follow().node["minLength"] != nil {
				set("empty", "")
			}
		case "boolean":
			set("string", "true")
			if len(p.values()) > 0 {
				set("other value", p.values()[0] == false)
			}
		case "integer":
			set("fraction", 1.5)
			set("negative", -1)
			set("string", "1")
		case "number":
			set("negative", -0.5)
			set("string", "1")
		case "array":
			set("object", map[string]any{})
			if item, ok := p.items(); ok {
				set("null within", []any{nil})
				if item.jsonType() == "object" {
					visitItem(item, place, visit)
				}
			}
		case "object":
			set("array", []any{})
			eachChange(p.follow(), place, visit)
		}
	}
}

func visitItem(item raw, place []string, visit func([]string, string, func(map[string]any, string))) {
	eachChange(item, append(slices.Clone(place), "0"), visit)
}

// changed is the sample with one change at a place.
func changed(t *testing.T, sample []byte, at []string, change func(map[string]any, string)) []byte {
	t.Helper()
	var doc any
	if err := json.Unmarshal(sample, &doc); err != nil {
		t.Fatal(err)
	}
	node := doc
	for _, step := range at[:len(at)-1] {
		if list, ok := node.([]any); ok {
			node = list[0]
			continue
		}
		node = node.(map[string]any)[step]
	}
	change(node.(map[string]any), at[len(at)-1])
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fill gives each field of a struct a value that its schema takes; without
// full, optional fields stay empty.
func fill(v reflect.Value, schema raw, full bool) {
	properties := schema.properties()
	for name, f := range fields(v.Type()) {
		if !f.optional || full {
			fillValue(v.FieldByIndex(f.index), properties[name], full)
		}
	}
}

func fillValue(v reflect.Value, p raw, full bool) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), p, full)
	case reflect.String:
		v.SetString(sampleString(p))
	case reflect.Bool:
		v.SetBool(full)
		if values := p.values(); len(values) > 0 {
			v.SetBool(values[0].(bool))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(404)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Struct:
		fill(v, p.follow(), full)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[jsontext.Value]() {
			v.SetBytes([]byte(`{"input_id":"in-1","kind":"user","text":"hello","x":[1]}`))
		} else if full {
			item, _ := p.items()
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fillValue(v.Index(0), item, full)
			fillValue(v.Index(1), item, full)
		}
	default:
		panic(fmt.Sprintf("no sample for %s", v.Type()))
	}
}

func sampleString(p raw) string {
	switch {
	case len(p.values()) > 0:
		return p.values()[0].(string)
	case p.word("format") == "date-time":
		return "2026-01-01T00:00:00.000001Z"
	case p.word("pattern") != "":
		return event.Digest([]byte("x"))
	}
	return "x"
}
