package scripted

import "github.com/loopd/loopd/event"

// An Entry answers one model request.
type Entry struct {
	Frames []Frame
	Usage  *event.Usage
	Lookup []event.Observed // one for each look-up, the last repeats; empty = unsupported
}

// A Frame is one thing that happens on the provider's side of a request.
type Frame interface{ frame() }

type (
	// Text is a text delta.
	Text struct{ Text string }
	// Reasoning is a reasoning delta.
	Reasoning struct{ Text string }
	// Wait stops until a gate is open.
	Wait struct{ Gate string }
	// BlockEnd ends a content block: "text" or "reasoning".
	BlockEnd struct{ Kind string }
	// ToolCall is a whole call; Arguments are sent as they are.
	ToolCall struct{ ID, Name, Arguments string }
	// Steer waits for each input's steer_live call and answers it.
	Steer struct{ Answers []SteerAnswer }
	// Applied is the successor boundary of these inputs.
	Applied struct{ InputIDs []string }
	// Finish is the terminal frame with its native reason.
	Finish struct{ Reason string }
	// Drop ends the connection without a terminal frame.
	Drop struct{}
	// Error is the provider's refusal (as the first frame) or its break.
	Error struct {
		Status int
		Code   string
	}
)

func (Text) frame()      {}
func (Reasoning) frame() {}
func (Wait) frame()      {}
func (BlockEnd) frame()  {}
func (ToolCall) frame()  {}
func (Steer) frame()     {}
func (Applied) frame()   {}
func (Finish) frame()    {}
func (Drop) frame()      {}
func (Error) frame()     {}

// SteerAnswer is what the script says to one input's steer_live call.
type SteerAnswer struct {
	InputID string
	Answer  string // one of the Steer constants
}

// The answers of a steer frame.
const (
	SteerAccepted = "accepted"
	SteerRefused  = "refused"
	SteerRaises   = "raises" // the call breaks
	SteerHangs    = "hangs"  // the call gets no answer
)

// finishes is the adapter's whole knowledge of native reasons; anything else
// is unrecognised.
var finishes = map[string]event.Finish{
	"stop":           event.FinishStop,
	"tool_calls":     event.FinishToolCalls,
	"length":         event.FinishOutputBudget,
	"context_window": event.FinishContextWindow,
	"content_filter": event.FinishContentFilter,
	"refusal":        event.FinishRefusal,
	"paused":         event.FinishPaused,
	"steered":        event.FinishSteered,
	"error":          event.FinishError,
}

// finish maps a native reason by name and by nothing else.
func finish(reason string) event.Finish {
	if f, ok := finishes[reason]; ok {
		return f
	}
	return event.FinishUnrecognised
}
