package responses

import (
	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Reasons of Completion.Veto.
const (
	vetoUsageMissing  = "usage_missing"  // nothing shows that the budget was not reached
	vetoBudgetUnknown = "budget_unknown" // no budget was asked for, so the server's own may have cut
	vetoBudgetReached = "budget_reached" // the answer may be cut
)

// judge gives an answer whose terminal event came its outcome.
func (f *Fold) judge() loop.Outcome {
	a := &f.answer
	switch a.status {
	case statusFailed, statusCancelled:
		return a.failed()
	}
	finish := f.finish()
	return f.completion(finish, f.veto(finish))
}

func (f *Fold) finish() event.Finish {
	a := &f.answer
	switch {
	case a.err != nil, a.failure != nil:
		return event.FinishError
	case len(a.conflicts) > 0:
		return event.FinishUnrecognised
	case a.status == statusCompleted:
		return a.completed()
	}
	switch a.reason {
	case "max_output_tokens":
		return f.length()
	case "content_filter":
		return event.FinishContentFilter
	case reasonSteered:
		return event.FinishSteered
	}
	return event.FinishUnrecognised
}

func (a *answer) completed() event.Finish {
	calls := a.toolCalls()
	refused := a.refusal() != ""
	for _, c := range calls {
		if !c.Closed || refused {
			return event.FinishUnrecognised
		}
	}
	switch {
	case len(calls) > 0:
		return event.FinishToolCalls
	case refused:
		return event.FinishRefusal
	}
	return event.FinishStop
}

// length tells an output budget from a full context window.
func (f *Fold) length() event.Finish {
	a := &f.answer
	switch {
	case a.refusal() != "":
		return event.FinishRefusal
	case !f.profile.LengthMayBeContext:
		return event.FinishOutputBudget
	case f.budget <= 0:
		return event.FinishContextWindow
	case a.usage == nil:
		return event.FinishUnrecognised
	case a.usage.Output < f.budget:
		return event.FinishContextWindow
	}
	return event.FinishOutputBudget
}

func (f *Fold) veto(finish event.Finish) string {
	a := &f.answer
	switch {
	case finish != event.FinishToolCalls || !f.profile.Veto:
		return ""
	case f.budget <= 0:
		return vetoBudgetUnknown
	case a.usage == nil:
		return vetoUsageMissing
	case a.usage.Output >= f.budget:
		return vetoBudgetReached
	}
	return ""
}

// failed is a response whose failure the server reports.
func (a *answer) failed() loop.Failure {
	e := a.failure
	if e == nil {
		e = a.err
	}
	if a.status == statusCancelled || e == nil {
		e = &fault{code: "response_" + a.status}
	}
	return e.failure(event.DispatchRan)
}
