package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/scripted"
)

// shared are the conformance scenarios beside the repository, if they are there.
func shared(t *testing.T) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "..", "shared", "conformance", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ours are the scenarios of this package that hold: of the file format and the
// player (hold), and of the contract's section 6 (recovery, continuation),
// sentence by sentence: ARCHITECTURE.md.
func ours(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, folder := range []string{"hold", "recovery", "continuation"} {
		files = append(files, in(t, folder)...)
	}
	return files
}

// in are the scenarios of one folder of testdata.
func in(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", folder, "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no scenarios in testdata/%s: %v", folder, err)
	}
	return found
}

func TestLoadReadsEveryFile(t *testing.T) {
	for _, file := range append(ours(t), shared(t)...) {
		sc, err := Load(file)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if sc.About == "" || len(sc.Host) == 0 {
			t.Errorf("%s: about %q, %d host steps", file, sc.About, len(sc.Host))
		}
	}
}

const everyKey = `about: every key # a comment
session: other
config:
  steering: native
  continuation: {max_segments: 3, no_progress: 0, max_tokens: 10, max_cost: 1.5, max_elapsed: 90s, expires_at: 2026-01-01T00:10:00Z}
  output_budget: 100
  tools:
    read: {effect: read}
    pay: {effect: write, approval: required, background: false}
  limits: {pending: 3, text: 10}
  timeouts: {steer: 5s, operation: 1m}
host:
  - submit: {input_id: in, kind: user, text: 42, repeat: 2, task: {max_segments: 2}}
  - await: {type: generation.started, generation_id: $g}
  - await: {all: [{type: job.queued}, &f {type: generation.finished}], timeout: 1s}
  - await: {any: [*f]}
  - open: gate
  - crash: loopd
  - crash: {at: "stored:operation.admitted"}
  - start: loopd
  - start: {as: b}
  - claim: b
  - hold: {at: "after:checkpoint.saved", until: gate}
  - inspect: {operation: $o}
  - advance: 3m
  - rebuild: projections
provider:
  - expect: {contains: [in-1, a text], not_contains: [in-2], roles: [system, user]}
    frames:
      - text: a
      - reasoning: b
      - wait: gate
      - block_end: text
      - tool_call: {id: c1, name: read, arguments: '{"q":1}'}
      - steer: {in-1: accepted, in-2: hangs}
      - applied: [in-1]
      - error: {status: 500, code: broken}
      - drop: true
      - finish: odd
    usage: {input: 1, output: 2, reasoning: 3, cost: 0.5}
    lookup: [pending, complete]
tools:
  read: [{wait: gate, result: {a: [1, null]}}, {error: no}, {lost: true, lookup: complete}]
expect:
  - {type: generation.started}
never:
  - {type: generation.failed}
count:
  - {type: generation.finished, n: 1}
effects: {read: 3}
requests: 1
projection:
  - {input: in-1, state: delivered}
`

