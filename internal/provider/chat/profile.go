package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loopd/loopd/event"
)

// Profile says how a server departs from the protocol, and how far its finish
// reasons can be trusted.
type Profile struct {
	Name string

	// BudgetField carries the output budget: max_tokens or
	// max_completion_tokens.
	BudgetField string
	// Reasons are the finish reasons that this server has beyond the common
	// ones; a reason on neither list is unrecognised.
	Reasons map[string]event.Finish
	// Veto: the server says tool_calls also of answers that the budget cut
	// (tool_calls_trust = veto). Calls run only if the usage proves that it
	// stayed under a budget that was asked for.
	Veto bool
	// LengthMayBeContext: the server says length also when the context window
	// is full. See Fold's table.
	LengthMayBeContext bool
	// LateFilter: a content filter runs behind the stream and may judge text
	// that was already sent.
	LateFilter bool
	// DoneOptional: the stream may end without [DONE]; a finish reason and an
	// end that HTTP itself framed are then its terminal frame. No built-in
	// profile says so: the end of a stream proves little.
	DoneOptional bool
	// Continuation is how a cut answer is continued.
	Continuation Continuation
	// KeyHeader carries the API key bare; "" = Authorization: Bearer.
	KeyHeader string
}

// Continuation is a form of asking for the rest of a cut answer.
type Continuation string

// The forms. With a prefill the server is handed the text so far as the
// beginning of its own answer; without, a user turn asks to go on.
const (
	ContinueUserTurn Continuation = "user_turn"
	ContinuePartial  Continuation = "partial" // last message: partial:true
	ContinuePrefix   Continuation = "prefix"  // last message: prefix:true
)

const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// profiles is the table of the servers we know. Those with Veto are known to
// hide length behind tool_calls, or are not known at all.
var profiles = map[string]Profile{
	"openai":     {BudgetField: maxCompletionTokens},
	"azure":      {BudgetField: maxCompletionTokens, LateFilter: true, KeyHeader: "api-key"},
	"deepseek":   {BudgetField: maxTokens, Reasons: reasons("insufficient_system_resource"), Continuation: ContinuePrefix},
	"dashscope":  {BudgetField: maxTokens, Continuation: ContinuePartial},
	"moonshot":   {BudgetField: maxTokens, Continuation: ContinuePartial},
	"openrouter": {BudgetField: maxTokens, Reasons: reasons("error")},
	"llamacpp":   {BudgetField: maxTokens, LengthMayBeContext: true},
	"vllm":       {BudgetField: maxTokens, LengthMayBeContext: true, Veto: true, Reasons: reasons("abort")},
	"ollama-v1":  {BudgetField: maxTokens, LengthMayBeContext: true, Veto: true},
	"lmstudio":   {BudgetField: maxTokens, LengthMayBeContext: true, Veto: true},
	"generic":    {BudgetField: maxTokens, LengthMayBeContext: true, Veto: true, Reasons: reasons("error")},
}

// reasons are native reasons that mean a failure of the server.
func reasons(names ...string) map[string]event.Finish {
	m := map[string]event.Finish{}
	for _, n := range names {
		m[n] = event.FinishError
	}
	return m
}

// LookupProfile finds a profile by its name.
func LookupProfile(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		known := slices.Sorted(maps.Keys(profiles))
		return Profile{}, fmt.Errorf("chat: profile %q: not known; use one of %s", name, strings.Join(known, ", "))
	}
	p.Name = name
	if p.Continuation == "" {
		p.Continuation = ContinueUserTurn
	}
	return p, nil
}

// finish maps a native reason by whitelist; false = not on it.
func (p Profile) finish(reason string) (event.Finish, bool) {
	switch reason {
	case "stop":
		return event.FinishStop, true
	case "length":
		return event.FinishOutputBudget, true
	case "tool_calls", "function_call":
		return event.FinishToolCalls, true
	case "content_filter":
		return event.FinishContentFilter, true
	}
	f, ok := p.Reasons[reason]
	return f, ok
}
