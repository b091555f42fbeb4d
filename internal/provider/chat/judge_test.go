package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

const (
	done   = "data: [DONE]\n\n"
	text   = `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"
	oneFn  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n"
	noName = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"arguments":"{}"}}]}}]}` + "\n\n"
	noID   = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n"
	refuse = `data: {"choices":[{"index":0,"delta":{"refusal":"No."}}]}` + "\n\n"
	think  = `data: {"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}` + "\n\n"
)

func reason(r string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\n", r)
}

func used(completion int) string {
	return fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n", completion)
}

func fault400(code string) string {
	return fmt.Sprintf(`data: {"error":{"message":"m","type":"t","code":%s}}`+"\n\n", code)
}

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

const budget = 100

var judgeCases = []struct {
	name, profile, body string
	budget              int64
	want                string
}{
	{"stop", "openai", text + reason("stop") + done, 0, "completion stop"},
	{"legacy function_call has no id", "openai", `data: {"choices":[{"delta":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}` + "\n\n" + done, 0, "completion tool_calls"},
	{"content filter", "openai", text + reason("content_filter") + done, 0, "completion content_filter"},

	// D: the whitelist
	{"no reason", "openai", text + done, 0, "completion unrecognised"},
	{"empty reason is none", "openai", text + reason("") + done, 0, "completion unrecognised"},
	{"nothing but done", "openai", done, 0, "completion unrecognised"},
	{"looks like a budget", "openai", text + reason("max_tokens") + done, 0, "completion unrecognised"},
	{"end_turn", "generic", text + reason("end_turn") + done, budget, "completion unrecognised"},
	{"upper case", "openai", text + reason("LENGTH") + done, 0, "completion unrecognised"},
	{"another server's reason", "openai", text + reason("insufficient_system_resource") + done, 0, "completion unrecognised"},
	{"deepseek's own", "deepseek", text + reason("insufficient_system_resource") + done, 0, "completion error"},
	{"vllm abort", "vllm", text + reason("abort") + done, 0, "completion error"},
	{"vllm repetition", "vllm", text + reason("repetition") + done, 0, "completion unrecognised"},
	{"openrouter error", "openrouter", text + reason("error") + done, 0, "completion error"},
	{"reason of another type", "openai", text + `data: {"choices":[{"delta":{},"finish_reason":7}]}` + "\n\n" + done, 0, "completion unrecognised"},

	// E: contradictions
	{"two reasons", "openai", text + reason("length") + reason("stop") + done, 0, "completion unrecognised"},
	{"length, then error", "openai", text + reason("length") + fault400(`"x"`) + done, 0, "completion error"},
	{"length, done, then error", "openai", text + reason("length") + done + fault400(`"x"`), 0, "completion error"},
	{"error null is none", "openai", text + `data: {"choices":[],"error":null}` + "\n\n" + reason("stop") + done, 0, "completion stop"},
	{"text after the reason", "openai", text + reason("length") + text + done, 0, "completion unrecognised"},
	{"text after done", "openai", text + reason("stop") + done + text, 0, "completion unrecognised"},
	{"reason after done", "openai", text + done + reason("length"), 0, "completion unrecognised"},
	{"empty delta after the reason", "openai", text + reason("length") + `data: {"choices":[{"index":0,"delta":{"content":"","role":"assistant"},"finish_reason":"length"}]}` + "\n\n" + done, 0, "completion output_budget"},
	{"unreadable frame", "openai", text + "data: {oops\n\n" + reason("length") + done, 0, "completion unrecognised"},
	{"a name twice", "openai", text + `data: {"choices":[{"delta":{},"finish_reason":"length","finish_reason":"stop"}]}` + "\n\n" + done, 0, "completion unrecognised"},
	{"content of another type", "openai", `data: {"choices":[{"delta":{"content":{"a":1}}}]}` + "\n\n" + reason("length") + done, 0, "completion unrecognised"},
	{"tool_calls without calls", "openai", text + reason("tool_calls") + done, 0, "completion unrecognised"},
	{"tool_calls and a refusal", "openai", refuse + oneFn + reason("tool_calls") + done, 0, "completion unrecognised"},
	{"id changes", "openai", oneFn + strings.ReplaceAll(oneFn, "call_1", "call_2") + reason("tool_calls") + done, 0, "completion unrecognised"},
	{"name changes", "openai", oneFn + strings.ReplaceAll(oneFn, `"f"`, `"g"`) + reason("tool_calls") + done, 0, "completion unrecognised"},
	{"stop with calls authorises none", "openai", oneFn + reason("stop") + done, 0, "completion stop"},

	// refusals
	{"refusal", "openai", refuse + reason("stop") + done, 0, "completion refusal"},
	{"refusal cut by the budget", "openai", refuse + reason("length") + done, 0, "completion refusal"},

	// F: length
	{"length", "openai", text + reason("length") + done, 0, "completion output_budget"},
	{"done, then a piece of a frame", "openai", text + reason("length") + done + "data: {", 0, "completion output_budget"},
	{"length without done", "openai", text + reason("length") + used(5), 0, "uncertain no_terminal"},
	{"length, budget reached", "llamacpp", text + reason("length") + used(budget) + done, budget, "completion output_budget"},
	{"length, budget passed", "llamacpp", text + reason("length") + used(budget+1) + done, budget, "completion output_budget"},
	{"length, budget not reached", "llamacpp", text + reason("length") + used(budget-1) + done, budget, "completion context_window"},
	{"length, no budget asked for", "llamacpp", text + reason("length") + used(budget) + done, 0, "completion context_window"},
	{"length, no usage", "llamacpp", text + reason("length") + done, budget, "completion unrecognised"},
	{"stop at the budget is no cutoff", "llamacpp", text + reason("stop") + used(budget) + done, budget, "completion stop"},
	{"unknown reason at the budget is no cutoff", "openai", text + reason("max") + used(budget) + done, budget, "completion unrecognised"},

	// G: calls, and what vetoes them
	{"calls", "openai", oneFn + reason("tool_calls") + done, 0, "completion tool_calls executable"},
	{"calls without done", "openai", oneFn + reason("tool_calls") + used(5), 0, "uncertain no_terminal"},
	{"calls at the budget, trusted", "openai", oneFn + reason("tool_calls") + used(budget) + done, budget, "completion tool_calls executable"},
	{"calls at the budget", "vllm", oneFn + reason("tool_calls") + used(budget) + done, budget, "completion tool_calls veto budget_reached"},
	{"calls under the budget", "vllm", oneFn + reason("tool_calls") + used(budget-1) + done, budget, "completion tool_calls executable"},
	{"calls without usage", "ollama-v1", oneFn + reason("tool_calls") + done, budget, "completion tool_calls veto usage_missing"},
	{"calls without a budget", "lmstudio", oneFn + reason("tool_calls") + used(5) + done, 0, "completion tool_calls veto budget_unknown"},
	{"usage that says nothing", "generic", oneFn + reason("tool_calls") + `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":null}}` + "\n\n" + done, budget, "completion tool_calls veto usage_missing"},
	{"another choice", "openai", oneFn + reason("tool_calls") + strings.ReplaceAll(reason("length"), `"index":0`, `"index":1`) + done, 0, "completion tool_calls veto other_choice"},
	{"call without a name", "openai", noName + reason("tool_calls") + done, 0, "completion tool_calls"},
	{"call without an id", "openai", noID + reason("tool_calls") + done, 0, "completion tool_calls"},
	{"length with whole calls", "openai", oneFn + reason("length") + done, 0, "completion output_budget"},
	{"azure: late filter reason", "azure", text + reason("stop") + reason("content_filter") + done, 0, "completion content_filter"},
	{"late filter mark", "openai", oneFn + reason("tool_calls") + `data: {"choices":[{"index":0,"content_filter_results":{"hate":{"filtered":true},"error":"x"}}]}` + "\n\n" + done, 0, "completion tool_calls veto content_filter"},
	{"azure: filter passed", "azure", oneFn + reason("tool_calls") + `data: {"choices":[{"index":0,"content_filter_results":{"hate":{"filtered":false}}}]}` + "\n\n" + done, 0, "completion tool_calls executable"},
	{"late filter elsewhere is a contradiction", "openai", text + reason("stop") + reason("content_filter") + done, 0, "completion unrecognised"},

	// errors inside a 200
	{"error first", "openai", fault400(`"server_error"`) + done, 0, "failure ran server_error"},
	{"error first, of the request", "openai", fault400(`"context_length_exceeded"`), 0, "failure rejected context_length_exceeded"},
	{"error first, by its type", "openai", `data: {"error":{"message":"m","type":"invalid_request_error","code":"odd"}}` + "\n\n", 0, "failure rejected odd"},
	{"error first, 402", "openrouter", fault400("402"), 0, "failure rejected error_402"},
	{"error first, 429 is an upstream's", "openrouter", fault400("429"), 0, "uncertain transport"},
	{"error first, 502", "openrouter", fault400("502"), 0, "uncertain transport"},
	{"error after output", "openai", text + fault400(`"server_error"`), 0, "uncertain no_terminal"},
	{"error after reasoning", "openai", think + fault400(`"invalid_request_error"`), 0, "uncertain no_terminal"},
	{"error after output, then done", "openai", text + fault400(`"server_error"`) + done, 0, "completion error"},
	{"error event, flat", "openai", "event: error\ndata: {\"message\":\"m\",\"code\":\"oops\"}\n\n", 0, "failure ran oops"},
	{"error event, nested", "openai", text + "event: error\ndata: {\"error\":{\"code\":\"tool_use_failed\",\"type\":\"invalid_request_error\"}}\n\n", 0, "failure ran tool_use_failed"},
	{"error object by name", "vllm", `data: {"object":"error","message":"m","type":"BadRequestError","code":400}` + "\n\n", 0, "failure rejected error_400"},
	{"error that is a string", "lmstudio", `data: {"error":"model crashed"}` + "\n\n", 0, "failure ran provider_error"},
	{"prose is no code", "openai", fault400(`"the key sk-123 is wrong"`), 0, "failure ran t"},

	// JSON bodies
	{"JSON error", "openai", `{"error":{"message":"m","type":"invalid_request_error"}}`, 0, "failure rejected invalid_request_error"},
	{"JSON after a mark and blank lines", "openai", "\xEF\xBB\xBF\r\n \n" + `{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`, 0, "completion stop"},
	{"stream after a mark", "openai", "\xEF\xBB\xBF" + text + reason("stop") + done, 0, "completion stop"},
	{"stream after blank lines and a mark is none", "openai", "\n\xEF\xBB\xBF" + done, 0, "uncertain no_terminal"},
	{"stream whose first data is no line", "openai", "{" + text + reason("stop") + done, 0, "uncertain no_terminal"},
	{"JSON error after blank lines", "deepseek", "\n\n \n" + `{"error":{"message":"m","code":"x"}}`, 0, "failure ran x"},
	{"JSON completion", "openai", `{"choices":[{"message":{"content":"Hi"},"finish_reason":"length"}]}`, 0, "completion output_budget"},
	{"JSON completion, vetoed", "vllm", `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"completion_tokens":100}}`, budget, "completion tool_calls veto budget_reached"},
	{"JSON completion with an error beside it", "openrouter", `{"choices":[{"message":{"content":"Hi"},"finish_reason":"length"}],"error":{"code":502}}`, 0, "completion error"},
	{"JSON cut", "openai", `{"choices":[{"message":{"content":"Hi"},"finish_reason":"length"}]`, 0, "uncertain no_terminal"},
	{"JSON and more", "openai", `{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]} {`, 0, "uncertain no_terminal"},
	{"JSON of something else", "openai", `{"detail":"Not Found"}`, 0, "uncertain no_terminal"},
	{"JSON without a choice", "openai", `{"choices":[]}`, 0, "uncertain no_terminal"},
	{"a page", "openai", "<html><body>Welcome</body></html>", 0, "uncertain no_terminal"},
	{"nothing", "openai", "", 0, "uncertain no_terminal"},
	{"blank", "openai", "\n\n", 0, "uncertain no_terminal"},
}

