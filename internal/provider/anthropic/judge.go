package anthropic

import (
	"github.com/loopd/loopd/event"
)

// finishes are the stop reasons of the protocol; any other is unrecognised.
var finishes = map[string]event.Finish{
	"end_turn":                      event.FinishStop,
	"stop_sequence":                 event.FinishStop,
	"tool_use":                      event.FinishToolCalls,
	"max_tokens":                    event.FinishOutputBudget,
	"model_context_window_exceeded": event.FinishContextWindow,
	"pause_turn":                    event.FinishPaused,
	"compaction":                    event.FinishPaused,
	"refusal":                       event.FinishRefusal,
}

// judge gives an answer whose terminal frame came its finish.
func (a *answer) judge() event.Finish {
	if a.err != nil {
		return event.FinishError
	}
	if !a.started || len(a.conflicts) > 0 || len(a.reasons) != 1 {
		return event.FinishUnrecognised
	}
	finish, ok := finishes[a.reasons[0]]
	if !ok || finish == event.FinishToolCalls && len(a.ordered("tool_use")) == 0 {
		return event.FinishUnrecognised
	}
	return finish
}
