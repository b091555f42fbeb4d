package gemini

import (
	"github.com/loopd/loopd/event"
)

// Reasons of Completion.Veto.
const (
	vetoOtherCandidate = "other_candidate" // an answer beside the one that was asked for
	vetoReasonRepeated = "reason_repeated" // each frame claims to be the last one: the last is not provable
)

// finishes are the finish reasons of the protocol; any other is unrecognised.
var finishes = map[string]event.Finish{
	"STOP":       event.FinishStop,
	"MAX_TOKENS": event.FinishOutputBudget,
	// an explicit cutoff; its continuation token is not used
	"CONTINUATION": event.FinishOutputBudget,

	"SAFETY":                   event.FinishContentFilter,
	"RECITATION":               event.FinishContentFilter,
	"BLOCKLIST":                event.FinishContentFilter,
	"PROHIBITED_CONTENT":       event.FinishContentFilter,
	"SPII":                     event.FinishContentFilter,
	"MODEL_ARMOR":              event.FinishContentFilter,
	"IMAGE_SAFETY":             event.FinishContentFilter,
	"IMAGE_PROHIBITED_CONTENT": event.FinishContentFilter,
	"IMAGE_RECITATION":         event.FinishContentFilter,

	"MALFORMED_FUNCTION_CALL": event.FinishError,
	"UNEXPECTED_TOOL_CALL":    event.FinishError,
	"TOO_MANY_TOOL_CALLS":     event.FinishError,
}

// judge gives a whole answer its finish, and says why calls may not run
// although the finish is tool_calls.
func (a *answer) judge() (finish event.Finish, veto string) {
	switch {
	case a.err != nil:
		return event.FinishError, ""
	case len(a.conflicts) > 0:
		return event.FinishUnrecognised, ""
	case a.blocked != "" && a.reason == "":
		return event.FinishContentFilter, ""
	}
	finish, ok := finishes[a.reason]
	switch {
	case !ok:
		return event.FinishUnrecognised, ""
	case a.blocked != "" && finish != event.FinishContentFilter:
		return event.FinishUnrecognised, ""
	case finish == event.FinishStop && len(a.calls) > 0:
		return event.FinishToolCalls, a.veto()
	}
	return finish, ""
}

func (a *answer) veto() string {
	switch {
	case a.otherCandidate:
		return vetoOtherCandidate
	case len(a.raw) > 1:
		return vetoReasonRepeated
	}
	return ""
}
