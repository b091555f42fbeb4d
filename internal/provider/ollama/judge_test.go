package ollama

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

const (
	text   = `{"message":{"role":"assistant","content":"Hello"},"done":false}` + "\n"
	think  = `{"message":{"role":"assistant","content":"","thinking":"hm"},"done":false}` + "\n"
	called = `{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false}` + "\n"
	budget = 100
)

func done(reason string, evaluated int) string {
	return fmt.Sprintf(`{"message":{"content":""},"done":true,"done_reason":%q,"prompt_eval_count":3,"eval_count":%d}`+"\n", reason, evaluated)
}

func fails(message string) string { return fmt.Sprintf(`{"error":%q}`+"\n", message) }

func callOf(function string) string {
	return `{"message":{"content":"","tool_calls":[{"id":"c","function":` + function + `}]},"done":false}` + "\n"
}

var judgeCases = []struct {
	name, body string
	budget     int64
	want       string
}{
	{"stop", text + done("stop", 5), 0, "completion stop"},
	{"stop at the budget is no cutoff", text + done("stop", budget), budget, "completion stop"},
	{"no message on the last line", text + `{"done":true,"done_reason":"stop"}`, 0, "completion stop"},

	// D: the whitelist
	{"no reason", text + `{"done":true}`, 0, "completion unrecognised"},
	{"empty reason", text + done("", 5), budget, "completion unrecognised"},
	{"load", done("load", 0), 0, "completion unrecognised"},
	{"unload", done("unload", 0), 0, "completion unrecognised"},
	{"another protocol's reason", text + done("max_tokens", budget), budget, "completion unrecognised"},
	{"upper case", text + done("LENGTH", budget), budget, "completion unrecognised"},
	{"a reason without done", text + `{"message":{"content":""},"done":false,"done_reason":"length","eval_count":100}` + "\n", budget, "uncertain no_terminal"},

	// F: length
	{"length, budget reached", text + done("length", budget), budget, "completion output_budget"},
	{"length, budget passed", text + done("length", budget+1), budget, "completion output_budget"},
	{"length, budget not reached", text + done("length", budget-1), budget, "completion context_window"},
	{"length, no budget asked for", text + done("length", budget), 0, "completion context_window"},
	{"length, no count", text + `{"message":{"content":""},"done":true,"done_reason":"length"}`, budget, "completion unrecognised"},
	{"length, a count below zero", text + done("length", -1), budget, "completion unrecognised"},
	{"length without a line's end", text + strings.TrimSpace(done("length", budget)), budget, "completion output_budget"},
	{"length, cut before the brace", text + strings.TrimSuffix(strings.TrimSpace(done("length", budget)), "}"), budget, "uncertain no_terminal"},

	// E: contradictions
	{"text after done", done("length", budget) + text, budget, "completion unrecognised"},
	{"done twice", text + done("length", budget) + done("length", budget), budget, "completion unrecognised"},
	{"a piece of a line after done", text + done("length", budget) + `{"mess`, budget, "completion output_budget"},
	{"blank lines", "\n\r\n" + text + "\n" + done("length", budget) + "\n \n", budget, "completion output_budget"},
	{"unreadable line", text + "oops\n" + done("length", budget), budget, "completion unrecognised"},
	{"a name twice", text + `{"done":false,"done":true,"done_reason":"stop","message":{}}` + "\n" + done("length", budget), budget, "completion unrecognised"},
	{"a line of something else", `{"hello":1}` + "\n" + text + done("length", budget), budget, "completion unrecognised"},
	{"content of another type", `{"message":{"content":["x"]},"done":false}` + "\n" + done("length", budget), budget, "completion unrecognised"},

	// G: calls
	{"call", called + done("stop", 5), 0, "completion tool_calls executable"},
	{"call at the budget: this protocol does not hide length", called + done("stop", budget), budget, "completion tool_calls executable"},
	{"call without done", called, 0, "uncertain no_terminal"},
	{"call and length", called + done("length", budget), budget, "completion output_budget"},
	{"call and a full context", called + done("length", 5), budget, "completion context_window"},
	{"call without a name", callOf(`{"arguments":{}}`) + done("stop", 5), 0, "completion tool_calls"},
	{"call without arguments", callOf(`{"name":"f"}`) + done("stop", 5), 0, "completion tool_calls"},
	{"arguments that are text", callOf(`{"name":"f","arguments":"{}"}`) + done("stop", 5), 0, "completion tool_calls"},
	{"one call of two without a name", called + callOf(`{"arguments":{}}`) + done("stop", 5), 0, "completion tool_calls"},

	// errors inside a 200
	{"error first", fails("model not found"), 0, "failure ran provider_error"},
	{"error first, with a code", fails("unauthorized"), 0, "failure ran unauthorized"},
	{"error first, an object", `{"error":{"code":"","type":"api_error"}}`, 0, "failure ran api_error"},
	{"error first, a number", `{"error":7}`, 0, "failure ran provider_error"},
	{"error that is empty is none", text + `{"error":"","message":{"content":""}}` + "\n" + done("stop", 5), 0, "completion stop"},
	{"error after text", text + fails("x y"), 0, "uncertain no_terminal"},
	{"error after thinking", think + fails("x y"), 0, "uncertain no_terminal"},
	{"error after a call", called + fails("x y"), 0, "uncertain no_terminal"},
	{"error after text, then done", text + fails("x y") + done("length", budget), budget, "completion error"},
	{"error after done", text + done("length", budget) + fails("x y"), budget, "completion error"},

	{"a page", "<html></html>", 0, "uncertain no_terminal"},
	{"nothing", "", 0, "uncertain no_terminal"},
	{"blank", "\n\n", 0, "uncertain no_terminal"},
}

