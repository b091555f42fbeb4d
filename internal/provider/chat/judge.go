package chat

import (
	"github.com/loopd/loopd/event"
)

// Reasons of Completion.Veto.
const (
	vetoOtherChoice   = "other_choice"   // an answer beside the one that was asked for
	vetoFiltered      = "content_filter" // a filter struck, perhaps late
	vetoUsageMissing  = "usage_missing"  // nothing shows that the budget was not reached
	vetoBudgetUnknown = "budget_unknown" // no budget was asked for, so the server's own may have cut
	vetoBudgetReached = "budget_reached" // the answer may be cut
)

// judge gives an answer whose terminal frame came its finish, and says why
// calls may not run although the finish is tool_calls.
func (f *Fold) judge() (finish event.Finish, veto string) {
	a := &f.answer
	if a.err != nil {
		return event.FinishError, ""
	}
	finish, ok := f.reason()
	if !ok || len(a.conflicts) > 0 {
		return event.FinishUnrecognised, ""
	}
	switch finish {
	case event.FinishStop:
		if len(a.refusal) > 0 {
			return event.FinishRefusal, ""
		}
	case event.FinishOutputBudget:
		return f.length(), ""
	case event.FinishToolCalls:
		if len(a.calls) == 0 || len(a.refusal) > 0 {
			return event.FinishUnrecognised, ""
		}
		return finish, f.veto()
	}
	return finish, ""
}

// reason is the one reason of the answer; false if there is none, or several,
// or one that is not on the whitelist.
func (f *Fold) reason() (event.Finish, bool) {
	reasons := f.answer.reasons
	if f.profile.LateFilter && len(reasons) == 2 && reasons[1] == "content_filter" {
		return event.FinishContentFilter, true
	}
	if len(reasons) != 1 {
		return "", false
	}
	return f.profile.finish(reasons[0])
}

// length tells an output budget from a full context window.
func (f *Fold) length() event.Finish {
	a := &f.answer
	switch {
	case len(a.refusal) > 0:
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

func (f *Fold) veto() string {
	a := &f.answer
	switch {
	case a.otherChoice:
		return vetoOtherChoice
	case a.filtered:
		return vetoFiltered
	case !f.profile.Veto:
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
