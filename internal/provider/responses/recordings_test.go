package responses

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"maps"
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
	Profile   string `json:"profile"`
	Text      digest `json:"text"`
	Reasoning digest `json:"reasoning"`
	Refusal   digest `json:"refusal"`
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

func digestOf(b []byte) digest {
	sum := sha256.Sum256(b)
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

const trusted = "openai"

func TestOwnRecordings(t *testing.T) {
	for name, want := range readExpected(t, "testdata/expected.json") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRecording(t, readFile(t, filepath.Join("testdata", name)), want)
		})
	}
}

// TestPublicRecordings replays recordings of real providers that stand beside
// a checkout; the ones of TestOwnRecordings need no such place.
func TestPublicRecordings(t *testing.T) {
	dir := sharedFixtures(t)
	if dir == "" {
		t.Log("no public recordings beside this checkout")
		return
	}
	all := readExpected(t, filepath.Join(dir, "EXPECTED.json"))
	all["synthetic/responses-incomplete-inside-2nd-call.sse"] = synthetic(event.FinishOutputBudget)
	count := 0
	for name, want := range all {
		if !ofResponses(name) {
			continue
		}
		count++
		want.Profile = trusted
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRecording(t, readFile(t, filepath.Join(dir, name)), want)
		})
	}
	if count < 6 {
		t.Fatalf("%d recordings of this protocol found; want 6 or more", count)
	}
}

func ofResponses(name string) bool {
	dir, file := filepath.Split(name)
	return dir == "openai-responses/" || strings.HasPrefix(file, "responses-") && strings.HasSuffix(file, ".sse")
}

// synthetic is what the recordings' index says of its synthetic answers: the
// second of two calls is cut.
func synthetic(finish event.Finish) recording {
	var r recording
	r.Result.Finish, r.Result.Terminal = string(finish), true
	r.Text, r.Reasoning, r.Refusal = digestOf(nil), digestOf(nil), digestOf(nil)
	return r
}

// checkRecording holds an answer's result against the expected one, however
// its bytes are cut, and holds every clean prefix against the rule that it
// proves nothing.
func checkRecording(t *testing.T, body []byte, want recording) {
	t.Helper()
	profile, err := LookupProfile(want.Profile)
	if err != nil {
		t.Fatal(err)
	}
	whole := replay(profile, body)
	whole.check(t, want)
	reference := whole.String()
	checkSplits(t, profile, body, reference)
	f, s := newRecorded(profile)
	for k := range body {
		checkPrefix(t, f.clone(), body[:k])
		f.Write(body[k : k+1])
	}
	if got := (result{f, s, f.End(httpwire.EndClean)}).String(); got != reference {
		t.Errorf("one byte at a time: %s\nin one piece: %s", got, reference)
	}
}

