package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

// TestSummary lets a conversation grow over its window: old turns become a
// summary that keeps the references of the task, and the auditor agrees.
func TestSummary(t *testing.T) {
	w := newWorld(t, Config{
		Window: Window{Tokens: 400},
		Tools:  map[string]Tool{"charge": {Effect: event.EffectWrite}},
	})
	w.open()
	long := strings.Repeat("many words ", 30)
	summaries := 0
	for i := range 6 {
		body := fmt.Sprintf(`{"input_id":"in-%d","kind":"user","text":%q,"task":{"id":"one"}}`, i, long)
		w.must(w.submit([]byte(body), fmt.Sprintf("in-%d", i)))
		w.settleSummarizing(&summaries)
		op := w.state.Generation.Operation.ID
		w.must(w.do(EndOperation{OperationID: op, Outcome: Completion{Finish: event.FinishToolCalls, ToolCalls: []event.ToolCall{
			{ID: "c", Name: "charge", Arguments: fmt.Sprintf(`{"n":%d}`, i), Closed: true},
		}}}))
		w.settleSummarizing(&summaries)
		w.must(w.do(EndInvocation{InvocationID: w.state.Generation.Invocations[0].InvocationID, Outcome: ToolOutcome{Result: "done"}}))
		w.settleSummarizing(&summaries)
		req := w.state.Request(w.past, w.state.Generation.Operation.ID)
		if last := req.Messages[len(req.Messages)-1]; last.Role != RoleTool || last.Text != "done" {
			t.Errorf("the open generation was summarized: %+v", last)
		}
		w.must(w.do(EndOperation{OperationID: w.state.Generation.Operation.ID, Outcome: Completion{Finish: event.FinishStop, Text: long}}))
		w.settleSummarizing(&summaries)
	}
	if summaries == 0 {
		t.Fatal("nothing was summarized")
	}
	w.restart()
	for _, f := range audit(w) {
		t.Errorf("%s at %d: %s", f.Rule, f.StreamSeq, f.Message)
	}
	text := w.state.Request(w.past, "next").Messages[1].Text
	if !strings.HasPrefix(text, "The conversation so far") || !strings.Contains(text, "call of charge (invocation ") {
		t.Errorf("the summary is %q", text)
	}
}

// settleSummarizing settles as a runner does: a summary first, where one is
// needed.
func (w *world) settleSummarizing(n *int) {
	for range 1000 {
		t := w.tick()
		plan := Next(w.state, t)
		if plan.Record {
			w.must(w.do(Advance{Tick: t}))
			continue
		}
		if len(plan.Effects) != 1 {
			return
		}
		if _, admits := plan.Effects[0].(Admit); admits {
			if summary, needed := w.past.Summary(w.state.Config); needed {
				*n++
				w.must(w.do(Summarize{Tick: t, ContextSummarized: summary}))
				continue
			}
		}
		if !w.inline(plan.Effects[0], t) {
			return
		}
	}
}