func TestJudge(t *testing.T) {
	for _, c := range judgeCases {
		t.Run(c.name, func(t *testing.T) {
			for k := 0; k <= len(c.body); k++ {
				r := replay(c.budget, []byte(c.body[:k]), []byte(c.body[k:]))
				if got := say(r.outcome); got != c.want {
					t.Fatalf("split at %d: %s (conflicts %q); want %s", k, got, r.fold.answer.conflicts, c.want)
				}
			}
		})
	}
}

func TestEnds(t *testing.T) {
	cases := []struct {
		end           httpwire.End
		before, after string // the line that says done
	}{
		{httpwire.EndClean, "uncertain no_terminal", "completion stop"},
		{httpwire.EndUnframed, "uncertain no_terminal", "completion stop"},
		{httpwire.EndBroken, "uncertain transport", "completion stop"},
		{httpwire.EndTimeout, "uncertain timeout", "completion stop"},
		{httpwire.EndCancelled, "uncertain cancelled", "completion stop"},
		{httpwire.EndTooLarge, "uncertain no_terminal", "completion stop"},
		{httpwire.EndDrained, "uncertain no_terminal", "completion stop"},
		{httpwire.EndJournal, "uncertain transport", "uncertain transport"},
	}
	for _, c := range cases {
		for body, want := range map[string]string{text: c.before, text + done("stop", 5): c.after} {
			f := NewFold(0, nil)
			f.Write([]byte(body))
			if got := say(f.End(c.end)); got != want {
				t.Errorf("end %s: %s; want %s", c.end, got, want)
			}
		}
	}
}

func TestCompletionFields(t *testing.T) {
	body := think + text + text + called + text + done("stop", 7)
	r := replay(0, []byte(body))
	c, ok := r.outcome.(loop.Completion)
	if !ok {
		t.Fatal("no completion")
	}
	if c.Usage == nil || *c.Usage != (event.Usage{Input: 3, Output: 7}) {
		t.Errorf("usage %+v; want 3, 7", c.Usage)
	}
	if c.ResponseDigest != event.Digest([]byte(body)) || c.ResponseBytes != int64(len(body)) {
		t.Errorf("digest %s of %d bytes; want that of the body", c.ResponseDigest, c.ResponseBytes)
	}
	if c.FinishReason != "stop" || c.Text != "HelloHelloHello" || len(c.ToolCalls) != 1 {
		t.Errorf("completion %+v; want stop, three texts, one call", c)
	}
	if got := fmt.Sprint(r.sink.Messages, r.sink.Deltas); got != "[HelloHello] [reasoning:hm text:Hello text:Hello text:Hello]" {
		t.Errorf("sink %s; want the block that the call ended, and the deltas", got)
	}
}

func TestLineTooLong(t *testing.T) {
	f := NewFold(0, nil)
	half := make([]byte, maxLine/2+1)
	for i := range half {
		half[i] = ' '
	}
	f.Write(half)
	f.Write(half)
	f.Write([]byte("\n" + text + done("stop", 5)))
	if got := say(f.End(httpwire.EndClean)); got != "uncertain no_terminal" || len(f.line) != 0 {
		t.Errorf("outcome %s with %d bytes kept; want uncertain, nothing read after it", got, len(f.line))
	}
}

func FuzzFoldSplit(f *testing.F) {
	f.Add([]byte(text+called+done("stop", 5)), uint16(40), int64(0))
	f.Add([]byte("\r\n"+think+text+done("length", budget)+"\n"), uint16(3), int64(budget))
	f.Add([]byte(text+fails("x")+done("length", 5)+text), uint16(9), int64(5))
	f.Fuzz(func(t *testing.T, body []byte, at uint16, budget int64) {
		body = body[:min(len(body), 1024)] // each prefix is judged
		k := min(int(at), len(body))
		reference := replay(budget, body).String()
		if got := replay(budget, body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
		single, sink := newRecorded(budget)
		for i := range body {
			checkPrefix(t, single.clone(), body[:i])
			single.Write(body[i : i+1])
		}
		if got := (result{single, sink, single.End(httpwire.EndClean)}).String(); got != reference {
			t.Fatalf("one byte at a time: %s\nin one piece: %s", got, reference)
		}
	})
}
