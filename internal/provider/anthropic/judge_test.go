package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

const (
	begin  = `data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}` + "\n\n"
	opened = `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	piece  = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}` + "\n\n"
	closed = `data: {"type":"content_block_stop","index":0}` + "\n\n"
	text   = opened + piece + closed
	fn     = `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"tu_1","name":"f","input":{}}}` + "\n\n"
	args   = `data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}` + "\n\n"
	endFn  = `data: {"type":"content_block_stop","index":1}` + "\n\n"
	call   = fn + args + endFn
	done   = `data: {"type":"message_stop"}` + "\n\n"
)

func reason(r string) string {
	return fmt.Sprintf(`data: {"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":7}}`+"\n\n", r)
}

func fails(kind string) string {
	return fmt.Sprintf(`data: {"type":"error","error":{"type":%q,"message":"m"}}`+"\n\n", kind)
}

func frameOf(json string) string { return "data: " + json + "\n\n" }

var judgeCases = []struct{ name, body, want string }{
	{"end_turn", begin + text + reason("end_turn") + done, "completion stop"},
	{"max_tokens", begin + text + reason("max_tokens") + done, "completion output_budget"},
	{"compaction", begin + text + reason("compaction") + done, "completion paused"},
	{"refusal without content", begin + reason("refusal") + done, "completion refusal"},
	{"a message_delta without a reason", begin + text + frameOf(`{"type":"message_delta","delta":{"stop_reason":null}}`) + reason("end_turn") + done, "completion stop"},

	// D: the whitelist
	{"no reason", begin + text + done, "completion unrecognised"},
	{"empty reason", begin + text + reason("") + done, "completion unrecognised"},
	{"another protocol's reason", begin + text + reason("length") + done, "completion unrecognised"},
	{"upper case", begin + text + reason("MAX_TOKENS") + done, "completion unrecognised"},

	// E: contradictions
	{"two reasons", begin + text + reason("max_tokens") + reason("end_turn") + done, "completion unrecognised"},
	{"a reason twice", begin + text + reason("max_tokens") + reason("max_tokens") + done, "completion output_budget"},
	{"a reason after the end", begin + text + reason("max_tokens") + done + reason("max_tokens"), "completion unrecognised"},
	{"text after the reason", begin + reason("max_tokens") + text + done, "completion unrecognised"},
	{"text after the end", begin + reason("max_tokens") + done + text, "completion unrecognised"},
	{"budget, then an error", begin + text + reason("max_tokens") + fails("api_error") + done, "completion error"},
	{"budget, end, then an error", begin + text + reason("max_tokens") + done + fails("api_error"), "completion error"},
	{"no message_start", text + reason("max_tokens") + done, "completion unrecognised"},
	{"message_start without a message", frameOf(`{"type":"message_start"}`) + text + reason("max_tokens") + done, "completion unrecognised"},
	{"another message's start", begin + frameOf(`{"type":"message_start","message":{"id":"msg_2"}}`) + text + reason("max_tokens") + done, "completion unrecognised"},
	{"unreadable frame", begin + text + frameOf(`{oops`) + reason("max_tokens") + done, "completion unrecognised"},
	{"a name twice", begin + text + frameOf(`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_reason":"max_tokens"}}`) + done, "completion unrecognised"},
	{"frame without a type", begin + text + frameOf(`{"x":1}`) + reason("max_tokens") + done, "completion unrecognised"},
	{"a type nobody knows", begin + text + frameOf(`{"type":"from_the_future","x":1}`) + reason("max_tokens") + done, "completion output_budget"},
	{"block without an index", begin + frameOf(`{"type":"content_block_start","content_block":{"type":"text","text":"x"}}`) + reason("max_tokens") + done, "completion unrecognised"},
	{"block begun twice", begin + text + opened + reason("max_tokens") + done, "completion unrecognised"},
	{"delta of a block that did not begin", begin + piece + reason("max_tokens") + done, "completion unrecognised"},
	{"delta after the block's end", begin + text + piece + reason("max_tokens") + done, "completion unrecognised"},
	{"block ended twice", begin + text + closed + reason("max_tokens") + done, "completion unrecognised"},
	{"text of a call", begin + fn + frameOf(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"}}`) + endFn + reason("tool_use") + done, "completion unrecognised"},
	{"arguments of a text", begin + opened + frameOf(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}`) + closed + reason("max_tokens") + done, "completion unrecognised"},
	{"arguments in the start and in deltas", begin + frameOf(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"tu_1","name":"f","input":{"a":1}}}`) + args + endFn + reason("tool_use") + done, "completion unrecognised"},

	// G: calls
	{"call", begin + text + call + reason("tool_use") + done, "completion tool_calls executable"},
	{"call whose arguments its start holds", begin + frameOf(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"tu_1","name":"f","input":{"a":1}}}`) + endFn + reason("tool_use") + done, "completion tool_calls executable"},
	{"call without arguments", begin + fn + endFn + reason("tool_use") + done, "completion tool_calls executable"},
	{"call that did not end", begin + fn + args + reason("tool_use") + done, "completion tool_calls"},
	{"call without arguments or end", begin + fn + reason("tool_use") + done, "completion tool_calls"},
	{"call without an id", begin + frameOf(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}`) + endFn + reason("tool_use") + done, "completion tool_calls"},
	{"call without a name", begin + frameOf(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"x","input":{}}}`) + endFn + reason("tool_use") + done, "completion tool_calls"},
	{"calls without message_stop", begin + call + reason("tool_use"), "uncertain no_terminal"},
	{"tool_use without a call", begin + text + reason("tool_use") + done, "completion unrecognised"},
	{"a server's tool is no call of ours", begin + frameOf(`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"x","name":"f","input":{}}}`) + args + endFn + reason("tool_use") + done, "completion unrecognised"},
	{"end_turn authorises no call", begin + call + reason("end_turn") + done, "completion stop"},
	{"max_tokens authorises no call", begin + call + reason("max_tokens") + done, "completion output_budget"},

	// errors inside a 200
	{"error first, of the request", fails("invalid_request_error"), "failure rejected invalid_request_error"},
	{"error first, rate limit", fails("rate_limit_error"), "failure rejected rate_limit_error"},
	{"error first, overloaded", begin + fails("overloaded_error"), "uncertain transport"},
	{"error first, timeout", begin + fails("timeout_error"), "uncertain timeout"},
	{"error first, of no known type", begin + fails("odd_error"), "failure ran odd_error"},
	{"error first, prose for a type", fails("the key is wrong"), "failure ran provider_error"},
	{"error without a type on the frame", frameOf(`{"error":{"type":"invalid_request_error"}}`), "failure rejected invalid_request_error"},
	{"error after output", begin + opened + fails("invalid_request_error"), "uncertain no_terminal"},
	{"error after output, then the end", begin + opened + fails("invalid_request_error") + done, "completion error"},

	// JSON bodies
	{"JSON error", `{"type":"error","error":{"type":"not_found_error","message":"m"}}`, "failure rejected not_found_error"},
	{"JSON message", "\xEF\xBB\xBF\n" + `{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"max_tokens"}`, "completion output_budget"},
	{"JSON message with an error beside it", `{"type":"message","content":[],"stop_reason":"max_tokens","error":{"type":"odd"}}`, "failure ran odd"},
	{"JSON message without a reason", `{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":null}`, "completion unrecognised"},
	{"JSON cut", `{"type":"message","content":[],"stop_reason":"max_tokens"`, "uncertain no_terminal"},
	{"JSON and more", `{"type":"message","content":[],"stop_reason":"max_tokens"}{`, "uncertain no_terminal"},
	{"JSON of something else", `{"detail":"Not Found"}`, "uncertain no_terminal"},
	{"a page", "<html></html>", "uncertain no_terminal"},
	{"nothing", "", "uncertain no_terminal"},
	{"last frame without its blank line", begin + text + reason("max_tokens") + `data: {"type":"message_stop"}`, "completion output_budget"},
	{"last frame cut", begin + text + reason("max_tokens") + `data: {"type":"message_stop"`, "uncertain no_terminal"},
	{"the end, then a piece of a frame", begin + text + reason("max_tokens") + done + `data: {`, "completion output_budget"},
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

func TestEnds(t *testing.T) {
	cases := []struct {
		end           httpwire.End
		before, after string // the terminal frame
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
		open := begin + text + reason("end_turn")
		for body, want := range map[string]string{open: c.before, open + done: c.after} {
			f := NewFold(nil)
			f.Write([]byte(body))
			if got := say(f.End(c.end)); got != want {
				t.Errorf("end %s: %s; want %s", c.end, got, want)
			}
		}
	}
}

func TestCompletionFields(t *testing.T) {
	body := begin + text + reason("max_tokens") + done
	r := replay([]byte(body))
	c, ok := r.outcome.(loop.Completion)
	if !ok {
		t.Fatal("no completion")
	}
	if c.Usage == nil || *c.Usage != (event.Usage{Input: 125, Output: 7}) {
		t.Errorf("usage %+v; want 5+20+100 in, 7 out", c.Usage)
	}
	if c.ResponseDigest != event.Digest([]byte(body)) || c.ResponseBytes != int64(len(body)) {
		t.Errorf("digest %s of %d bytes; want that of the body", c.ResponseDigest, c.ResponseBytes)
	}
	if c.FinishReason != "max_tokens" || c.Text != "Hello" {
		t.Errorf("reason %q text %q; want max_tokens, Hello", c.FinishReason, c.Text)
	}
	if got := fmt.Sprint(r.sink.Messages, r.sink.Deltas); got != "[Hello] [text:Hello]" {
		t.Errorf("sink %s; want one message, one delta", got)
	}
}

func TestUsage(t *testing.T) {
	usage := func(n string) string {
		return frameOf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + n + `}`)
	}
	cases := map[string]string{
		begin + text + frameOf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`) + done: "none", // only message_start's
		begin + usage(`{"output_tokens":3}`) + usage(`{"output_tokens":9}`) + done:                   "125 9",
		begin + usage(`{"input_tokens":6,"cache_read_input_tokens":0,"output_tokens":9}`) + done:     "26 9",
		begin + usage(`{"output_tokens":-1}`) + done:                                                 "125 1",
		begin + usage(`"x"`) + done: "none",
		frameOf(`{"type":"message_start","message":{"id":"m"}}`) + usage(`{"output_tokens":2}`) + done:                                          "0 2",
		begin + frameOf(`{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":999}}}`) + usage(`{"output_tokens":2}`) + done: "125 2",
	}
	for body, want := range cases {
		c, ok := replay([]byte(body)).outcome.(loop.Completion)
		if !ok {
			t.Fatalf("%s: no completion", body)
		}
		got := "none"
		if c.Usage != nil {
			got = fmt.Sprint(c.Usage.Input, c.Usage.Output)
		}
		if got != want {
			t.Errorf("%s: usage %s; want %s", body, got, want)
		}
	}
}

// TestEventTooLong: what stands behind a frame that is too long is not read,
// so nothing ends the message.
func TestEventTooLong(t *testing.T) {
	f := NewFold(nil)
	f.parser.Limit = 400
	f.Write([]byte(begin + text + reason("max_tokens") + frameOf(`{"type":"x","pad":"`+strings.Repeat("x", 500)+`"}`) + done))
	if got := say(f.End(httpwire.EndClean)); got != "uncertain no_terminal" {
		t.Errorf("outcome %s; want uncertain no_terminal", got)
	}
}

func FuzzFoldSplit(f *testing.F) {
	f.Add([]byte(begin+text+call+reason("tool_use")+done), uint16(40))
	f.Add([]byte("\xEF\xBB\xBF\r\n"+`{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"max_tokens"}`), uint16(3))
	f.Add([]byte(": c\r\r"+begin+fn+reason("max_tokens")+fails("api_error")+done), uint16(9))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		body = body[:min(len(body), 1024)] // each prefix is judged
		k := min(int(at), len(body))
		reference := replay(body).String()
		if got := replay(body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
		single, sink := newRecorded()
		for i := range body {
			checkPrefix(t, single.clone(), body[:i])
			single.Write(body[i : i+1])
		}
		if got := (result{single, sink, single.End(httpwire.EndClean)}).String(); got != reference {
			t.Fatalf("one byte at a time: %s\nin one piece: %s", got, reference)
		}
	})
}
