package ollama

import (
	"github.com/loopd/loopd/event"
)

// judge gives an answer that said done its finish. budget is the output
// budget that was asked for, 0 = none.
func (a *answer) judge(budget int64) event.Finish {
	switch {
	case a.failed != "":
		return event.FinishError
	case len(a.conflicts) > 0:
		return event.FinishUnrecognised
	case a.reason == "length":
		return a.length(budget)
	case a.reason != "stop":
		return event.FinishUnrecognised // load, unload, none: nothing was generated, or nobody knows
	case len(a.calls) > 0:
		return event.FinishToolCalls
	}
	return event.FinishStop
}

// length tells an output budget from a full context window.
func (a *answer) length(budget int64) event.Finish {
	switch {
	case budget <= 0:
		return event.FinishContextWindow
	case a.usage == nil:
		return event.FinishUnrecognised
	case a.usage.Output < budget:
		return event.FinishContextWindow
	}
	return event.FinishOutputBudget
}
