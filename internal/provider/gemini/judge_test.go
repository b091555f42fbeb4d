package gemini

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

func frameOf(json string) string { return "data: " + json + "\r\n\r\n" }

func parted(parts string) string {
	return frameOf(`{"candidates":[{"content":{"parts":[` + parts + `]},"index":0}]}`)
}

func reason(r string) string {
	return frameOf(fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":%q,"index":0}]}`, r))
}

func fails(code int, status string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"m","status":%q}}`, code, status)
}

func piece(fragment string) string { return parted(`{"functionCall":{` + fragment + `}}`) }

var (
	text   = parted(`{"text":"Hello"}`)
	called = piece(`"name":"f","args":{"a":1}`)
	begun  = piece(`"name":"f","id":"c","willContinue":true`)
	ended  = piece(``)
)

var judgeCases = []struct{ name, body, want string }{
	{"STOP", text + reason("STOP"), "completion stop"},
	{"MAX_TOKENS", text + reason("MAX_TOKENS"), "completion output_budget"},
	{"CONTINUATION", text + reason("CONTINUATION"), "completion output_budget"},
	{"SAFETY", text + reason("SAFETY"), "completion content_filter"},
	{"MODEL_ARMOR", reason("MODEL_ARMOR"), "completion content_filter"},
	{"MALFORMED_FUNCTION_CALL", called + reason("MALFORMED_FUNCTION_CALL"), "completion error"},
	{"usage behind the last frame", text + reason("MAX_TOKENS") + frameOf(`{"usageMetadata":{"candidatesTokenCount":3}}`), "completion output_budget"},
	{"blocked prompt", frameOf(`{"promptFeedback":{"blockReason":"OTHER"}}`), "completion content_filter"},
	{"feedback without a block", frameOf(`{"promptFeedback":{"safetyRatings":[]}}`), "uncertain no_terminal"},

	// D: the whitelist
	{"no reason", text, "uncertain no_terminal"},
	{"empty reason", text + reason(""), "uncertain no_terminal"},
	{"reason, then a frame without", reason("STOP") + text, "uncertain no_terminal"},
	{"OTHER", text + reason("OTHER"), "completion unrecognised"},
	{"another protocol's reason", text + reason("length"), "completion unrecognised"},
	{"lower case", text + reason("max_tokens"), "completion unrecognised"},

	// E: contradictions
	{"STOP, then MAX_TOKENS: the last one counts", text + reason("STOP") + reason("MAX_TOKENS"), "completion output_budget"},
	{"MAX_TOKENS, then STOP", text + reason("MAX_TOKENS") + reason("STOP"), "completion unrecognised"},
	{"MAX_TOKENS twice", text + reason("MAX_TOKENS") + reason("MAX_TOKENS"), "completion unrecognised"},
	{"unreadable frame", text + frameOf(`{oops`) + reason("MAX_TOKENS"), "completion unrecognised"},
	{"a name twice", text + frameOf(`{"candidates":[{"finishReason":"MAX_TOKENS","finishReason":"STOP"}]}`) + reason("MAX_TOKENS"), "completion unrecognised"},
	{"block beside a cutoff", frameOf(`{"promptFeedback":{"blockReason":"SAFETY"}}`) + text + reason("MAX_TOKENS"), "completion unrecognised"},
	{"block beside a filter", frameOf(`{"promptFeedback":{"blockReason":"SAFETY"}}`) + text + reason("SAFETY"), "completion content_filter"},
	{"stray line", text + reason("MAX_TOKENS") + "{\"x\":1}\n", "completion unrecognised"},
	{"stray line that is no JSON", text + reason("MAX_TOKENS") + "oops\n", "uncertain no_terminal"},
	{"comments and other fields are no strays", ": c\n:\nid: 7\nretry: 1\nevent: x\nid\n\n" + text + reason("MAX_TOKENS"), "completion output_budget"},
	{"a piece of a frame behind the reason", text + reason("STOP") + `data: {"candi`, "uncertain no_terminal"},
	{"a piece of a line behind the reason", text + reason("STOP") + `dat`, "uncertain no_terminal"},

	// G: calls
	{"call", called + reason("STOP"), "completion tool_calls executable"},
	{"call in the frame of its reason", frameOf(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}`), "completion tool_calls executable"},
	{"call without arguments", piece(`"name":"f"`) + reason("STOP"), "completion tool_calls executable"},
	{"call with null arguments", piece(`"name":"f","args":null`) + reason("STOP"), "completion tool_calls executable"},
	{"call whose arguments are a list", piece(`"name":"f","args":[]`) + reason("STOP"), "completion tool_calls"},
	{"call whose arguments are a string", piece(`"name":"f","args":"{}"`) + reason("STOP"), "completion tool_calls"},
	{"call without a name", piece(`"args":{}`) + reason("STOP"), "completion unrecognised"},
	{"call and a cutoff", called + reason("MAX_TOKENS"), "completion output_budget"},
	{"STOP on each frame proves no last one", frameOf(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}`) + reason("STOP"), "completion tool_calls veto reason_repeated"},
	{"another candidate", called + frameOf(`{"candidates":[{"index":1,"finishReason":"SAFETY"}]}`) + reason("STOP"), "completion tool_calls veto other_candidate"},

	// arguments in pieces
	{"pieces", begun + piece(`"partialArgs":[{"jsonPath":"$.a","numberValue":1}],"willContinue":true`) + ended + reason("STOP"), "completion tool_calls executable"},
	{"pieces that the last one closes", begun + piece(`"name":"f","id":"c","partialArgs":[{"jsonPath":"$.a","boolValue":false}]`) + reason("STOP"), "completion tool_calls executable"},
	{"one piece", piece(`"name":"f","partialArgs":[{"jsonPath":"$.a","nullValue":null}]`) + reason("STOP"), "completion tool_calls executable"},
	{"closed without a piece", begun + ended + reason("STOP"), "completion tool_calls executable"},
	{"not closed", begun + reason("STOP"), "completion tool_calls"},
	{"string not finished", begun + piece(`"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}],"willContinue":true`) + ended + reason("STOP"), "completion tool_calls"},
	{"another value inside a string", begun + piece(`"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.b","numberValue":1}]`) + reason("STOP"), "completion unrecognised"},
	{"a value twice", begun + piece(`"partialArgs":[{"jsonPath":"$.a","numberValue":1},{"jsonPath":"$.a","numberValue":2}]`) + reason("STOP"), "completion unrecognised"},
	{"arguments whole and in pieces", piece(`"name":"f","args":{"a":1},"partialArgs":[{"jsonPath":"$.b","numberValue":1}]`) + reason("STOP"), "completion unrecognised"},
	{"another call before the closer", begun + called + reason("STOP"), "completion tool_calls"},
	{"a closer without a call", ended + reason("STOP"), "completion unrecognised"},
	{"a closer too many", begun + ended + ended + reason("STOP"), "completion unrecognised"},

	// errors
	{"error frame first, of the request", frameOf(fails(400, "INVALID_ARGUMENT")), "failure rejected INVALID_ARGUMENT"},
	{"error first, quota", frameOf(fails(429, "RESOURCE_EXHAUSTED")), "failure rejected RESOURCE_EXHAUSTED"},
	{"error first, overloaded", frameOf(fails(503, "UNAVAILABLE")), "uncertain transport"},
	{"error first, deadline", frameOf(fails(504, "DEADLINE_EXCEEDED")), "uncertain timeout"},
	{"error first, without a code", frameOf(`{"error":{"message":"m"}}`), "failure ran provider_error"},
	{"error first, prose for a status", frameOf(`{"error":{"code":400,"status":"the key is wrong"}}`), "failure rejected error_400"},
	{"error first, a string", frameOf(`{"error":"x"}`), "failure ran provider_error"},
	{"error null is none", text + frameOf(`{"error":null}`) + reason("STOP"), "completion stop"},
	{"error after output", text + frameOf(fails(400, "INVALID_ARGUMENT")), "uncertain no_terminal"},
	{"error after the reason", text + reason("MAX_TOKENS") + frameOf(fails(400, "INVALID_ARGUMENT")), "completion error"},
	{"bare error after the reason", text + reason("MAX_TOKENS") + fails(400, "INVALID_ARGUMENT"), "completion error"},
	{"bare error after text", text + fails(400, "INVALID_ARGUMENT") + "\n", "uncertain no_terminal"},
	{"bare error, cut", text + reason("MAX_TOKENS") + `{"error":{`, "uncertain no_terminal"},

	// JSON bodies
	{"JSON error", " \n" + fails(404, "NOT_FOUND"), "failure rejected NOT_FOUND"},
	{"JSON answer", "\xEF\xBB\xBF" + `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"MAX_TOKENS"}]}`, "completion output_budget"},
	{"JSON answer without a reason", `{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}`, "uncertain no_terminal"},
	{"JSON answer with an error beside it", `{"candidates":[{"finishReason":"MAX_TOKENS"}],"error":{"code":500}}`, "completion error"},
	{"JSON cut", `{"candidates":[{"finishReason":"MAX_TOKENS"}]`, "uncertain no_terminal"},
	{"JSON and more", `{"candidates":[{"finishReason":"MAX_TOKENS"}]}{`, "uncertain no_terminal"},
	{"JSON of something else", `{"detail":"Not Found"}`, "uncertain no_terminal"},
	{"a list, as without alt=sse", `[{"candidates":[{"finishReason":"MAX_TOKENS"}]}]`, "uncertain no_terminal"},
	{"a page", "<html></html>", "uncertain no_terminal"},
	{"nothing", "", "uncertain no_terminal"},
}

