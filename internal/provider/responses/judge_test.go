package responses

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// say writes an outcome in short: kind, finish or reason or code, veto.
func say(o loop.Outcome) string {
	switch o := o.(type) {
	case loop.Completion:
		s := "completion " + string(o.Finish)
		if o.Veto != "" {
			s += " veto " + o.Veto
		}
		if len(o.ToolCalls) > 0 && executable(o) {
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

// events writes one event a frame.
func events(frames ...string) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString("data: " + f + "\n\n")
	}
	return b.String()
}

const (
	born     = `{"type":"response.created","response":{"id":"r1","object":"response","status":"in_progress"}}`
	text     = `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hello"}`
	textDone = `{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hello"}`
	refused  = `{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"No."}`
	callDone = `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{}"}}`
	noName   = `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","status":"completed","call_id":"call_1","arguments":"{}"}}`
	noID     = `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","status":"completed","name":"f","arguments":"{}"}}`
	openCall = `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call_1","name":"f","arguments":""}}`
)

// over is a terminal event; more goes into its response.
func over(status string, more ...string) string {
	return fmt.Sprintf(`{"type":"response.%s","response":{"id":"r1","object":"response","status":%q%s}}`, status, status, strings.Join(more, ""))
}

func because(reason string) string {
	return fmt.Sprintf(`,"incomplete_details":{"reason":%q}`, reason)
}

func used(output int) string {
	return fmt.Sprintf(`,"usage":{"input_tokens":3,"output_tokens":%d}`, output)
}

func output(items string) string { return `,"output":[` + items + `]` }

func fault400(code, kind string) string {
	return fmt.Sprintf(`{"type":"error","error":{"code":%q,"type":%q}}`, code, kind)
}

const budget = 100

var judgeCases = []struct {
	name, profile, body string
	budget              int64
	want                string
}{
	{"nothing", "openai", "", 0, "uncertain no_terminal"},
	{"foreign", "openai", events(`{"choices":[]}`), 0, "uncertain no_terminal"},
	{"text", "openai", events(born, text, textDone, over("completed")), 0, "completion stop"},
	{"no text", "openai", events(born, over("completed")), 0, "completion stop"},
	{"done marker proves nothing", "openai", events(born, text, "[DONE]"), 0, "uncertain no_terminal"},
	{"unknown events are ignored", "openai", events(born, `{"type":"response.new.thing","delta":{"a":[1]},"error":null}`, text, over("completed")), 0, "completion stop"},
	{"unreadable event", "openai", events(born, text, `{"type":`, over("completed")), 0, "completion unrecognised"},
	{"a name twice", "openai", events(born, text, `{"type":"a","type":"b"}`, over("completed")), 0, "completion unrecognised"},
	{"refusal", "openai", events(born, refused, over("completed")), 0, "completion refusal"},
	{"call", "openai", events(born, callDone, over("completed")), 0, "completion tool_calls executable"},
	{"call and refusal", "openai", events(born, callDone, refused, over("completed")), 0, "completion unrecognised"},
	{"call without a name", "openai", events(born, noName, over("completed")), 0, "completion unrecognised"},
	{"call without an id", "openai", events(born, noID, over("completed")), 0, "completion unrecognised"},
	{"call that is not done", "openai", events(born, openCall, over("completed")), 0, "completion unrecognised"},
	{"call in an incomplete response", "openai", events(born, callDone, over("incomplete", because("max_output_tokens"))), 0, "completion output_budget"},
	{"call with refused continuation", "openai", events(born, refused, over("incomplete", because("max_output_tokens"))), 0, "completion refusal"},
	{"content filter", "openai", events(born, over("incomplete", because("content_filter"))), 0, "completion content_filter"},
	{"steered", "openai", events(born, text, over("incomplete", because("steered"))), 0, "completion steered"},
	{"max messages", "openai", events(born, text, over("incomplete", because("max_messages"))), 0, "completion unrecognised"},
	{"length is not a reason here", "openai", events(born, text, over("incomplete", because("length"))), 0, "completion unrecognised"},
	{"incomplete without a reason", "openai", events(born, text, over("incomplete")), 0, "completion unrecognised"},
	{"completed with a reason", "openai", events(born, text, over("completed", because("max_output_tokens"))), 0, "completion unrecognised"},
	{"status and type differ", "openai", events(born, text, strings.Replace(over("completed"), `"status":"completed"`, `"status":"incomplete"`, 1)), 0, "completion unrecognised"},
	{"status left out", "openai", events(born, text, strings.Replace(over("completed"), `"status":"completed"`, `"model":"m"`, 1)), 0, "completion stop"},
	{"two ends", "openai", events(born, text, over("completed"), over("incomplete", because("max_output_tokens"))), 0, "completion unrecognised"},
	{"the same end twice", "openai", events(born, text, over("completed"), over("completed")), 0, "completion stop"},
	{"output after the end", "openai", events(born, text, over("completed"), text), 0, "completion unrecognised"},
	{"another response", "openai", events(born, text, strings.Replace(born, "r1", "r2", 1), over("completed")), 0, "completion unrecognised"},
	{"another response ends", "openai", events(born, text, strings.Replace(over("completed"), "r1", "r2", 1)), 0, "uncertain no_terminal"},
	{"steering over HTTP", "openai", events(born, text, `{"type":"response.steer.accepted","steer":{"id":"s"}}`, over("completed")), 0, "completion unrecognised"},
	{"item changes", "openai", events(born, text, callDone, over("completed")), 0, "completion unrecognised"},
	{"call changes", "openai", events(born, callDone, strings.Replace(callDone, "call_1", "call_2", 1), over("completed")), 0, "completion unrecognised"},
	{"delta after done", "openai", events(born, callDone, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"}"}`, over("completed")), 0, "completion unrecognised"},
	{"text differs", "openai", events(born, text, strings.Replace(textDone, "Hello", "Hallo", 1), over("completed")), 0, "completion unrecognised"},
	{"output differs in text", "openai", events(born, text, over("completed", output(`{"type":"message","status":"completed","content":[{"type":"output_text","text":"x"}]}`))), 0, "completion unrecognised"},
	{"output differs in calls", "openai", events(born, text, over("completed", output(`{"type":"message","content":[{"type":"output_text","text":"Hello"}]},{"type":"function_call","status":"completed","call_id":"c","name":"f","arguments":"{}"}`))), 0, "completion unrecognised"},
	{"a part of another kind", "openai", events(born, text, `{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"No."}`, over("completed")), 0, "completion unrecognised"},
	{"a part of an unknown kind", "openai", events(born, over("completed", output(`{"type":"message","status":"completed","content":[{"type":"output_audio"}]}`))), 0, "completion unrecognised"},
	{"output only", "openai", events(born, over("completed", output(`{"type":"function_call","status":"completed","call_id":"c","name":"f","arguments":"{}"}`))), 0, "completion tool_calls executable"},
	{"failed", "openai", events(born, over("failed", `,"error":{"code":"server_error"}`)), 0, "failure ran server_error"},
	{"failed without a word", "openai", events(born, over("failed")), 0, "failure ran response_failed"},
	{"failed after an error", "openai", events(born, fault400("insufficient_quota", "insufficient_quota"), over("failed")), 0, "failure ran insufficient_quota"},
	{"cancelled", "openai", events(born, over("cancelled", `,"error":{"code":"x"}`)), 0, "failure ran response_cancelled"},
	{"error first", "openai", events(fault400("context_length_exceeded", "invalid_request_error")), 0, "failure rejected context_length_exceeded"},
	{"error first, only a type", "openai", events(`{"type":"error","error":{"type":"invalid_request_error"}}`), 0, "failure rejected invalid_request_error"},
	{"error first, of the server", "openai", events(fault400("server_error", "server_error")), 0, "failure ran server_error"},
	{"error first, status 503", "openai", events(`{"type":"error","status":503,"error":{"code":"server_error"}}`), 0, "uncertain transport"},
	{"error first, status 400", "openai", events(`{"type":"error","status":400,"error":{"code":"no_such_thing"}}`), 0, "failure rejected no_such_thing"},
	{"error first, type and status differ", "openai", events(`{"type":"error","status":503,"error":{"type":"invalid_request_error"}}`), 0, "uncertain transport"},
	{"error without a type", "openai", events(`{"error":{"code":429,"message":"m"}}`), 0, "failure rejected error_429"},
	{"error event by its name", "openai", "event: error\ndata: {\"code\":\"invalid_request\"}\n\n", 0, "failure rejected invalid_request"},
	{"error in prose", "openai", events(`{"type":"error","code":"a whole sentence of it","message":"m"}`), 0, "failure ran provider_error"},
	{"error after the beginning", "openai", events(born, fault400("context_length_exceeded", "invalid_request_error")), 0, "uncertain no_terminal"},
	{"error, then completed", "openai", events(born, text, fault400("server_error", ""), over("completed")), 0, "completion error"},
	{"completed with an error", "openai", events(born, text, over("completed", `,"error":{"code":"x"}`)), 0, "completion error"},
	{"JSON, an error", "openai", `{"error":{"code":"model_not_found"}}`, 0, "failure rejected model_not_found"},
	{"JSON, foreign", "openai", `{"object":"list","data":[]}`, 0, "uncertain no_terminal"},
	{"JSON, in progress", "openai", `{"object":"response","id":"r1","status":"in_progress"}`, 0, "uncertain no_terminal"},
	{"JSON, failed", "openai", `{"object":"response","id":"r1","status":"failed","error":{"code":"server_error"}}`, 0, "failure ran server_error"},

	{"veto, no budget", "generic", events(born, callDone, over("completed", used(1))), 0, "completion tool_calls veto budget_unknown"},
	{"veto, no usage", "generic", events(born, callDone, over("completed")), budget, "completion tool_calls veto usage_missing"},
	{"veto, zeros for usage", "generic", events(born, callDone, over("completed", `,"usage":{"input_tokens":0,"output_tokens":0}`)), budget, "completion tool_calls veto usage_missing"},
	{"veto, reached", "generic", events(born, callDone, over("completed", used(budget))), budget, "completion tool_calls veto budget_reached"},
	{"veto, below", "generic", events(born, callDone, over("completed", used(budget-1))), budget, "completion tool_calls executable"},
	{"length, reached", "generic", events(born, text, over("incomplete", because("max_output_tokens"), used(budget))), budget, "completion output_budget"},
	{"length, below", "generic", events(born, text, over("incomplete", because("max_output_tokens"), used(budget-1))), budget, "completion context_window"},
	{"length, no budget", "generic", events(born, text, over("incomplete", because("max_output_tokens"), used(budget))), 0, "completion context_window"},
	{"length, no usage", "generic", events(born, text, over("incomplete", because("max_output_tokens"))), budget, "completion unrecognised"},
	{"length, trusted", "deepseek", events(born, text, over("incomplete", because("max_output_tokens"))), budget, "completion output_budget"},
}

func TestJudge(t *testing.T) {
	for _, c := range judgeCases {
		t.Run(c.name, func(t *testing.T) {
			profile, err := LookupProfile(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			f := NewFold(profile, c.budget, nil)
			f.Write([]byte(c.body))
			if got := say(f.End(httpwire.EndClean)); got != c.want {
				t.Errorf("%s; want %s (conflicts %q)", got, c.want, f.answer.conflicts)
			}
		})
	}
}

// TestEnds holds how an exchange ended against an answer without an end.
func TestEnds(t *testing.T) {
	for end, want := range map[httpwire.End]string{
		httpwire.EndClean: event.UnknownNoTerminal, httpwire.EndUnframed: event.UnknownNoTerminal,
		httpwire.EndBroken: event.UnknownTransport, httpwire.EndTimeout: event.UnknownTimeout,
		httpwire.EndCancelled: event.UnknownCancelled, httpwire.EndTooLarge: event.UnknownNoTerminal,
		httpwire.EndJournal: event.UnknownTransport,
	} {
		f := NewFold(Profile{}, 0, nil)
		f.Write([]byte(events(born, text)))
		if got := say(f.End(end)); got != "uncertain "+want {
			t.Errorf("end %s: %s; want %s", end, got, want)
		}
	}
	f := NewFold(Profile{}, 0, nil)
	f.Write([]byte(events(born, text, over("completed"))))
	if got := say(f.End(httpwire.EndJournal)); got != "uncertain transport" {
		t.Errorf("unsaved bytes: %s; want uncertain", got)
	}
}

func TestMessages(t *testing.T) {
	whole := replay(Profile{}, []byte(events(born, text, textDone, over("completed")))).sink
	if got := fmt.Sprint(*whole); got != "{[text:Hello] [Hello]}" {
		t.Errorf("told %s; want the delta, and the block once", got)
	}
	open := replay(Profile{}, []byte(events(born, text, over("completed")))).sink
	if got := fmt.Sprint(*open); got != "{[text:Hello] []}" {
		t.Errorf("told %s; want no block: it did not end", got)
	}
}

func TestUsage(t *testing.T) {
	f := NewFold(Profile{}, 0, nil)
	f.Write([]byte(events(born, over("completed", `,"usage":{"input_tokens":3,"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}`))))
	c, ok := f.End(httpwire.EndClean).(loop.Completion)
	if !ok || c.Usage == nil || *c.Usage != (event.Usage{Input: 3, Output: 5, Reasoning: 2}) {
		t.Errorf("completion %+v; want usage 3, 5, 2", c)
	}
}

// TestResumedStream reads a stream on: what was seen is not seen twice, and
// what was left out is not guessed.
func TestResumedStream(t *testing.T) {
	numbered := func(n int, e string) string { return fmt.Sprintf(`{"sequence_number":%d,%s`, n, e[1:]) }
	part := func(n int, s string) string {
		return numbered(n, `{"type":"response.output_text.delta","output_index":0,"delta":"`+s+`"}`)
	}
	for _, c := range []struct{ name, first, second, text, want string }{
		{"goes on", events(numbered(0, born), part(1, "a")), events(part(2, "b"), numbered(3, over("completed"))), "ab", "completion stop"},
		{"repeats", events(numbered(0, born), part(1, "a")), events(numbered(0, born), part(1, "a"), part(2, "b"), numbered(3, over("completed"))), "ab", "completion stop"},
		{"cut inside an event", events(numbered(0, born), part(1, "a")) + `data: {"type":"resp`, events(part(2, "b"), numbered(3, over("completed"))), "ab", "completion stop"},
		{"cut before the blank line", strings.TrimRight(events(numbered(0, born), part(1, "a")), "\n"), events(part(2, "b"), numbered(3, over("completed"))), "ab", "completion stop"},
		{"leaves out", events(numbered(0, born), part(1, "a")), events(part(3, "c"), numbered(4, over("completed"))), "ac", "uncertain no_terminal"},
	} {
		f := NewFold(Profile{}, 0, nil)
		f.Write([]byte(c.first))
		f.Resume()
		f.Write([]byte(c.second))
		outcome := f.End(httpwire.EndClean)
		if got := say(outcome); got != c.want || f.answer.text() != c.text {
			t.Errorf("%s: %s, text %q; want %s, %q", c.name, got, f.answer.text(), c.want, c.text)
		}
	}
}