func TestJudge(t *testing.T) {
	for _, c := range judgeCases {
		t.Run(c.name, func(t *testing.T) {
			profile, err := LookupProfile(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			for k := 0; k <= len(c.body); k++ {
				f := NewFold(profile, c.budget, nil)
				f.Write([]byte(c.body[:k]))
				f.Write([]byte(c.body[k:]))
				if got := say(f.End(httpwire.EndClean)); got != c.want {
					t.Fatalf("split at %d: %s; want %s", k, got, c.want)
				}
			}
		})
	}
}

func TestDoneOptional(t *testing.T) {
	body := []byte(text + reason("length"))
	cases := []struct {
		optional bool
		end      httpwire.End
		want     string
	}{
		{true, httpwire.EndClean, "completion output_budget"},
		{true, httpwire.EndUnframed, "uncertain no_terminal"},
		{true, httpwire.EndBroken, "uncertain transport"},
		{false, httpwire.EndClean, "uncertain no_terminal"},
	}
	for _, c := range cases {
		f := NewFold(Profile{DoneOptional: c.optional}, 0, nil)
		f.Write(body)
		if got := say(f.End(c.end)); got != c.want {
			t.Errorf("optional %t, end %s: %s; want %s", c.optional, c.end, got, c.want)
		}
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
		for body, want := range map[string]string{text + reason("stop"): c.before, text + reason("stop") + done: c.after} {
			f := NewFold(Profile{}, 0, nil)
			f.Write([]byte(body))
			if got := say(f.End(c.end)); got != want {
				t.Errorf("end %s: %s; want %s", c.end, got, want)
			}
		}
	}
}

func TestCompletionFields(t *testing.T) {
	body := text + `data: {"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"cost":0.25,"is_byok":false,"completion_tokens_details":{"reasoning_tokens":4}}}` + "\n\n" + done
	f := NewFold(Profile{}, 0, nil)
	f.Write([]byte(body))
	c, ok := f.End(httpwire.EndClean).(loop.Completion)
	if !ok {
		t.Fatal("no completion")
	}
	if c.Usage == nil || *c.Usage != (event.Usage{Input: 11, Output: 7, Reasoning: 4, Cost: 0.25}) {
		t.Errorf("usage %+v; want 11, 7, 4, 0.25", c.Usage)
	}
	if c.ResponseDigest != event.Digest([]byte(body)) || c.ResponseBytes != int64(len(body)) {
		t.Errorf("digest %s of %d bytes; want %s of %d", c.ResponseDigest, c.ResponseBytes, event.Digest([]byte(body)), len(body))
	}
	if c.FinishReason != "length" || c.Text != "Hello" {
		t.Errorf("reason %q text %q; want length, Hello", c.FinishReason, c.Text)
	}
}

func TestBlocks(t *testing.T) {
	second := strings.ReplaceAll(strings.ReplaceAll(oneFn, `"index":0,"id"`, `"index":1,"id"`), "call_1", "call_2")
	s := &recorder{}
	f := NewFold(Profile{}, 0, s)
	f.Write([]byte(think + text + text + oneFn + text + second + text + reason("tool_calls") + done))
	c := f.End(httpwire.EndClean).(loop.Completion)
	if got := fmt.Sprint(s.Messages); got != "[HelloHello Hello]" {
		t.Errorf("blocks %s; want the two that a call ended", got)
	}
	if c.Text != "HelloHelloHelloHello" {
		t.Errorf("text %q; want all four pieces", c.Text)
	}
	if len(s.Deltas) != 5 || s.Deltas[0] != "reasoning:hm" || s.Deltas[1] != "text:Hello" {
		t.Errorf("deltas %q; want reasoning, then text", s.Deltas)
	}
}

func TestProfileNames(t *testing.T) {
	_, err := LookupProfile("open-ai")
	if err == nil || !strings.Contains(err.Error(), "deepseek") || !strings.Contains(err.Error(), "vllm") {
		t.Errorf("error %v; want one that lists the profiles", err)
	}
}

func FuzzFoldSplit(f *testing.F) {
	f.Add([]byte(text+oneFn+reason("tool_calls")+used(5)+done), uint16(40), uint8(0))
	f.Add([]byte("\xEF\xBB\xBF\r\n"+`{"choices":[{"message":{"content":"Hi"},"finish_reason":"length"}]}`), uint16(3), uint8(1))
	f.Add([]byte(": c\r\r"+text+reason("length")+fault400("502")), uint16(9), uint8(2))
	names := []string{"openai", "vllm", "azure", "openrouter", "deepseek", "llamacpp"}
	f.Fuzz(func(t *testing.T, body []byte, at uint16, which uint8) {
		body = body[:min(len(body), 2048)] // each prefix is judged
		profile, err := LookupProfile(names[int(which)%len(names)])
		if err != nil {
			t.Fatal(err)
		}
		k := min(int(at), len(body))
		reference := replay(profile, body).String()
		if got := replay(profile, body[:k], body[k:]).String(); got != reference {
			t.Fatalf("split at %d: %s\nin one piece: %s", k, got, reference)
		}
		single, _ := newRecorded(profile)
		for i := range body {
			checkPrefix(t, single.clone(), body[:i])
			single.Write(body[i : i+1])
		}
	})
}