func TestParseTakesEveryKey(t *testing.T) {
	sc, err := Parse("every.yaml", []byte(everyKey))
	if err != nil {
		t.Fatal(err)
	}
	c := sc.Loop
	switch {
	case sc.Session != "other", c.Steering != event.SteeringModeNative, !c.Service.Native:
		t.Errorf("session %q, steering %q", sc.Session, c.Steering)
	case c.Bounds.MaxSegments != 3, c.Bounds.NoProgress != 0, c.Bounds.MaxTokens != 10, c.Bounds.MaxCost != 1.5,
		c.Bounds.MaxElapsed != 90*time.Second, !c.Bounds.ExpiresAt.Equal(epochStart.Add(10 * time.Minute)):
		t.Errorf("bounds %+v", c.Bounds)
	case c.Limits.Pending != 3, c.Limits.Text != 10, c.Timeouts.Steer != 5*time.Second, c.Timeouts.Operation != time.Minute, c.OutputBudget != 100:
		t.Errorf("config %+v", c)
	case c.Tools["pay"].Approval != event.ApprovalRequired, c.Tools["read"].Effect != event.EffectRead:
		t.Errorf("tools %+v", c.Tools)
	case len(sc.Host) != 14, sc.Host[0].Line != 13, !sc.inputs["in-2"], sc.inputs["in"]:
		t.Errorf("%d steps, the first in line %d, inputs %v", len(sc.Host), sc.Host[0].Line, sc.inputs)
	case len(sc.Provider) != 1 || len(sc.Provider[0].Frames) != 10 || len(sc.Provider[0].Lookup) != 2:
		t.Errorf("provider %+v", sc.Provider)
	case sc.Provider[0].Frames[5].(scripted.Steer).Answers[1] != scripted.SteerAnswer{InputID: "in-2", Answer: scripted.SteerHangs}:
		t.Errorf("steer frame %+v", sc.Provider[0].Frames[5])
	case sc.Tools["read"][0].Result != `{"a":[1,null]}`, !sc.Tools["read"][1].Failed, !sc.Tools["read"][2].Lost:
		t.Errorf("tools %+v", sc.Tools)
	case sc.Count[0].N != 1, sc.Count[0].Fields["n"] != nil, sc.Asked.N != 1, sc.Effects[0].N != 3:
		t.Errorf("count %+v, requests %+v, effects %+v", sc.Count, sc.Asked, sc.Effects)
	case sc.Projection[0].Kind != "input", sc.Projection[0].ID != "in-1":
		t.Errorf("projection %+v", sc.Projection)
	}
	if text := sc.Host[0].Do.(Submit).Fields[2]; text.Key != "text" || text.Value != "42" {
		t.Errorf("a text needs no quotes, it came as %#v", text)
	}
	if a := sc.Host[2].Do.(Await); len(a.All) != 2 || a.Timeout != time.Second {
		t.Errorf("await all %+v", a)
	}
	if crash := sc.Host[6].Do.(Crash); crash.At.String() != "stored:operation.admitted" {
		t.Errorf("crash %+v", crash)
	}
}

