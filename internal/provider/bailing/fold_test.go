package bailing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// streams are what becomes of each recorded stream.
var streams = map[string]string{
	"length.sse":                    `completion output_budget "length" "Grüße, 世界🌍"`,
	"tools.sse":                     `completion tool_calls "tool_calls" "I look."`,
	"json-crlf-delta.sse":           `completion stop "stop" "Whole."`,
	"replay.sse":                    `completion output_budget "length" "Grüße, 世界🌍"`,
	"replay-pending.sse":            "uncertain no_terminal the hub's receipt is pending",
	"rejected.sse":                  "failure rejected USAGE_PROVIDER_REJECTED 400 the provider refused the request (context_length_exceeded)",
	"unknown.sse":                   "uncertain transport the hub does not know what became of it: USAGE_TRANSPORT_UNCERTAIN",
	"bailing-stream-length-cjk.sse": `completion output_budget "length" "你好，世界🌍未完"`,
}

// play folds a body that comes in parts.
func play(t *testing.T, parts ...string) (loop.Outcome, *journal) {
	t.Helper()
	j := &journal{}
	f := newFold(want(t), j)
	for _, p := range parts {
		f.write([]byte(p))
	}
	return f.end(httpwire.EndClean), j
}

// TestRecordedStreams replays each stream at every split and byte by byte, and
// ends it cleanly after every byte: before the receipt is whole, that proves
// nothing.
func TestRecordedStreams(t *testing.T) {
	found := files(t, "testdata/streams/*.sse", "bailing-stream-*.sse")
	if len(found) < 7 {
		t.Fatalf("%d streams; want 7 or more", len(found))
	}
	for name, body := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, told := play(t, body)
			reference := sum(outcome) + fmt.Sprint(told.log)
			if streams[name] == "" || !strings.HasPrefix(sum(outcome), streams[name]) {
				t.Fatalf("outcome %s\nwant %s", sum(outcome), streams[name])
			}
			for k := range body {
				whole, j := play(t, body[:k], body[k:])
				if got := sum(whole) + fmt.Sprint(j.log); got != reference {
					t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
				}
				part, _ := play(t, body[:k])
				lastLF := strings.HasSuffix(body, "\r\n") && k == len(body)-1
				if _, open := part.(loop.Uncertain); !open && !lastLF {
					t.Fatalf("prefix of %d bytes: %s without the receipt", k, sum(part))
				}
			}
			single, j := play(t, strings.Split(body, "")...)
			if got := sum(single) + fmt.Sprint(j.log); got != reference {
				t.Errorf("one character at a time: %s\nin one piece: %s", got, reference)
			}
		})
	}
}

func TestRecordedCalls(t *testing.T) {
	outcome, j := play(t, files(t, "testdata/streams/tools.sse", "none")["tools.sse"])
	c, ok := outcome.(loop.Completion)
	if !ok || !executable(c) || len(c.ToolCalls) != 1 {
		t.Fatalf("outcome %s; want one call that may run", sum(outcome))
	}
	if got := c.ToolCalls[0]; got != (event.ToolCall{ID: "call_1", Name: "weather", Arguments: `{"city":"Zürich"}`, Closed: true}) {
		t.Errorf("call %+v", got)
	}
	if want := (event.Usage{Input: 9, Output: 8, Reasoning: 3, Cost: 0.000000123456}); c.Usage == nil || *c.Usage != want {
		t.Errorf("usage %+v; want %+v", c.Usage, want)
	}
	if got := fmt.Sprint(j.log); got != "[text I look. message I look.]" {
		t.Errorf("told %s; want the text, and its end before the call", got)
	}
}

