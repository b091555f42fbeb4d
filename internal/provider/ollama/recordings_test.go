package ollama

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// recording is one entry of expected.json.
type recording struct {
	Budget    int64  `json:"budget"`
	Text      digest `json:"text"`
	Reasoning digest `json:"reasoning"`
	Result    struct {
		Finish     string         `json:"finish"`
		RawFinish  []string       `json:"raw_finish"`
		Terminal   bool           `json:"terminal"`
		Executable bool           `json:"executable"`
		Tools      []expectedCall `json:"tools"`
	} `json:"result"`
}

type digest struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func digestOf(b string) digest {
	sum := sha256.Sum256([]byte(b))
	return digest{len(b), hex.EncodeToString(sum[:])}
}

type expectedCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Args     string `json:"args"`
	Closed   bool   `json:"closed"`
	ArgsJSON bool   `json:"args_json"`
}

func TestOwnRecordings(t *testing.T) {
	for name, want := range readExpected(t, "testdata/expected.json") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRecording(t, readFile(t, filepath.Join("testdata", name)), want)
		})
	}
}

// TestPublicRecordings replays recordings of a real provider that stand beside
// a checkout; the ones of TestOwnRecordings need no such place.
func TestPublicRecordings(t *testing.T) {
	dir := sharedFixtures(t)
	if dir == "" {
		t.Log("no public recordings beside this checkout")
		return
	}
	all := readExpected(t, filepath.Join(dir, "EXPECTED.json"))
	count := 0
	for name, want := range all {
		if !strings.HasPrefix(name, "ollama/") {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRecording(t, readFile(t, filepath.Join(dir, name)), want)
		})
	}
	if count < 1 {
		t.Fatalf("%d recordings of this protocol found; want 1 or more", count)
	}
}

// checkRecording holds an answer's result against the expected one, however
// its bytes are cut, and holds every clean prefix against the rule that it
// proves nothing.
func checkRecording(t *testing.T, body []byte, want recording) {
	t.Helper()
	whole := replay(want.Budget, body)
	whole.check(t, want)
	reference := whole.String()
	checkSplits(t, want.Budget, body, reference)
	f, sink := newRecorded(want.Budget)
	for k := range body {
		checkPrefix(t, f.clone(), body[:k])
		f.Write(body[k : k+1])
	}
	if got := (result{f, sink, f.End(httpwire.EndClean)}).String(); got != reference {
		t.Errorf("one byte at a time: %s\nin one piece: %s", got, reference)
	}
}

