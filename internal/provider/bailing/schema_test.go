package bailing

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
	"github.com/loopd/loopd/schemas"
)

// hubSchemas are the hub's words as JSON Schema, by their name.
func hubSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	ids := map[string]string{}
	names, err := fs.Glob(schemas.FS, "bailing/*.json")
	if err != nil || len(names) != 3 {
		t.Fatalf("schemas %v (%v); want three", names, err)
	}
	for _, name := range names {
		data, err := schemas.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc := parse(t, data)
		id := doc.(map[string]any)["$id"].(string)
		ids[strings.TrimSuffix(path.Base(name), ".json")] = id
		if err := c.AddResource(id, doc); err != nil {
			t.Fatal(err)
		}
	}
	compiled := map[string]*jsonschema.Schema{}
	for name, id := range ids {
		if compiled[name], err = c.Compile(id); err != nil {
			t.Fatal(err)
		}
	}
	return compiled
}

func parse(t *testing.T, data []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestFilesSatisfyTheSchemas(t *testing.T) {
	hub := hubSchemas(t)
	for name, body := range files(t, "testdata/views/*.json", "bailing-get-*.json") {
		if err := hub[operationSchema].Validate(parse(t, []byte(body))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	count := 0
	for name, body := range files(t, "testdata/streams/*.sse", "bailing-stream-*.sse") {
		var parser sse.Parser
		if err := parser.Write([]byte(body), func(e sse.Event) {
			count++
			if err := hub[streamSchema].Validate(parse(t, e.Data)); err != nil {
				t.Errorf("%s: %s: %v", name, e.Data, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if count < 25 {
		t.Errorf("%d frames; want 25 or more", count)
	}
}

// TestSchemasRefuse plants one fault after the other. Where the adapter's own
// code must refuse it too, it is held to the same.
func TestSchemasRefuse(t *testing.T) {
	hub := hubSchemas(t)
	body := hello + stop + fin
	good := completed(body)
	checkFaults(t, hub[operationSchema], good, func(s string) bool {
		o, err := want(t).read([]byte(s))
		return err == nil && o.standing() != contradictory
	}, [][2]string{
		{"model-operation.v1", "model-operation.v2"},
		{`"operation_id"`, `"operation"`},
		{`"service_id":"svc"`, `"service_id":1`},
		{`"state":"completed"`, `"state":"done"`},
		{`"state":"completed"`, `"state":"failed"`},
		{`"state":"completed"`, `"state":"admitted"`},
		{`"result_state":"complete"`, `"result_state":"pending"`},
		{`"dispatch":"completed"`, `"dispatch":"rejected"`},
		{`"dispatch":"completed"`, `"dispatch":"sent"`},
		{`"next_action":"none"`, `"next_action":"retry"`},
		{`"response":`, `"answer":`},
		{`,"response":`, `,"response_expired":true,"response":`},
		{`"format":"sse"`, `"format":"json"`},
		{`"status":200`, `"status":600`},
		{`"status":200`, `"status":"200"`},
		{`"body":`, `"data":`},
		{"provider-response.v1", "provider-response.v2"},
	})
	second := strings.TrimSuffix(strings.TrimPrefix(frame(2, provider(body)), "data: "), "\n\n")
	checkFaults(t, hub[streamSchema], second, func(s string) bool {
		f := newFold(want(t), nil)
		f.write([]byte(frames(started) + "data: " + s + "\n\n" + frame(3, receipt(good))))
		_, open := f.end(httpwire.EndClean).(loop.Uncertain)
		return !open
	}, [][2]string{
		{"model-stream.v1", "model-stream.v2"},
		{`"operation_id"`, `"id"`},
		{`"seq":2`, `"seq":0`},
		{`"seq":2`, `"seq":1`},
		{`"seq":2`, `"seq":"2"`},
		{`"type":"provider"`, `"type":"started"`},
		{`"type":"provider"`, `"type":"operation"`},
		{`"type":"provider"`, `"type":"delta"`},
		{`"type":"provider"`, `"type":"novel"`},
		{`"provider":{`, `"piece":{`},
		{`"data":`, `"body":`},
		{`"format":"sse"`, `"format":"json"`},
		{`"status":200`, `"status":199`},
	})
}

func checkFaults(t *testing.T, schema *jsonschema.Schema, good string, adapter func(string) bool, faults [][2]string) {
	t.Helper()
	if err := schema.Validate(parse(t, []byte(good))); err != nil || !adapter(good) {
		t.Fatalf("the good one is refused: %v", err)
	}
	for _, f := range faults {
		bad := strings.Replace(good, f[0], f[1], 1)
		if bad == good {
			t.Fatalf("%s is not there", f[0])
		}
		if schema.Validate(parse(t, []byte(bad))) == nil {
			t.Errorf("%s instead of %s: the schema takes it", f[1], f[0])
		}
		if adapter(bad) {
			t.Errorf("%s instead of %s: the adapter takes it", f[1], f[0])
		}
	}
}
