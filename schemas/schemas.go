// Package schemas holds the words of the log as JSON Schema (2020-12): one
// file for each event type of contract section 4, one for each input kind of
// section 3, and asyncapi.yaml, which says on which subjects they travel. The
// files are embedded, for hosts and tools in any language and for the auditor
// (rule E2), who must not trust the Go types that wrote a log. Beside them, in
// bailing, stand the words of the Bailing hub, whose operations an owner looks
// up (section 6.1): for tools and tests, a Set does not use them.
//
// Invariants
//
//  1. The files and the payload structs of package event say the same; a test
//     compares them both ways, and enumerations with the constants.
//  2. What the contract does not require is optional: a field that only our
//     writer adds (hint, veto, invocation_id of job.queued, result of
//     job.recovered) may be missing in a foreign log.
//  3. Unknown fields are allowed everywhere, and an unknown type needs only a
//     right envelope (contract, section 2).
//  4. JSON is read strictly before it is validated: a repeated name, invalid
//     UTF-8 or anything after the object is refused. Numbers stay exact.
//
// It does not judge what may follow what (package replay), nor whether an
// input may be sent now (package loop). Lengths that are configurable are not
// in the schemas, but for the 1 to 128 characters of an input's ids.
package schemas

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FS holds the schema files and asyncapi.yaml, for tools. Set is the way to
// validate with them.
//
//go:embed *.json events/*.json inputs/*.json bailing/*.json asyncapi.yaml
var FS embed.FS

// base is where the files' $id places them: the name they refer to each other
// by. Nothing is ever fetched from there.
const base = "https://github.com/loopd/loopd/schemas/"

// Set is the compiled schemas. It is read-only after Load, and safe for use by
// several goroutines.
type Set struct {
	envelope *jsonschema.Schema
	events   map[string]*jsonschema.Schema // by event type
	inputs   map[string]*jsonschema.Schema // by input kind
}

// Load compiles the embedded schemas: about ten milliseconds, so
// once a process; callers hold the Set. It fails only if an embedded file is broken.
func Load() (*Set, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(sealedLoader{})
	if err := addFiles(c); err != nil {
		return nil, err
	}
	envelope, err := c.Compile(base + "envelope.json")
	if err != nil {
		return nil, fmt.Errorf("schemas: compile envelope: %w", err)
	}
	s := &Set{envelope: envelope}
	if s.events, err = compileFolder(c, "events"); err != nil {
		return nil, err
	}
	if s.inputs, err = compileFolder(c, "inputs"); err != nil {
		return nil, err
	}
	return s, nil
}

// Event validates one stored event against the schema of its type (rule E2).
// A type, or an envelope version, that is not known here needs only a right
// envelope. The error is a [*ValidationError].
func (s *Set) Event(eventType string, data []byte) error {
	doc, err := parse(eventType, data)
	if err != nil {
		return err
	}
	if got, ok := doc["type"].(string); ok && got != eventType {
		return invalid(eventType, "type", "want "+quoted(eventType)+", got "+quoted(got))
	}
	schema, known := s.events[eventType]
	if !known || newer(doc["version"]) {
		schema = s.envelope
	}
	return explain(eventType, schema.Validate(doc))
}

// Input validates one input, as a host sends it, against the schema of its
// kind. The error is a [*ValidationError]. The length of text is not checked:
// it is configurable (event.Input.Check holds it).
func (s *Set) Input(kind string, data []byte) error {
	name := "input " + kind
	schema, known := s.inputs[kind]
	if !known {
		return invalid("input", "kind", quoted(kind)+" is not one of "+strings.Join(s.InputKinds(), ", "))
	}
	doc, err := parse(name, data)
	if err != nil {
		return err
	}
	return explain(name, schema.Validate(doc))
}

// EventTypes lists the event types that have a schema, sorted.
func (s *Set) EventTypes() []string { return slices.Sorted(maps.Keys(s.events)) }

// InputKinds lists the input kinds, sorted.
func (s *Set) InputKinds() []string { return slices.Sorted(maps.Keys(s.inputs)) }

// sealedLoader refuses what is not embedded: no schema is read from a disk or
// a network.
type sealedLoader struct{}

func (sealedLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schemas: load %s: not an embedded schema", url)
}

func addFiles(c *jsonschema.Compiler) error {
	return fs.WalkDir(FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		data, err := FS.ReadFile(name)
		if err != nil {
			return fmt.Errorf("schemas: read %s: %w", name, err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("schemas: parse %s: %w", name, err)
		}
		if err := c.AddResource(base+name, doc); err != nil {
			return fmt.Errorf("schemas: add %s: %w", name, err)
		}
		return nil
	})
}

// compileFolder compiles each file of a folder under its name without .json.
func compileFolder(c *jsonschema.Compiler, folder string) (map[string]*jsonschema.Schema, error) {
	entries, err := FS.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("schemas: list %s: %w", folder, err)
	}
	compiled := make(map[string]*jsonschema.Schema, len(entries))
	for _, e := range entries {
		schema, err := c.Compile(base + folder + "/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("schemas: compile %s: %w", e.Name(), err)
		}
		compiled[strings.TrimSuffix(e.Name(), ".json")] = schema
	}
	return compiled, nil
}

// parse reads data as one JSON object: strictly first, then with exact
// numbers, as the validator wants it.
func parse(name string, data []byte) (map[string]any, error) {
	var strict jsontext.Value
	if err := json.Unmarshal(data, &strict); err != nil {
		return nil, invalid(name, "", "not one JSON object: "+err.Error())
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, invalid(name, "", "not one JSON object: "+err.Error())
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, invalid(name, "", "want one JSON object, got "+describe(doc))
	}
	return tamed(object).(map[string]any), nil
}
