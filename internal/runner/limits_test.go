package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/loop"
)

// narrow is a log whose messages may have 64 KiB.
func narrow(s *natsembed.Config, _ *eventlog.Config) { s.MaxPayload = 64 << 10 }

// TestAnswersTooLarge: whatever part of an answer does not fit the log, the
// operation failed after it ran, and the session goes on.
func TestAnswersTooLarge(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	half := long[:20_000]
	call := func(arguments string) []event.ToolCall {
		return []event.ToolCall{{ID: "c", Name: "write", Arguments: `{"a":"` + arguments + `"}`, Closed: true}}
	}
	cases := map[string]loop.Completion{
		"text":           {Finish: event.FinishStop, Text: long},
		"calls":          {Finish: event.FinishToolCalls, ToolCalls: call(long)},
		"text and calls": {Finish: event.FinishToolCalls, Text: half, ToolCalls: call(half)},
		"escaped":        {Finish: event.FinishStop, Text: strings.Repeat("\x01", 10_000)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, p := newWorld(t, narrow), newProvider()
			p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome { return p.tell(req, out, c) }
			w.run(p, nil)
			w.say("s", "i1", "hello")
			all := w.awaitIdle("s", 1)
			f := last[event.OperationFailed](t, all)
			if f.Dispatch != event.DispatchRan || f.Code != "response_too_large" || f.NextAction == "" {
				t.Errorf("failed: %+v", f)
			}
			frames := w.frames("s", f.OperationID)
			if end := frames[len(frames)-1]; end.Type != event.FrameOperation || end.State != "failed" {
				t.Errorf("the last frame is %+v", end)
			}
			p.answer = nil
			w.say("s", "i2", "again")
			w.awaitN("s", event.TypeGenerationFinished, 1)
			w.awaitIdle("s", 2)
			w.audit()
		})
	}
}

// TestMergedAnswersTooLarge: each segment fits, their merged text would not.
func TestMergedAnswersTooLarge(t *testing.T) {
	w, p := newWorld(t, narrow), newProvider()
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		return p.tell(req, out, loop.Completion{Finish: event.FinishOutputBudget, Text: strings.Repeat(fmt.Sprintf("%09d ", req.Segment), 2000)})
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	if f := last[event.OperationFailed](t, all); f.Code != "response_too_large" || count(all, event.TypeOperationCompleted) != 1 {
		t.Errorf("failed: %+v", f)
	}
	w.audit()
}

// TestRecoveredAnswerTooLarge is found by a look-up.
func TestRecoveredAnswerTooLarge(t *testing.T) {
	w, p := newWorld(t, narrow), newProvider()
	p.answer = func(_ context.Context, req loop.Request, _ loop.Stream) loop.Outcome {
		return loop.Uncertain{Reason: event.UnknownTransport}
	}
	p.inspect = func(context.Context, loop.Request) loop.Inspection {
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &loop.Completion{
			FinishReason: "stop", Finish: event.FinishStop, Text: strings.Repeat("0123456789", 10_000), ResponseDigest: event.Digest(nil),
		}}
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	if f := last[event.OperationFailed](t, w.awaitIdle("s", 1)); f.Code != "response_too_large" {
		t.Errorf("failed: %+v", f)
	}
	w.audit()
}

