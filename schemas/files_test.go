package schemas

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// eachFile visits the embedded schema files.
func eachFile(t *testing.T, visit func(name string, data []byte)) {
	t.Helper()
	err := fs.WalkDir(FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		data, err := FS.ReadFile(name)
		if err == nil {
			visit(name, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreSchemas(t *testing.T) {
	meta, err := jsonschema.NewCompiler().Compile(dialect)
	if err != nil {
		t.Fatal(err)
	}
	eachFile(t, func(name string, data []byte) {
		if !jsontext.Value(data).IsValid() {
			t.Fatalf("%s: not strict JSON", name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := meta.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		top := doc.(map[string]any)
		stem := strings.TrimSuffix(path.Base(name), ".json")
		if top["$schema"] != dialect || top["$id"] != base+name || top["title"] != stem {
			t.Errorf("%s: $schema %v, $id %v, title %v", name, top["$schema"], top["$id"], top["title"])
		}
		if d, _ := top["description"].(string); !strings.Contains(d, "contract, section") {
			t.Errorf("%s: the description cites no section: %q", name, d)
		}
		if folder := path.Dir(name); folder != "." {
			word := map[string]string{"events": "type", "inputs": "kind", "bailing": "schema"}[folder]
			if got := readRaw(t, name).properties()[word].values(); len(got) != 1 || got[0] != stem {
				t.Errorf("%s: %s is %v", name, word, got)
			}
		}
		keywords(t, name, top)
	})
}

// keywords checks that a schema uses only words that do what they look like:
// a misspelt keyword would be ignored, and nothing may close an object.
func keywords(t *testing.T, at string, node any) {
	t.Helper()
	schema, ok := node.(map[string]any)
	if !ok {
		return // true or false
	}
	known := strings.Fields("$schema $id $ref $defs title description type allOf properties required items enum const " +
		"pattern format minimum maximum minLength maxLength maxItems not if then contentMediaType")
	for word, value := range schema {
		if !slices.Contains(known, word) {
			t.Errorf("%s: keyword %s", at, word)
		}
		switch word {
		case "properties", "$defs":
			for name, sub := range value.(map[string]any) {
				keywords(t, at+"."+name, sub)
			}
		case "items", "not", "if", "then":
			keywords(t, at+"."+word, value)
		case "allOf":
			for _, sub := range value.([]any) {
				keywords(t, at+"."+word, sub)
			}
		case "required":
			for _, name := range value.([]any) {
				if word == "required" && len(name.(string)) == 0 {
					t.Errorf("%s: requires an empty name", at)
				}
			}
		case "pattern":
			if words := pattern(value.(string)); strings.HasPrefix(words, "a match of") {
				t.Errorf("%s: the pattern %s has no words for people", at, value)
			}
		}
	}
}

// TestEveryFileIsUsed: what neither names a type or kind nor is referred to is
// an orphan.
func TestEveryFileIsUsed(t *testing.T) {
	used := map[string]bool{}
	eachFile(t, func(name string, data []byte) {
		dec := json.NewDecoder(bytes.NewReader(data))
		for {
			token, err := dec.Token()
			if err != nil {
				break
			}
			if ref, ok := token.(string); ok && strings.Contains(ref, ".json") {
				file, _, _ := strings.Cut(ref, "#")
				used[path.Join(path.Dir(name), file)] = true
			}
		}
	})
	for _, typ := range loaded.EventTypes() {
		used["events/"+typ+".json"] = true
	}
	for _, kind := range loaded.InputKinds() {
		used["inputs/"+kind+".json"] = true
	}
	used["bailing/bailing.model-stream.v1.json"] = true // a frame on the wire: internal/provider/bailing holds it to streams
	eachFile(t, func(name string, _ []byte) {
		if !used[name] {
			t.Errorf("%s: nobody uses it", name)
		}
	})
}

func TestLoadReadsOnlyWhatIsEmbedded(t *testing.T) {
	if _, err := (sealedLoader{}).Load("file:///etc/schema.json"); err == nil {
		t.Error("a schema outside the package was loaded")
	}
}