// checkSplits replays a body in two parts. Long bodies, to stay quick, take
// the part before the split's frame in one piece, and are compared two frames
// on: the rest is the same function of the same state.
func checkSplits(t *testing.T, profile Profile, body []byte, reference string) {
	t.Helper()
	const long = 4 << 10
	if len(body) <= long {
		for k := range body {
			if got := replay(profile, body[:k], body[k:]).String(); got != reference {
				t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
			}
		}
		return
	}
	f, _ := newRecorded(profile)
	for from := 0; from < len(body); {
		mid := frameEnd(body, from)
		end := frameEnd(body, mid)
		straight := f.clone()
		straight.Write(body[from:end])
		for k := from; k < mid; k++ {
			split := f.clone()
			split.Write(body[from:k])
			split.Write(body[k:end])
			if !reflect.DeepEqual(split.state(t), straight.state(t)) {
				t.Fatalf("split at %d: the state two frames on is another", k)
			}
		}
		f.Write(body[from:mid])
		from = mid
	}
	for k := 0; k < len(body); k += 997 {
		if got := replay(profile, body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
	}
}

func frameEnd(body []byte, from int) int {
	if i := strings.Index(string(body[from:]), "\n\n"); i >= 0 {
		return from + i + 2
	}
	return len(body)
}

// checkPrefix ends f, which has seen this prefix of a body, cleanly: without
// the terminal event's own bytes nothing came of it that is certain.
func checkPrefix(t *testing.T, f *Fold, prefix []byte) {
	t.Helper()
	outcome := f.End(httpwire.EndClean)
	if _, open := outcome.(loop.Uncertain); open {
		return
	}
	for _, end := range []string{"completed", "incomplete", "failed", "cancelled"} {
		if bytes.Contains(prefix, []byte(`"type":"response.`+end+`"`)) {
			return
		}
	}
	if f.form != formJSON || !bytes.HasSuffix(bytes.TrimSpace(prefix), []byte("}")) {
		t.Fatalf("prefix of %d bytes: %s without the terminal event", len(prefix), say(outcome))
	}
}

// result is a fold's end, in one piece.
type result struct {
	fold    *Fold
	sink    *recorder
	outcome loop.Outcome
}

func replay(profile Profile, chunks ...[]byte) result {
	f, s := newRecorded(profile)
	for _, c := range chunks {
		f.Write(c)
	}
	return result{f, s, f.End(httpwire.EndClean)}
}

func newRecorded(profile Profile) (*Fold, *recorder) {
	s := &recorder{}
	return NewFold(profile, 0, s), s
}

func (r result) String() string {
	a := r.fold.answer
	return fmt.Sprintf("%#v raw %q text %x reasoning %x refusal %x sink %v",
		flat(r.outcome), a.raw, digestOf([]byte(a.text())), digestOf(a.reasoning), digestOf([]byte(a.refusal())), *r.sink)
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
	got := want.Result
	got.Terminal, got.RawFinish = a.ended(), a.raw
	got.Finish, got.Executable = "uncertain", false
	var tools []expectedCall
	switch o := r.outcome.(type) {
	case loop.Completion:
		got.Finish, got.Executable = string(o.Finish), executable(o)
	case loop.Failure:
		got.Finish = string(event.FinishError)
	}
	calls := a.toolCalls()
	for _, index := range slices.Sorted(maps.Keys(a.items)) {
		if a.items[index].kind == kindCall {
			call := calls[len(tools)]
			tools = append(tools, expectedCall{index, call.ID, call.Name, call.Arguments, call.Closed, oneObject(call.Arguments)})
		}
	}
	if want.Result.RawFinish != nil && !slices.Equal(got.RawFinish, want.Result.RawFinish) {
		t.Errorf("raw reasons %q; want %q", got.RawFinish, want.Result.RawFinish)
	}
	if want.Result.Tools != nil && !slices.Equal(tools, want.Result.Tools) {
		t.Errorf("calls %+v; want %+v", tools, want.Result.Tools)
	}
	if got.Finish != want.Result.Finish || got.Terminal != want.Result.Terminal || got.Executable != want.Result.Executable {
		t.Errorf("finish %s terminal %t executable %t; want %s, %t, %t", got.Finish, got.Terminal, got.Executable,
			want.Result.Finish, want.Result.Terminal, want.Result.Executable)
	}
	for name, d := range map[string][2]digest{
		"text":      {digestOf([]byte(a.text())), want.Text},
		"reasoning": {digestOf(a.reasoning), want.Reasoning},
		"refusal":   {digestOf([]byte(a.refusal())), want.Refusal},
	} {
		if d[0] != d[1] {
			t.Errorf("%s %v; want %v", name, d[0], d[1])
		}
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

// recorder is a Sink that keeps what it is told.
type recorder struct{ Deltas, Messages []string }

func (r *recorder) Delta(kind, text string) { r.Deltas = append(r.Deltas, kind+":"+text) }
func (r *recorder) Message(text string)     { r.Messages = append(r.Messages, text) }
func (r *recorder) Applied(ids []string) {
	r.Messages = append(r.Messages, "applied "+strings.Join(ids, ","))
}

// clone is an independent copy that tells nobody of its text.
func (f *Fold) clone() *Fold {
	c := *f
	c.out = silent{}
	c.head = slices.Clone(f.head)
	c.parser = f.parser.Clone()
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
	a.reasoning, a.raw, a.conflicts = slices.Clone(a.reasoning), slices.Clone(a.raw), slices.Clone(a.conflicts)
	a.past, a.gone, a.items = maps.Clone(a.past), maps.Clone(a.gone), maps.Clone(a.items)
	for index, it := range a.items {
		copied := *it
		copied.ids, copied.arguments, copied.parts = slices.Clone(it.ids), slices.Clone(it.arguments), maps.Clone(it.parts)
		for k, p := range copied.parts {
			part := *p
			part.text = slices.Clone(p.text)
			copied.parts[k] = &part
		}
		a.items[index] = &copied
	}
	return &c
}

// state is everything that the rest of the answer depends on.
func (f *Fold) state(t *testing.T) []any {
	t.Helper()
	tail, _ := f.parser.Tail()
	return []any{f.form, string(f.head), string(tail.Data), f.parser.Comments(), f.size, f.resumed, f.answer, hex.EncodeToString(f.sum.Sum(nil))}
}

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