// checkSplits replays a body in two parts. Long bodies, to stay quick, take
// the part before the split's frame in one piece, and are compared two frames
// on: the rest is the same function of the same state.
func checkSplits(t *testing.T, budget int64, body []byte, reference string) {
	t.Helper()
	step := 1
	if len(body) > 2<<10 {
		step = 97
		f, _ := newRecorded(budget)
		for from := 0; from < len(body); {
			mid := frameEnd(body, from)
			end := frameEnd(body, mid)
			straight := f.clone()
			straight.Write(body[from:end])
			for k := from; k < mid; k++ {
				split := f.clone()
				split.Write(body[from:k])
				split.Write(body[k:end])
				if !reflect.DeepEqual(split.state(), straight.state()) {
					t.Fatalf("split at %d: the state two frames on is another", k)
				}
			}
			f.Write(body[from:mid])
			from = mid
		}
	}
	for k := 0; k < len(body); k += step {
		if got := replay(budget, body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
	}
}

func frameEnd(body []byte, from int) int {
	const end = "\n"
	if i := strings.Index(string(body[from:]), end); i >= 0 {
		return from + i + len(end)
	}
	return len(body)
}

// clone is an independent copy that tells nobody of its text.
func (f *Fold) clone() *Fold {
	c := *f
	c.out, c.line = silent{}, slices.Clone(f.line)
	sum := sha256.New()
	state, err := f.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err == nil {
		err = sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	}
	if err != nil {
		panic(err)
	}
	c.sum = sum
	a := &c.answer
	a.text, a.block, a.reasoning = slices.Clone(a.text), slices.Clone(a.block), slices.Clone(a.reasoning)
	a.calls, a.conflicts = slices.Clone(a.calls), slices.Clone(a.conflicts)
	return &c
}

// state is everything that the rest of the answer depends on.
func (f *Fold) state() []any {
	return []any{string(f.line), f.tooLong, f.size, f.answer, hex.EncodeToString(f.sum.Sum(nil))}
}

// checkPrefix ends f, which has seen this prefix, cleanly: without the line that
// says done it is no completion, and never a cutoff or something to run without
// that line's own reason.
func checkPrefix(t *testing.T, f *Fold, prefix []byte) {
	t.Helper()
	c, ok := f.End(httpwire.EndClean).(loop.Completion)
	if !ok {
		return
	}
	if a := f.answer; !a.done || !bytes.Contains(prefix, []byte("done")) ||
		c.Finish == event.FinishOutputBudget && a.reason != "length" || executable(c) && a.reason != "stop" {
		t.Fatalf("prefix of %d bytes: %s, done %t, reason %q", len(prefix), say(c), a.done, a.reason)
	}
}

// result is a fold's end, in one piece.
type result struct {
	fold    *Fold
	sink    *recorder
	outcome loop.Outcome
}

func replay(budget int64, chunks ...[]byte) result {
	f, s := newRecorded(budget)
	for _, c := range chunks {
		f.Write(c)
	}
	return result{f, s, f.End(httpwire.EndClean)}
}

func newRecorded(budget int64) (*Fold, *recorder) {
	s := &recorder{}
	return NewFold(budget, s), s
}

func (r result) String() string {
	a := r.fold.answer
	return fmt.Sprintf("%#v reason %q text %x reasoning %x conflicts %q sink %v",
		flat(r.outcome), a.reason, digestOf(string(a.text)), digestOf(string(a.reasoning)), a.conflicts, *r.sink)
}

// flat follows an outcome's pointers, so that it can be compared as text.
func flat(o loop.Outcome) any {
	c, ok := o.(loop.Completion)
	if !ok || c.Usage == nil {
		return o
	}
	usage := *c.Usage
	c.Usage = nil
	return [2]any{c, usage}
}

func (r result) check(t *testing.T, want recording) {
	t.Helper()
	a := r.fold.answer
	finish, runs, terminal := "uncertain", false, false
	var tools []expectedCall
	if c, ok := r.outcome.(loop.Completion); ok {
		finish, runs, terminal = string(c.Finish), executable(c), true
		for index, call := range c.ToolCalls {
			tools = append(tools, expectedCall{index, call.ID, call.Name, call.Arguments, call.Closed, oneObject(call.Arguments)})
		}
	}
	if raw := want.Result.RawFinish; len(raw) > 0 && a.reason != raw[0] {
		t.Errorf("reason %q; want %q", a.reason, raw)
	}
	if want.Result.Tools != nil && !slices.Equal(tools, want.Result.Tools) {
		t.Errorf("calls %+v; want %+v", tools, want.Result.Tools)
	}
	if finish != want.Result.Finish || terminal != want.Result.Terminal || runs != want.Result.Executable {
		t.Errorf("finish %s terminal %t executable %t; want %s, %t, %t (conflicts %q)", finish, terminal, runs,
			want.Result.Finish, want.Result.Terminal, want.Result.Executable, a.conflicts)
	}
	if got := digestOf(string(a.text)); got != want.Text {
		t.Errorf("text %v; want %v", got, want.Text)
	}
	if got := digestOf(string(a.reasoning)); got != want.Reasoning {
		t.Errorf("reasoning %v; want %v", got, want.Reasoning)
	}
}

// executable is what the loop will ask of a completion before it runs calls.
func executable(c loop.Completion) bool {
	if c.Finish != event.FinishToolCalls || c.Veto != "" || len(c.ToolCalls) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.ToolCalls, func(t event.ToolCall) bool {
		return !t.Closed || !oneObject(t.Arguments)
	})
}

func oneObject(arguments string) bool {
	_, err := event.ArgumentsDigest(arguments)
	return err == nil
}

// say writes an outcome in short: kind, finish or reason or code, veto.
func say(o loop.Outcome) string {
	switch o := o.(type) {
	case loop.Completion:
		s := "completion " + string(o.Finish)
		if o.Veto != "" {
			s += " veto " + o.Veto
		}
		if executable(o) {
			s += " executable"
		}
		return s
	case loop.Failure:
		return fmt.Sprintf("failure %s %s", o.Dispatch, o.Code)
	case loop.Uncertain:
		return "uncertain " + o.Reason
	}
	return fmt.Sprintf("%T", o)
}

// recorder is a Sink that keeps what it is told.
type recorder struct{ Deltas, Messages []string }

func (r *recorder) Delta(kind, text string) { r.Deltas = append(r.Deltas, kind+":"+text) }
func (r *recorder) Message(text string)     { r.Messages = append(r.Messages, text) }

func readExpected(t *testing.T, path string) map[string]recording {
	t.Helper()
	all := map[string]recording{}
	if err := json.Unmarshal(readFile(t, path), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sharedFixtures is the folder of public recordings beside the checkout, ""
// if there is none.
func sharedFixtures(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			fixtures := filepath.Join(filepath.Dir(dir), "shared", "fixtures")
			if _, err := os.Stat(filepath.Join(fixtures, "EXPECTED.json")); err == nil {
				return fixtures
			}
			return ""
		}
		dir = filepath.Dir(dir)
	}
	return ""
}