func TestParseNamesFileAndLine(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		line int
		msg  string
	}{
		"top key":          {"about: x\nhosts: []\n", 2, `unknown key "hosts"`},
		"config key":       {"config:\n  steering: native\n  colour: red\n", 3, `unknown key "colour"`},
		"bound":            {"config:\n  continuation:\n    max_segment: 1\n", 3, `unknown key "max_segment"`},
		"tool key":         {"config: {tools: {a: {\n  effects: read}}}\n", 2, `unknown key "effects"`},
		"tool effect":      {"config: {tools: {a: {effect: reads}}}\n", 1, "effect is one of"},
		"step":             {"host:\n  - submit: {input_id: a, kind: user, text: t}\n  - wait: x\n", 3, `unknown key "wait"`},
		"two steps in one": {"host:\n  - {open: a, claim: b}\n", 2, "one key"},
		"submit key":       {"host:\n  - submit: {input_id: a, kind: user, txt: t}\n", 2, `unknown key "txt"`},
		"submit no id":     {"host:\n  - submit: {kind: user, text: t}\n", 2, "submit needs input_id"},
		"task key":         {"host:\n  - submit: {input_id: a, task: {segments: 1}}\n", 2, `unknown key "segments"`},
		"await both":       {"host:\n  - await: {all: [{type: session.idle}], any: [{type: session.idle}]}\n", 2, "not both"},
		"await nothing":    {"host:\n  - await: {all: []}\n", 2, "at least one"},
		"await list":       {"host:\n  - await: [a]\n", 2, "not a list"},
		"point":            {"host:\n  - crash: {at: operation.admitted}\n", 2, "before:TYPE"},
		"point type":       {"host:\n  - crash: {at: \"after:operation.admited\"}\n", 2, "no event has the type"},
		"hold":             {"host:\n  - hold: {at: \"after:operation.admitted\"}\n", 2, "hold needs until"},
		"start":            {"host:\n  - start: {at: b}\n", 2, `unknown key "at"`},
		"advance":          {"host:\n  - advance: soon\n", 2, "duration"},
		"rebuild":          {"host:\n  - rebuild: all\n", 2, "projections"},
		"frame":            {"provider:\n  - frames:\n      - texts: a\n", 3, `unknown key "texts"`},
		"entry":            {"provider:\n  - frame: []\n", 2, `unknown key "frame"`},
		"expect key":       {"provider:\n  - expect: {has: [a]}\n", 2, `unknown key "has"`},
		"role":             {"provider:\n  - expect: {roles: [robot]}\n", 2, "a role is one of"},
		"lookup":           {"provider:\n  - lookup: done\n", 2, "lookup is one of"},
		"steer":            {"provider:\n  - frames:\n      - steer: {a: yes}\n", 3, "an answer to steer is one of"},
		"arguments":        {"provider:\n  - frames:\n      - tool_call: {id: a, name: b, arguments: {q: 1}}\n", 3, "quotes"},
		"usage":            {"provider:\n  - usage: {in: 1}\n", 2, `unknown key "in"`},
		"tool entry":       {"tools:\n  a:\n    - {value: 1}\n", 3, `unknown key "value"`},
		"result and error": {"tools:\n  a:\n    - {result: 1, error: x}\n", 3, "not both"},
		"expect text":      {"expect:\n  - generation.started\n", 2, "a map of fields"},
		"not UTF-8":        {"about: a\nsession: \xff\n", 2, "not UTF-8"},
		"count":            {"count:\n  - {type: generation.started}\n", 2, "count needs n"},
		"count n":          {"count:\n  - {type: generation.started, n: -1}\n", 2, "whole number"},
		"effects":          {"effects: {a: b}\n", 1, "whole number"},
		"requests":         {"about: x\nrequests: many\n", 2, "whole number"},
		"projection":       {"projection:\n  - {state: held}\n", 2, "names one of session"},
		"repeated key":     {"about: a\nrequests: 1\nabout: b\n", 3, "already defined"},
		"repeated in flow": {`{"host": [{"submit": {"input_id": "a", "input_id": "b"}}]}`, 1, "already defined"},
		"not yaml":         {"about: a\nhost: [\n", 2, ""},
		"two documents":    {"about: a\n---\nabout: b\n", 3, "second document"},
		"a list":           {"- a\n", 1, "a scenario is a map"},
		"alias":            {"about: *a\n", 1, "names no anchor"},
		"empty":            {"", 0, "empty"},
	} {
		_, err := Parse("f.yaml", []byte(tc.text))
		var at *ParseError
		if !errors.As(err, &at) {
			t.Errorf("%s: error %v is no *ParseError", name, err)
			continue
		}
		if at.Line != tc.line || at.File != "f.yaml" || !strings.Contains(at.Msg, tc.msg) {
			t.Errorf("%s: %v, want line %d and %q", name, err, tc.line, tc.msg)
		}
	}
}

func TestJSONIsAScenarioToo(t *testing.T) {
	sc, err := Parse("f.json", []byte(`{"about": "j", "host": [{"submit": {"input_id": "a", "kind": "user", "text": "x\u0041\n"}}],
  "provider": [{"frames": [{"finish": "stop"}]}], "expect": [{"type": "generation.finished", "input_ids": ["a"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if f := sc.Host[0].Do.(Submit).Fields[2]; f.Value != "xA\n" || sc.Expect[0].Line != 2 {
		t.Errorf("text %q, expect in line %d", f.Value, sc.Expect[0].Line)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	sc, err := Parse("f.yaml", []byte("never: &n [{type: generation.failed, stage: a}]\nexpect:\n  - <<: {type: x, a: 1}\n    a: 2\ncount: []\nprojection:\n"))
	if err != nil {
		t.Fatal(err)
	}
	if f := sc.Expect[0].Fields; f["type"] != "x" || f["a"] != 2.0 || len(sc.Never) != 1 {
		t.Errorf("merged %v, never %v", f, sc.Never)
	}
}