func TestJudge(t *testing.T) {
	for _, c := range judgeCases {
		t.Run(c.name, func(t *testing.T) {
			for k := 0; k <= len(c.body); k++ {
				r := replay([]byte(c.body[:k]), []byte(c.body[k:]))
				if got := say(r.outcome); got != c.want {
					t.Fatalf("split at %d: %s (conflicts %q); want %s", k, got, r.fold.answer.conflicts, c.want)
				}
			}
		})
	}
}

// TestEnds: of a stream, only an end that HTTP framed shows that the frame
// with the reason was the last one; a JSON body shows it itself.
func TestEnds(t *testing.T) {
	stream := text + reason("MAX_TOKENS")
	body := `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"MAX_TOKENS"}]}`
	cases := []struct {
		end          httpwire.End
		stream, body string
	}{
		{httpwire.EndClean, "completion output_budget", "completion output_budget"},
		{httpwire.EndUnframed, "uncertain no_terminal", "completion output_budget"},
		{httpwire.EndBroken, "uncertain transport", "completion output_budget"},
		{httpwire.EndTimeout, "uncertain timeout", "completion output_budget"},
		{httpwire.EndCancelled, "uncertain cancelled", "completion output_budget"},
		{httpwire.EndTooLarge, "uncertain no_terminal", "completion output_budget"},
		{httpwire.EndJournal, "uncertain transport", "uncertain transport"},
	}
	for _, c := range cases {
		for sent, want := range map[string]string{stream: c.stream, body: c.body} {
			f := NewFold(nil)
			f.Write([]byte(sent))
			if got := say(f.End(c.end)); got != want {
				t.Errorf("end %s: %s; want %s", c.end, got, want)
			}
		}
	}
}

