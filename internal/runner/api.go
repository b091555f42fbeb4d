// Package runner is the shell around the pure loop: it takes inputs from the
// inbox, performs the effects that loop.Next asks for, brings their outcomes
// back as commands, and appends what loop.Decide says.
package runner

import (
	"context"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Log is what a runner needs of the memory (package eventlog).
type Log interface {
	// Sessions are the ids of all sessions that have events.
	Sessions(ctx context.Context) ([]string, error)
	// Events are the session's stored events, from the first to the head.
	Events(ctx context.Context, session string) event.Feed
	// NextInput is the first input of the session's inbox after a sequence;
	// false if there is none now.
	NextInput(ctx context.Context, session string, after uint64) (event.Delivery, bool, error)
	// WatchInputs calls notify for each input that is or will be in any inbox,
	// until ctx ends. It only hints: NextInput has the truth.
	WatchInputs(ctx context.Context, notify func(session string, inboxSeq uint64)) error
	// Submit publishes an input unless one with this id is already there.
	Submit(ctx context.Context, session, inputID string, body []byte) error
	// AppendFrame saves one frame of an operation behind the one with the
	// stream sequence last (0 = none), and gives its own. It returns when the
	// frame is stored; event.ErrFenced means that another owner has written.
	AppendFrame(ctx context.Context, session, operation string, last uint64, data []byte) (uint64, error)
	// Frames are the saved frames of an operation, to the last one known now.
	Frames(ctx context.Context, session, operation string) event.Feed
	// FrameBytes is the most that one frame may have.
	FrameBytes() int
}

// Appender appends a session's events behind the fence. An error that is
// event.ErrFenced is final.
type Appender interface {
	Append(ctx context.Context, e event.Event) (streamSeq uint64, err error)
}

// Provider answers model requests over one wire protocol.
type Provider interface {
	Service() loop.Service
	// Generate sends one request and reads its answer to the end. It never
	// sends a second request. When ctx ends it returns promptly.
	Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome
	// Inspect looks the original up, read-only.
	Inspect(ctx context.Context, req loop.Request) loop.Inspection
}

// Steerer is a Provider that takes steering while an operation runs.
type Steerer interface {
	Steer(ctx context.Context, operationID string, in event.Input) loop.SteerAnswer
}

// Tools run invocations. When ctx ends they return promptly: Lost, unless the
// receipt is there, which is still taken.
type Tools interface {
	Call(ctx context.Context, req loop.ToolRequest) loop.ToolOutcome
	Inspect(ctx context.Context, req loop.ToolRequest) loop.ToolInspection
}

// Clock is the time that the loop lives in.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once in its own goroutine after d; stop ends the wait.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// Rereader is a Provider whose look-up needs what was already received of the
// original, for example the id that the provider gave it. saved is the raw
// body as far as it was journaled; it may be empty.
type Rereader interface {
	InspectSaved(ctx context.Context, req loop.Request, saved []byte) loop.Inspection
}
