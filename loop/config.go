package loop

import (
	"time"

	"github.com/loopd/loopd/event"
)

// Config is what a session runs by; the zero value means the defaults of the
// contract.
type Config struct {
	Steering     string // event.SteeringModeRequest (default) or SteeringModeNative
	Bounds       Bounds // of contract 6.2; zero fields mean: no bound, but for MaxSegments and NoProgress
	OutputBudget int64  // tokens an operation may put out; 0 = the provider's default
	Tools        map[string]Tool
	Limits       Limits
	Service      Service
	Timeouts     Timeouts
	System       string // the system message; "" = DefaultSystem
}

// Bounds are the configured limits of a task; an input's task narrows them.
type Bounds struct {
	MaxSegments int           // operations of one chain; 0 = none (New sets the default 8 where nil is meant: see DefaultBounds)
	NoProgress  int           // consecutive segments that add nothing; 0 = none, default 2
	MaxTokens   int64         // 0 = none
	MaxCost     float64       // 0 = none
	MaxElapsed  time.Duration // 0 = none
	ExpiresAt   time.Time     // zero = never
}

// DefaultBounds are the defaults of contract 6.2.
func DefaultBounds() Bounds { return Bounds{MaxSegments: 8, NoProgress: 2} }

// Tool is how a tool behaves; Effect is one of event.EffectRead,
// EffectIdempotent, EffectWrite (the default: nothing is repeated unasked).
type Tool struct {
	Effect      string
	Approval    string // event.ApprovalNone (default) or ApprovalRequired
	Background  bool   // a call becomes a job and gets a receipt at once
	Description string
	Parameters  event.RawJSON // JSON Schema of the arguments
}

// Limits bound a session.
type Limits struct {
	event.Limits
	Pending int // pending content inputs, default 128
}

// Timeouts bound the waits for the outside world.
type Timeouts struct {
	Steer     time.Duration // for steer_live's answer, default 30 s
	Operation time.Duration // without a frame, default 120 s
	Inspect   time.Duration // for one look-up, default 30 s
	Tool      time.Duration // for a tool's receipt, default 10 min
	PollMin   time.Duration // first wait while an original is pending, default 1 s; doubles
	PollMax   time.Duration // longest such wait, default 1 min
}