func TestCompletionFields(t *testing.T) {
	body := parted(`{"text":"hm","thought":true}`) + text + called + text +
		frameOf(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":11,"toolUsePromptTokenCount":2,"candidatesTokenCount":7,"thoughtsTokenCount":4,"totalTokenCount":24}}`)
	r := replay([]byte(body))
	c, ok := r.outcome.(loop.Completion)
	if !ok {
		t.Fatal("no completion")
	}
	if c.Usage == nil || *c.Usage != (event.Usage{Input: 13, Output: 11, Reasoning: 4}) {
		t.Errorf("usage %+v; want 13, 7+4, 4", c.Usage)
	}
	if c.ResponseDigest != event.Digest([]byte(body)) || c.ResponseBytes != int64(len(body)) {
		t.Errorf("digest %s of %d bytes; want that of the body", c.ResponseDigest, c.ResponseBytes)
	}
	if c.FinishReason != "STOP" || c.Text != "HelloHello" || len(c.ToolCalls) != 1 || c.ToolCalls[0].ID != "" {
		t.Errorf("completion %+v; want STOP, both texts, a call without an id", c)
	}
	if got := fmt.Sprint(r.sink.Messages, r.sink.Deltas); got != "[Hello] [reasoning:hm text:Hello text:Hello]" {
		t.Errorf("sink %s; want the block that the call ended, and the deltas", got)
	}
}

func TestNative(t *testing.T) {
	for body, want := range map[string]string{
		text + reason("OTHER"): "OTHER",
		frameOf(`{"promptFeedback":{"blockReason":"BLOCKLIST"}}`): "BLOCKLIST",
		text + reason("STOP") + reason("MAX_TOKENS"):              "MAX_TOKENS",
	} {
		c, ok := replay([]byte(body)).outcome.(loop.Completion)
		if !ok || c.FinishReason != want {
			t.Errorf("%s: reason %q; want %q", body, c.FinishReason, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for usage, want := range map[string]string{
		`{"promptTokenCount":5,"candidatesTokenCount":8}`:  "5 8 0",
		`{"promptTokenCount":5,"thoughtsTokenCount":2}`:    "5 2 2",
		`{"promptTokenCount":5,"totalTokenCount":5}`:       "none",
		`{"promptTokenCount":-5,"candidatesTokenCount":8}`: "none",
		`{"promptTokenCount":5,"candidatesTokenCount":-8}`: "none",
		`"x"`:  "none",
		`null`: "none",
	} {
		c := replay([]byte(text + reason("STOP") + frameOf(`{"usageMetadata":`+usage+`}`))).outcome.(loop.Completion)
		got := "none"
		if c.Usage != nil {
			got = fmt.Sprint(c.Usage.Input, c.Usage.Output, c.Usage.Reasoning)
		}
		if got != want {
			t.Errorf("%s: usage %s; want %s", usage, got, want)
		}
	}
}

func TestPartialArguments(t *testing.T) {
	deep := "$" + strings.Repeat(".a", maxPath)
	cases := []struct{ values, want string }{ // want "" = spoiled
		{`{"jsonPath":"$.a","stringValue":"x\"é"},{"jsonPath":"$.b","numberValue":1.50}`, `{"a":"x\"é","b":1.50}`},
		{`{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.a","stringValue":"","willContinue":true},{"jsonPath":"$.a","stringValue":"y"}`, `{"a":"xy"}`},
		{`{"jsonPath":"$.l[0]","boolValue":true},{"jsonPath":"$.l[1].x","nullValue":"NULL_VALUE"}`, `{"l":[true,{"x":null}]}`},
		{`{"jsonPath":"$['a b']","numberValue":1},{"jsonPath":"$[\"c\"][0][0]","numberValue":2}`, `{"a b":1,"c":[[2]]}`},
		{`{"jsonPath":"$.b.x","numberValue":1},{"jsonPath":"$.a","numberValue":2},{"jsonPath":"$.b.y","numberValue":3}`, `{"b":{"x":1,"y":3},"a":2}`},
		{`{"jsonPath":"$.l[1]","numberValue":1}`, ""},
		{`{"jsonPath":"$.l[-1]","numberValue":1}`, ""},
		{`{"jsonPath":"$.l[*]","numberValue":1}`, ""},
		{`{"jsonPath":"$[0]","numberValue":1}`, ""},
		{`{"jsonPath":"$","numberValue":1}`, ""},
		{`{"jsonPath":"a","numberValue":1}`, ""},
		{`{"jsonPath":"$..a","numberValue":1}`, ""},
		{`{"jsonPath":"$a","numberValue":1}`, ""},
		{`{"jsonPath":"$[","numberValue":1}`, ""},
		{`{"jsonPath":"$['a","numberValue":1}`, ""},
		{`{"jsonPath":"$['a\\'b']","numberValue":1}`, ""},
		{`{"jsonPath":"` + deep + `","numberValue":1}`, ""},
		{`{"jsonPath":"$.a"}`, ""},
		{`{"jsonPath":"$.a","numberValue":"1"}`, ""},
		{`{"jsonPath":"$.a","numberValue":1},{"jsonPath":"$.a.b","numberValue":1}`, ""},
		{`{"jsonPath":"$.a[0]","numberValue":1},{"jsonPath":"$.a.b","numberValue":1}`, ""},
		{`{"jsonPath":"$.a.b","numberValue":1},{"jsonPath":"$.a","numberValue":1}`, ""},
		{`{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.a","numberValue":1}`, ""},
		{`{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.b","stringValue":"y"}`, ""},
	}
	for _, c := range cases {
		o := replay([]byte(piece(`"name":"f","partialArgs":[`+c.values+`]`) + reason("STOP"))).outcome.(loop.Completion)
		if got := o.ToolCalls[0]; got.Arguments != c.want || executable(o) != (c.want != "") {
			t.Errorf("%s: call %+v, %s; want %s", c.values, got, say(o), c.want)
		}
	}
}

// TestEventTooLong: what stands behind a frame that is too long is not read,
// so the reason before it may not be the last word.
func TestEventTooLong(t *testing.T) {
	f := NewFold(nil)
	f.parser.Limit = 400
	f.Write([]byte(text + reason("MAX_TOKENS") + frameOf(`{"pad":"`+strings.Repeat("x", 500)+`"}`)))
	if got := say(f.End(httpwire.EndClean)); got != "completion unrecognised" {
		t.Errorf("outcome %s; want completion unrecognised", got)
	}
}

func FuzzFoldSplit(f *testing.F) {
	f.Add([]byte(text+called+reason("STOP")), uint16(40))
	f.Add([]byte("\xEF\xBB\xBF\r\n"+`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"MAX_TOKENS"}]}`), uint16(3))
	f.Add([]byte(": c\r\r"+text+reason("MAX_TOKENS")+"{\r\n \"error\": {\"code\": 503}\r\n}\r\n"), uint16(9))
	f.Add([]byte(begun+piece(`"partialArgs":[{"jsonPath":"$.a[0]","stringValue":"x","willContinue":true}],"willContinue":true`)+ended+reason("STOP")), uint16(99))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		body = body[:min(len(body), 1024)] // each prefix is judged
		k := min(int(at), len(body))
		reference := replay(body).String()
		if got := replay(body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
		single, sink := newRecorded()
		for i := range body {
			checkPrefix(t, body[:i])
			single.Write(body[i : i+1])
		}
		if got := (result{single, sink, single.End(httpwire.EndClean)}).String(); got != reference {
			t.Fatalf("one byte at a time: %s\nin one piece: %s", got, reference)
		}
	})
}