// TestEventsSmallerThanFrames: a log may take smaller events than messages.
func TestEventsSmallerThanFrames(t *testing.T) {
	w, p := newWorld(t, func(_ *natsembed.Config, l *eventlog.Config) { l.MaxEventBytes = 8 << 10 }), newProvider()
	p.answer = func(_ context.Context, req loop.Request, _ loop.Stream) loop.Outcome {
		return loop.Completion{FinishReason: "stop", Finish: event.FinishStop, Text: strings.Repeat("0123456789", 1_000), ResponseDigest: event.Digest(nil)}
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	if f := last[event.OperationFailed](t, w.awaitIdle("s", 1)); f.Code != "response_too_large" {
		t.Errorf("failed: %+v", f)
	}
	w.audit()
}

// TestResultsTooLarge: a tool's result that the log cannot hold is left out,
// and what the tool did stays true.
func TestResultsTooLarge(t *testing.T) {
	for _, tool := range []string{"look", "write", "job"} {
		t.Run(tool, func(t *testing.T) {
			w, p, s := newWorld(t, narrow), newProvider(), newWorkshop()
			s.call = func(context.Context, loop.ToolRequest) loop.ToolOutcome {
				return loop.ToolOutcome{Result: strings.Repeat("<>", 20_000)}
			}
			g := w.run(p, func(c *runner.Config) { c.Tools = s })
			sent := w.say("s", "i1", "call "+tool)
			w.reconcile("s", g, sent)
			f := last[event.GenerationFinished](t, w.stored("s"))
			if !strings.Contains(f.Text, "40000 bytes does not fit") {
				t.Errorf("finished: %+v", f)
			}
			w.audit()
		})
	}
}

// TestUnreadableBytes: text that JSON cannot hold is made readable; a call that
// had to be is never run.
func TestUnreadableBytes(t *testing.T) {
	w, p, s := newWorld(t, nil), newProvider(), newWorkshop()
	s.call = func(context.Context, loop.ToolRequest) loop.ToolOutcome { return loop.ToolOutcome{Result: "a\xffb"} }
	w.run(p, func(c *runner.Config) { c.Tools = s })
	w.say("s", "i1", "call look")
	if f := last[event.GenerationFinished](t, w.awaitIdle("s", 1)); f.Text != "re: a\uFFFDb" {
		t.Errorf("finished: %+v", f)
	}
	p.answer = func(_ context.Context, req loop.Request, out loop.Stream) loop.Outcome {
		return p.tell(req, out, loop.Completion{Finish: event.FinishToolCalls, Text: "a\xff", ToolCalls: []event.ToolCall{
			{ID: "c", Name: "write", Arguments: "{\"a\":\"\xff\"}", Closed: true},
		}})
	}
	w.say("s", "i2", "hello")
	if f := last[event.InvocationWithheld](t, w.awaitIdle("s", 2)); f.Reason != event.WithheldIncompleteArguments {
		t.Errorf("withheld: %+v", f)
	}
	w.audit()
}

// TestInputsRefused: what hosts send wrong is refused with a hint, and stops
// nobody.
func TestInputsRefused(t *testing.T) {
	set, err := shapes()
	if err != nil {
		t.Fatal(err)
	}
	w, p := newWorld(t, narrow), newProvider()
	w.run(p, func(c *runner.Config) {
		c.Validate = func(kind string, input []byte) error {
			if kind == "no" || len(input) == 0 {
				t.Errorf("the schema of kind %q is asked", kind)
			}
			return set.Input(kind, input)
		}
	})
	room := 64<<10 - 150 // its message fits the inbox; its event does not fit the log
	huge := `{"input_id":"huge","kind":"user","text":"x","attachments":[{"a":"` + strings.Repeat("a", room-110) + `"}]}`
	cases := []struct{ id, body, reason, hint string }{
		{"empty", ``, event.RejectInvalid, "not an input"},
		{"bytes", "\xff\x00{", event.RejectInvalid, "not an input"},
		{"list", `[1]`, event.RejectInvalid, "not an input"},
		{"twice", `{"input_id":"twice","kind":"user","text":"a","text":"b"}`, event.RejectInvalid, "duplicate"},
		{"name", `{"input_id":"other","kind":"user","text":"a"}`, event.RejectInvalid, "does not match the subject"},
		{"kind", `{"input_id":"kind","kind":"no","text":"a"}`, event.RejectInvalid, `kind "no" is not one of`},
		{"blank", `{"input_id":"blank","kind":"user","text":" "}`, event.RejectInvalid, "blank"},
		{"long", `{"input_id":"long","kind":"user","text":"` + strings.Repeat("a", 16_001) + `"}`, event.RejectInvalid, "at most 16000"},
		{"source", `{"input_id":"source","kind":"user","source":"me","text":"a"}`, event.RejectUnauthorizedSource, "only user may"},
		{"schema", `{"input_id":"schema","kind":"user","text":"a","task":{"max_segments":-1}}`, event.RejectInvalid, ""},
		{"deep", `{"input_id":"deep","kind":"user","text":"a","x":` + nested(9999-1) + `}`, event.RejectInvalid, "nests more than 64"},
		{"attached deep", `{"input_id":"attached deep","kind":"user","text":"a","attachments":` + nested(9998) + `}`, event.RejectInvalid, "nests more than 64"},
		{"deepest", nested(20_000), event.RejectInvalid, "nests more than 64"},
		{"attached", `{"input_id":"attached","kind":"user","text":"a","attachments":[1,null,"x"]}`, event.RejectInvalid, "not a JSON object"},
		{"huge", huge, event.RejectInvalid, "larger than the log's messages may be"},
		{"näme", `{"input_id":"näme","kind":"user","text":"","source":""}`, event.RejectInvalid, "blank"},
	}
	for _, c := range cases {
		w.sendRaw("s", c.id, []byte(c.body))
		w.sendRaw("s", c.id, []byte(c.body)) // again: silently
	}
	w.say("s", "good", "hello")
	all := w.awaitIdle("s", 1)
	refused := payloads[event.InputRejected](all)
	if len(refused) != len(cases) {
		t.Fatalf("%d inputs are refused, want %d:\n%s", len(refused), len(cases), outline(all))
	}
	for i, c := range cases {
		if r := refused[i]; r.InputID != c.id || r.Reason != c.reason || !strings.Contains(r.Hint, c.hint) || r.Hint == "" {
			t.Errorf("%s: %+v, want %s with a hint of %q", c.id, r, c.reason, c.hint)
		}
	}
	w.audit()
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestSubjectsThatNameNothing: whoever may publish inputs can spell tokens that
// stand for no id. Such a message is refused under its token, or heard by
// nobody, and the honest inputs around it are answered, after a restart too.
func TestSubjectsThatNameNothing(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	bad := []string{"~_w", "~7aCA", "~!!!", "~YQ", "~"}
	publish := func(subject string) {
		if _, err := w.log.Conn().RequestWithContext(w.ctx, subject, []byte("x")); err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	for _, token := range bad {
		publish("loop.in.s." + token)
		publish("loop.in." + token + ".z")
	}
	w.run(p, nil)
	w.say("s", "i1", "hello")
	all := w.awaitIdle("s", 1)
	if refused := payloads[event.InputRejected](all); len(refused) != len(bad) || refused[0].InputID != bad[0] || refused[0].Reason != event.RejectInvalid {
		t.Fatalf("refused: %+v", refused)
	}
	w.run(p, nil) // the next owner reads the same inbox
	w.say("s", "i2", "again")
	w.awaitIdle("s", 2)
	if ids, err := w.log.Sessions(w.ctx); err != nil || len(ids) != 1 {
		t.Errorf("sessions %q, %v", ids, err)
	}
	w.audit()
}

// TestSchemasAreAsked: what Validate says against an input refuses it.
func TestSchemasAreAsked(t *testing.T) {
	w, p := newWorld(t, nil), newProvider()
	w.run(p, func(c *runner.Config) {
		c.Validate = func(kind string, _ []byte) error { return errors.New("kind " + kind + " is closed on Sundays") }
	})
	w.say("s", "i1", "hello")
	r := last[event.InputRejected](t, w.awaitN("s", event.TypeInputRejected, 1))
	if r.Reason != event.RejectInvalid || r.Hint != "kind user is closed on Sundays" {
		t.Errorf("rejected: %+v", r)
	}
	w.audit()
}

// TestFlood: thousands of inputs at once are all answered, in the order of the
// inbox, and no more than the limit of them pend.
func TestFlood(t *testing.T) {
	const inputs, pending = 5000, 50
	w, p := newWorld(t, nil), newProvider()
	for i := range inputs {
		w.say("s", fmt.Sprintf("i%d", i), "hello")
	}
	w.run(p, func(c *runner.Config) { c.Loop.Limits.Pending = pending })
	answered := func(all []event.Event) (accepted, refused int) {
		return count(all, event.TypeInputAccepted), count(all, event.TypeInputRejected)
	}
	all := w.await("s", "answer to each input", func(all []event.Event) bool {
		accepted, refused := answered(all)
		return accepted+refused == inputs
	})
	if accepted, _ := answered(all); accepted < pending || slices.ContainsFunc(payloads[event.InputRejected](all), func(r event.InputRejected) bool {
		return r.Reason != event.RejectQueueFull || r.Hint == ""
	}) {
		t.Errorf("%d inputs are accepted; or one is refused for another reason", accepted)
	}
	var order uint64
	for _, e := range all {
		seq := order
		switch f := e.Payload.(type) {
		case event.InputAccepted:
			seq = f.InboxSeq
		case event.InputRejected:
			seq = f.InboxSeq
		}
		if seq < order {
			t.Fatalf("sequence %d takes inbox sequence %d behind %d", e.Sequence, seq, order)
		}
		order = seq
	}
	w.awaitIdle("s", 1)
	w.audit()
}
