package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// What adapters and tools give is not trusted to be what the log can hold:
// everything passes here before it becomes a command. A panic is an outcome
// that nobody knows; a word that the contract does not have is its most
// careful reading.

// generate runs the adapter; what it does wrong is an unknown outcome.
func (s *session) generate(ctx context.Context, req loop.Request, st *stream) (out loop.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a provider adapter panicked", "operation", req.OperationID, "panic", p)
			out = loop.Uncertain{Reason: event.UnknownTransport, Detail: "the adapter panicked"}
		}
	}()
	return soundOutcome(s.r.cfg.Provider.Generate(ctx, req, st))
}

func soundOutcome(out loop.Outcome) loop.Outcome {
	switch o := out.(type) {
	case loop.Completion:
		return soundCompletion(o)
	case loop.Failure:
		if f, ok := soundFailure(o); ok {
			return f
		}
		return loop.Uncertain{Reason: event.UnknownTransport, Detail: "the adapter reports a failure and does not say what it left behind"}
	case loop.Uncertain:
		switch o.Reason {
		case event.UnknownTransport, event.UnknownNoTerminal, event.UnknownTimeout, event.UnknownCancelled:
		default:
			o.Reason = event.UnknownTransport
		}
		return o
	}
	return loop.Uncertain{Reason: event.UnknownTransport, Detail: fmt.Sprintf("the adapter gave no outcome, but %T", out)}
}

func soundCompletion(c loop.Completion) loop.Completion {
	switch c.Finish {
	case event.FinishStop, event.FinishToolCalls, event.FinishOutputBudget, event.FinishContextWindow, event.FinishContentFilter,
		event.FinishRefusal, event.FinishPaused, event.FinishSteered, event.FinishError, event.FinishUnrecognised:
	default:
		c.Finish = event.FinishUnrecognised
	}
	c.FinishReason, c.Text, c.Veto = readable(c.FinishReason), readable(c.Text), readable(c.Veto)
	c.ToolCalls = slices.Clone(c.ToolCalls)
	for i, call := range c.ToolCalls {
		if !utf8.ValidString(call.ID) || !utf8.ValidString(call.Name) || !utf8.ValidString(call.Arguments) {
			// Repaired bytes are not what the model asked for: not closed, it never runs.
			c.ToolCalls[i] = event.ToolCall{ID: readable(call.ID), Name: readable(call.Name), Arguments: readable(call.Arguments)}
		}
	}
	return c
}

func soundFailure(f loop.Failure) (loop.Failure, bool) {
	f.Code, f.NextAction = readable(f.Code), readable(f.NextAction)
	switch f.Dispatch {
	case event.DispatchNotDispatched, event.DispatchRejected, event.DispatchRan:
		return f, true
	}
	return f, false
}

// readable is text that JSON can hold.
func readable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// inspectOriginal asks the provider, with what was saved of the original where
// its look-up needs it.
func (s *session) inspectOriginal(ctx context.Context, req loop.Request) (found loop.Inspection) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a provider's look-up panicked", "operation", req.OperationID, "panic", p)
			found = loop.Inspection{Observed: event.ObservedError}
		}
	}()
	rereader, ok := s.r.cfg.Provider.(Rereader)
	if !ok {
		return soundInspection(s.r.cfg.Provider.Inspect(ctx, req))
	}
	body, _, err := s.r.saved(ctx, s.id, req.OperationID)
	if err != nil {
		s.log.Warn("what was saved of an operation cannot be read", "operation", req.OperationID, "err", err)
		return loop.Inspection{Observed: event.ObservedError}
	}
	return soundInspection(rereader.InspectSaved(ctx, req, body))
}

func soundInspection(found loop.Inspection) loop.Inspection {
	if found.Observed != event.ObservedComplete {
		return loop.Inspection{Observed: soundObserved(found.Observed)}
	}
	switch {
	case found.Completion != nil:
		c := soundCompletion(*found.Completion)
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &c}
	case found.Failure != nil:
		if f, ok := soundFailure(*found.Failure); ok {
			return loop.Inspection{Observed: event.ObservedComplete, Failure: &f}
		}
	}
	return loop.Inspection{Observed: event.ObservedError}
}

func soundObserved(o event.Observed) event.Observed {
	switch o {
	case event.ObservedComplete, event.ObservedPending, event.ObservedMissing, event.ObservedUnsupported, event.ObservedExpired:
		return o
	}
	return event.ObservedError
}

// invoke runs a tool; a panic is a receipt that never came.
func (s *session) invoke(ctx context.Context, req loop.ToolRequest) (out loop.ToolOutcome) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a tool panicked", "tool", req.Tool, "panic", p)
			out = loop.ToolOutcome{Lost: true}
		}
	}()
	return s.r.soundResult(s.r.cfg.Tools.Call(ctx, req))
}

func (s *session) inspectTool(ctx context.Context, req loop.ToolRequest) (found loop.ToolInspection) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a tool's look-up panicked", "tool", req.Tool, "panic", p)
			found = loop.ToolInspection{Observed: event.ObservedError}
		}
	}()
	found = s.r.cfg.Tools.Inspect(ctx, req)
	if found.Observed == event.ObservedComplete && found.Outcome.Lost {
		found.Observed = event.ObservedError
	}
	return loop.ToolInspection{Observed: soundObserved(found.Observed), Outcome: s.r.soundResult(found.Outcome)}
}

// soundResult keeps a result only where the log can hold it, as a receipt and
// as the input that brings a job's result back. What the tool did stays true.
func (r *Runner) soundResult(out loop.ToolOutcome) loop.ToolOutcome {
	out.Result = readable(out.Result)
	if room := r.room(); quoted(out.Result) > room {
		out.Result = fmt.Sprintf("The tool ran to its end. Its result of %d bytes does not fit the log, which takes %d, and is not kept: ask for less at a time.",
			len(out.Result), room)
	}
	return out
}

// room is how many bytes the texts of one event may have: the log's limit, but
// for the event's other fields.
func (r *Runner) room() int {
	limit := r.cfg.Log.FrameBytes()
	return max(limit-eventFields, limit/2)
}

// eventFields is more than an event has beside its texts: 128 pending inputs'
// ids of 128 characters, and the envelope.
const eventFields = 32 << 10

// quoted is the length of a text as JSON, at its longest (an input's body
// escapes what HTML would read).
func quoted(text string) int {
	n := len(text) + 2
	for i := range len(text) {
		switch b := text[i]; {
		case b < ' ', b == '<', b == '>', b == '&':
			n += 5
		case b == '"', b == '\\':
			n++
		}
	}
	return n + 3*(strings.Count(text, "\u2028")+strings.Count(text, "\u2029"))
}

// fits reports whether the log can hold everything that follows from a
// completion: its own event, its calls', and the merged text of its chain.
func (s *session) fits(operation string, c loop.Completion) bool {
	answer, calls := quoted(c.Text), 0
	for _, call := range c.ToolCalls {
		calls += quoted(call.Arguments) + quoted(call.Name) + quoted(call.ID)
	}
	chain := 0
	if g := s.state.Generation; g != nil && g.Operation != nil && g.Operation.ID == operation && g.Operation.Segment > 1 {
		chain = quoted(g.Chain.Text)
	}
	return answer+max(calls, chain) <= s.r.room()
}