func TestStreams(t *testing.T) {
	body := hello + limit + fin
	good := []string{started, provider(body), receipt(completed(body))}
	other := func(from, to string) string { return strings.Replace(frames(good...), from, to, 1) }
	cases := []struct{ name, stream, want string }{
		{"whole", frames(good...), "completion output_budget"},
		{"keep-alives", ": keep-alive\n\n" + strings.ReplaceAll(frames(good...), "\n\ndata: ", "\n\n: keep-alive\n\n:\ndata: "), "completion output_budget"},
		{"keep-alive after the receipt", frames(good...) + ": keep-alive\n\n: kee", "completion output_budget"},
		{"pieces cut anywhere", frames(started, provider(body[:3]), provider(""), provider(body[3:len(body)-1]), provider("\n"), receipt(completed(body))), "completion output_budget"},
		{"unknown fields", other(`"seq":2,`, `"seq":2,"novel":[1],`), "completion output_budget"},
		{"calls", frames(started, provider(calls+fin), receipt(completed(calls+fin))), "completion tool_calls"},
		{"replay", frames(receipt(completed(body))), "completion output_budget"},
		{"replay, seq 2", frame(2, receipt(completed(body))), "a frame: frame 2 follows frame 0"},

		{"nothing", "", "no operation frame"},
		{"comments only", ": keep-alive\n\n", "no operation frame"},
		{"no receipt", frames(good[:2]...), "no operation frame"},
		{"no receipt, calls", frames(started, provider(calls+fin)), "no operation frame"},
		{"receipt without its blank line", strings.TrimRight(frames(good...), "\n"), "no operation frame"},
		{"gap", frame(1, good[0]) + frame(3, good[1]) + frame(4, good[2]), "frame 3 follows frame 1"},
		{"repetition", frame(1, good[0]) + frame(2, good[1]) + frame(2, good[1]) + frame(3, good[2]), "frame 2 follows frame 2"},
		{"from 0", frame(0, good[0]) + frame(1, good[1]), "frame 0 follows frame 0"},
		{"no start", frames(good[1:]...), "wrong type for its place"},
		{"two starts", frames(started, started, good[1], good[2]), "wrong type for its place"},
		{"unknown type", frames(started, `"novel"`, good[2]), "wrong type for its place"},
		{"start with a piece", frames(started+good[1][len(`"provider"`):], good[2]), "wrong type for its place"},
		{"piece without provider", frames(started, `"provider"`, good[2]), "wrong type for its place"},
		{"receipt without operation", frames(started, good[1], `"operation"`), "wrong type for its place"},
		{"delta first", frames(`"delta"`, good[2]), "wrong type for its place"},
		{"two receipts", frames(append(good, good[2])...), "a frame follows the operation"},
		{"piece after the receipt", frames(append(good, provider("x"))...), "a frame follows the operation"},
		{"half a frame after the receipt", frames(good...) + "data: {", "something follows the operation"},
		{"no frame", other(`data: {`, `data: [`), "not readable"},
		{"repeated name", other(`"seq":1`, `"seq":1,"seq":1`), "not readable"},
		{"other case", other(`"seq":1`, `"Seq":1`), "frame 0 follows"},
		{"text for a number", other(`"seq":1`, `"seq":"1"`), "not readable"},
		{"another schema", other("model-stream.v1", "model-stream.v2"), "another schema"},
		{"another operation", other(opID, "op_2"), "of another operation"},

		{"mismatch", frames(started, provider(body+" "), good[2]), "not the body that was saved"},
		{"mismatch, calls", frames(started, provider(calls+fin), receipt(completed(hello+calls+fin))), "not the body that was saved"},
		{"missing piece", frames(started, provider(body[:9]), good[2]), "not the body that was saved"},
		{"no piece", frames(started, good[2]), "not the body that was saved"},
		{"no piece, nothing saved", frames(started, receipt(completed(""))), "not whole"},
		{"other header", frames(started, good[1], strings.Replace(good[2], `"status":200`, `"status":201`, 1)), "not the body that was saved"},
		{"two answers", frames(started, good[1], strings.Replace(provider(""), `"status":200`, `"status":500`, 1), good[2]), "pieces are of two answers"},
		{"piece without data", other(`"data":"`, `"date":"`), "a piece without data"},
		{"piece, another schema", other("provider-response.v1", "provider-response.v2"), "another schema"},
		{"piece, unknown format", other(`"format":"sse"`, `"format":"xml"`), "do not agree"},
		{"piece, other type", other(`"text/event-stream"`, `"application/json"`), "do not agree"},
		{"piece, no status", other(`"status":200`, `"status":100`), "the status is none"},

		{"receipt of another operation", frames(started, good[1], strings.Replace(good[2], opID, "op_2", 1)), "another one's"},
		{"receipt of another service", frames(started, good[1], strings.Replace(good[2], `"svc"`, `"other"`, 1)), "another one's"},
		{"receipt, another schema", frames(started, good[1], strings.Replace(good[2], "model-operation.v1", "v2", 1)), "another schema"},
		{"receipt, unknown state", frames(started, good[1], strings.Replace(good[2], `"state":"completed"`, `"state":"done"`, 1)), "state is not known"},
		{"receipt, unknown dispatch", frames(started, good[1], strings.Replace(good[2], `"dispatch":"completed"`, `"dispatch":"sent"`, 1)), "dispatch is not known"},
		{"receipt, no body", frames(started, good[1], strings.Replace(good[2], `"body"`, `"bodies"`, 1)), "no body"},
		{"receipt that contradicts itself", frames(started, good[1], strings.Replace(good[2], `"result_state":"complete"`, `"result_state":"pending"`, 1)), "the hub's receipt is contradictory"},

		{"inner end missing", frames(started, provider(hello+limit), receipt(completed(hello+limit))), "not whole"},
		{"inner error after output", frames(started, provider(hello+`data: {"error":{"code":"x"}}`+"\n\n"+fin), receipt(completed(hello+`data: {"error":{"code":"x"}}`+"\n\n"+fin))), "completion error"},
		{"expired", frames(started, good[1], receipt(view("completed", "complete", "completed", `,"response_expired":true`))), "the hub's receipt is expired"},
		{"pending", frames(started, receipt(view("admitted", "pending", "not_dispatched"))), "the hub's receipt is pending"},
		{"unknown", frames(started, good[1], receipt(view("unknown", "unknown", "unknown"))), "uncertain transport"},
		{"cancelled before", frames(started, receipt(view("cancelled", "cancelled", "not_dispatched"))), "failure not_dispatched cancelled 0"},
		{"cancelled later", frames(started, good[1], receipt(view("cancelled", "cancelled", "completed"))), "uncertain cancelled"},
		{"rejected", frames(started, receipt(view("failed", "failed", "rejected"))), "failure rejected no_code 0"},
		{"failed, not rejected", frames(started, receipt(view("failed", "failed", "unknown"))), "the hub's receipt is contradictory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			outcome, _ := play(t, c.stream)
			got := sum(outcome)
			if u, ok := outcome.(loop.Uncertain); ok && strings.Contains(c.want, "follows frame") {
				got = "a frame: " + u.Detail
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("outcome %s; want %s", got, c.want)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	body := hello + stop + fin
	open, closed := frames(started, provider(body)), frames(started, provider(body), receipt(completed(body)))
	for end, before := range map[httpwire.End]string{
		httpwire.EndClean: "uncertain no_terminal", httpwire.EndUnframed: "uncertain no_terminal",
		httpwire.EndBroken: "uncertain transport", httpwire.EndTimeout: "uncertain timeout",
		httpwire.EndCancelled: "uncertain cancelled", httpwire.EndTooLarge: "uncertain no_terminal",
		httpwire.EndDrained: "uncertain no_terminal", httpwire.EndJournal: "uncertain transport",
	} {
		after := "completion stop"
		if end == httpwire.EndJournal {
			after = before
		}
		for stream, want2 := range map[string]string{open: before, closed: after} {
			f := newFold(want(t), nil)
			f.write([]byte(stream))
			if got := say(f.end(end)); got != want2 {
				t.Errorf("end %s: %s; want %s", end, got, want2)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	body := hello + stop + fin
	small := want(t)
	small.maxBytes = int64(len(body)) - 1
	for name, stream := range map[string]string{
		"pieces": frames(started, provider(body), receipt(completed(body))), "replay": frames(receipt(completed(body))),
	} {
		f := newFold(small, nil)
		f.write([]byte(stream))
		if u, ok := f.end(httpwire.EndClean).(loop.Uncertain); !ok || !strings.Contains(u.Detail, "MaxAnswerBytes") {
			t.Errorf("%s: %+v; want uncertain, MaxAnswerBytes", name, u)
		}
	}
	f := newFold(want(t), nil)
	f.parser.Limit = 100
	f.write([]byte(frames(started, provider(body), receipt(completed(body)))))
	if u, ok := f.end(httpwire.EndClean).(loop.Uncertain); !ok || !strings.Contains(u.Detail, "too long") {
		t.Errorf("%+v; want uncertain, too long", u)
	}
}

func TestUsage(t *testing.T) {
	counted := `{"inputTokens":3,"outputTokens":4,"totalTokens":7}`
	inner := strings.Replace(stop, `}]}`, `}],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":9}}`, 1)
	for _, c := range []struct{ usage, cost, inner, want string }{
		{"null", "null", stop, "<nil>"},
		{counted, "null", stop, "{3 4 0 0}"},
		{counted, "0.5", stop, "{3 4 0 0.5}"},
		{counted, `"0.250000000000"`, stop, "{3 4 0 0.25}"},
		{counted, `"0.250000000000"`, inner, "{1 2 0 0.25}"},
		{counted, "null", inner, "{1 2 0 9}"},
		{"null", "0.5", stop, "<nil>"},
		{`{"inputTokens":3}`, "0.5", stop, "<nil>"},
		{`{"inputTokens":3,"outputTokens":-4}`, "0.5", stop, "<nil>"},
		{`[]`, "0.5", stop, "<nil>"},
		{counted, "-1", stop, "{3 4 0 0}"},
		{counted, `"NaN"`, stop, "{3 4 0 0}"},
		{counted, `{}`, stop, "{3 4 0 0}"},
	} {
		o, _ := play(t, frames(receipt(completed(c.inner+fin, `,"usage":`+c.usage+`,"reference_cost_usd":`+c.cost))))
		done, ok := o.(loop.Completion)
		got := "<nil>"
		if done.Usage != nil {
			got = fmt.Sprint(*done.Usage)
		}
		if !ok || got != c.want {
			t.Errorf("usage %s, cost %s: %s (%s); want %s", c.usage, c.cost, got, say(o), c.want)
		}
	}
}

// sound is a slow, lenient reading of the same rules: whether a body holds a
// whole stream whose receipt is final.
func sound(body string) bool {
	body = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(body, "\xEF\xBB\xBF"))
	next, pieces, ended := 1, "", false
	for _, block := range strings.SplitAfter(body, "\n\n") {
		data := ""
		for line := range strings.SplitSeq(block, "\n") {
			if name, value, _ := strings.Cut(line, ":"); name == "data" {
				data += strings.TrimPrefix(value, " ") + "\n"
			}
		}
		if data == "" {
			continue
		}
		if ended || !strings.HasSuffix(block, "\n\n") {
			return false
		}
		var f struct {
			Seq       int
			Type      string
			Provider  struct{ Data string }
			Operation struct {
				State    string
				Response *struct{ Body string }
			}
		}
		if json.Unmarshal([]byte(data), &f) != nil || f.Seq != next {
			return false
		}
		next++
		pieces += f.Provider.Data
		if f.Type == "operation" {
			ended = f.Operation.State == "completed" || f.Operation.State == "failed" || f.Operation.State == "cancelled"
			if r := f.Operation.Response; r != nil && f.Seq > 1 && r.Body != pieces {
				return false
			}
		}
	}
	return ended
}

// FuzzFold: whatever comes, and however it is cut, the outcome is the same,
// and certain only of a sound stream.
func FuzzFold(f *testing.F) {
	body := hello + calls + fin
	f.Add(frames(started, provider(body[:40]), provider(body[40:]), receipt(completed(body))), uint16(300))
	f.Add("\xEF\xBB\xBF: c\r\r"+frames(receipt(completed(hello+limit+fin))), uint16(2))
	f.Add(frames(started, receipt(view("failed", "failed", "rejected")))+"data: x", uint16(9))
	f.Add(frames(started, provider(body), receipt(completed(body)), receipt(completed(body))), uint16(700))
	f.Add(frame(1, started)+frame(3, receipt(view("cancelled", "cancelled", "not_dispatched"))), uint16(5))
	f.Fuzz(func(t *testing.T, body string, at uint16) {
		k := min(int(at), len(body))
		straight, j := play(t, body)
		split, i := play(t, body[:k], body[k:])
		if a, b := sum(straight)+fmt.Sprint(j.log), sum(split)+fmt.Sprint(i.log); a != b {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, b, a)
		}
		if _, open := straight.(loop.Uncertain); !open && !sound(body) {
			t.Fatalf("%s of a stream that is not sound", sum(straight))
		}
		prefix, _ := play(t, body[:k])
		if _, open := prefix.(loop.Uncertain); !open && !sound(body[:k]) {
			t.Fatalf("prefix of %d: %s of a stream that is not sound", k, sum(prefix))
		}
	})
}

// FuzzFrames: frames in any order, left out, repeated or misnumbered; each
// byte is one frame.
func FuzzFrames(f *testing.F) {
	body := hello + calls + fin
	alphabet := []string{
		started, provider(body[:50]), provider(body[50:]), provider(body), `"delta","delta":{"text":"x"}`,
		receipt(completed(body)), receipt(completed(body[:50])), receipt(view("failed", "failed", "rejected")),
		receipt(view("unknown", "unknown", "unknown")), receipt(view("cancelled", "cancelled", "not_dispatched")),
	}
	const skewed = 0x80 // the frame's number is one too far
	f.Add([]byte{0, 1, 2, 5})
	f.Add([]byte{0, 3, 4, 5})
	f.Add([]byte{5})
	f.Add([]byte{0, 1, 6, 5})
	f.Add([]byte{0, 1, skewed | 2, 5})
	f.Add([]byte{0, 7})
	f.Add([]byte{0, 1, 9})
	f.Fuzz(func(t *testing.T, picks []byte) {
		var b strings.Builder
		seq := 0
		for _, p := range picks[:min(len(picks), 32)] {
			seq++
			if p&skewed != 0 {
				seq++
			}
			b.WriteString(frame(seq, alphabet[int(p&^skewed)%len(alphabet)]))
		}
		outcome, _ := play(t, b.String())
		if _, open := outcome.(loop.Uncertain); !open && !sound(b.String()) {
			t.Fatalf("%v: %s of a stream that is not sound", picks, sum(outcome))
		}
		if executable(outcome) && !strings.Contains(b.String(), frame(seq, receipt(completed(body)))) {
			t.Fatalf("%v: calls may run without the receipt of the whole body", picks)
		}
	})
}
