package loop

import (
	"fmt"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
)

// bounds are the configured ones, narrowed by an input's task (contract 6.2).
func (c Config) bounds(task *event.Task) event.Bounds {
	b := event.Bounds{
		MaxSegments: c.Bounds.MaxSegments, NoProgress: c.Bounds.NoProgress,
		MaxTokens: c.Bounds.MaxTokens, MaxCost: c.Bounds.MaxCost, MaxElapsedMS: c.Bounds.MaxElapsed.Milliseconds(),
	}
	expires := c.Bounds.ExpiresAt
	if task != nil {
		b.MaxSegments = narrow(b.MaxSegments, task.MaxSegments)
		b.MaxTokens = narrow(b.MaxTokens, task.MaxTokens)
		b.MaxCost = narrow(b.MaxCost, task.MaxCost)
		elapsed, _ := time.ParseDuration(task.MaxElapsed) // checked when the input was taken
		b.MaxElapsedMS = narrow(b.MaxElapsedMS, elapsed.Milliseconds())
		if at, err := time.Parse(time.RFC3339Nano, task.ExpiresAt); err == nil && (expires.IsZero() || at.Before(expires)) {
			expires = at
		}
	}
	if !expires.IsZero() {
		b.ExpiresAt = expires.UTC().Format(time.RFC3339Nano)
	}
	return b
}

func narrow[N int | int64 | float64](configured, asked N) N {
	if asked > 0 && (configured == 0 || asked < configured) {
		return asked
	}
	return configured
}

// within are bounds, narrowed by those that the task has already.
func within(b, task event.Bounds) event.Bounds {
	b.MaxSegments = narrow(b.MaxSegments, task.MaxSegments)
	b.MaxTokens = narrow(b.MaxTokens, task.MaxTokens)
	b.MaxCost = narrow(b.MaxCost, task.MaxCost)
	b.MaxElapsedMS = narrow(b.MaxElapsedMS, task.MaxElapsedMS)
	b.NoProgress = narrow(b.NoProgress, task.NoProgress)
	at, err := time.Parse(time.RFC3339Nano, task.ExpiresAt)
	if own, none := time.Parse(time.RFC3339Nano, b.ExpiresAt); err == nil && (none != nil || at.Before(own)) {
		b.ExpiresAt = task.ExpiresAt
	}
	return b
}

// grant is the one further set of bounds that a decision to continue gives
// (contract 6.2): the old ones anew, but for an authority that ended: the
// decision is its own, until the expires_at that it names.
func (c Config) grant(task *event.Task, old event.Bounds) event.Bounds {
	old.ExpiresAt = ""
	return within(c.bounds(task), old)
}

// overdue is the bound of time that a generation reaches while it waits for
// people: nothing runs, and what waits is withdrawn.
func (s *State) overdue(now time.Time) string {
	open := false
	for _, inv := range s.Generation.Invocations {
		if inv.Phase == InvocationDispatched {
			return ""
		}
		open = open || !inv.Settled()
	}
	if !open {
		return ""
	}
	switch reason := s.exhausted(now); reason {
	case event.StopAuthorityEnded, event.StopTimeExhausted:
		return reason
	}
	return ""
}

// deadline is when overdue may change by itself; zero = never.
func (s *State) deadline() time.Time {
	g := s.Generation
	at, _ := time.Parse(time.RFC3339Nano, g.Bounds.ExpiresAt) // zero if there is none
	if task := s.task(g.TaskID); task != nil && g.Bounds.MaxElapsedMS > 0 {
		if end := task.since().Add(time.Duration(g.Bounds.MaxElapsedMS) * time.Millisecond); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return at
}

// bound is the first bound that one more segment of the chain would break.
func (s *State) bound(now time.Time) string {
	g := s.Generation
	b := g.Bounds
	switch {
	case b.NoProgress > 0 && g.Chain.Stagnant >= b.NoProgress:
		return event.StopNoProgress
	case b.MaxSegments > 0 && g.Chain.Segment-g.Chain.Base >= b.MaxSegments:
		return event.StopSegmentsExhausted
	}
	return s.exhausted(now)
}

// exhausted is the first bound of the whole task that is reached.
func (s *State) exhausted(now time.Time) string {
	g := s.Generation
	b, task := g.Bounds, s.task(g.TaskID)
	if at, err := time.Parse(time.RFC3339Nano, b.ExpiresAt); err == nil && !now.Before(at) {
		return event.StopAuthorityEnded
	}
	switch {
	case task == nil:
	case b.MaxTokens > 0 && task.Tokens-task.Granted.Tokens >= b.MaxTokens:
		return event.StopTokensExhausted
	case b.MaxElapsedMS > 0 && now.Sub(task.since()).Milliseconds() >= b.MaxElapsedMS:
		return event.StopTimeExhausted
	case b.MaxCost > 0 && task.Cost-task.Granted.Cost >= b.MaxCost:
		return event.StopCostExhausted
	}
	return ""
}

// actions say to a person what can be done about a stop.
var actions = map[string]string{
	event.StopSegmentsExhausted:  "send a decision with verdict continue on the checkpoint to grant more segments",
	event.StopTokensExhausted:    "send a decision with verdict continue on the checkpoint to grant more tokens",
	event.StopTimeExhausted:      "send a decision with verdict continue on the checkpoint to grant more time",
	event.StopCostExhausted:      "send a decision with verdict continue on the checkpoint to grant more cost",
	event.StopNoProgress:         "read the text so far; send a decision with verdict continue only if it should try again",
	event.StopCancelled:          "send the request again if it is still wanted",
	event.StopAuthorityEnded:     "the task's expires_at has passed; send a decision with verdict continue on the checkpoint to renew it",
	event.StopOperationUncertain: "inspect the original operation; nothing is sent again",
	event.StopResponseExpired:    "the provider no longer has the response; send the request again if it is still wanted",
	event.StopContextWindow:      "the context window is full; start a new session or shorten the input",
}

// halt says that the chain does not go on. A stop of a chain names its
// checkpoint.
func (s *State) halt(reason, cause string) step {
	g := s.Generation
	stop := event.ContinuationStopped{Reason: reason, Action: actions[reason]}
	if g.Operation != nil {
		stop.OperationID, stop.CheckpointID = g.Operation.ID, g.Operation.CheckpointID
	}
	if g.Cutoff != nil {
		stop.CheckpointID = g.Cutoff.ID
	} else if strings.Contains(stop.Action, "checkpoint") {
		stop.Action = "the task has used what it was given; send a new input, with a new task, to go on"
	}
	return record(stop, cause)
}

// checkpoint saves where the chain stands.
func (s *State) checkpoint(kind string, t Tick) step {
	g := s.Generation
	op, task := g.Operation, s.task(g.TaskID)
	saved := event.CheckpointSaved{
		CheckpointID: t.IDs[0], Kind: kind, GenerationID: g.ID, TaskID: g.TaskID, OperationID: op.ID,
		ServiceID: op.ServiceID, DescriptorRevision: op.Revision, Finish: op.Completed.Finish,
		Delivered:      event.Delivered{Bytes: int64(len(g.Chain.Text)), Digest: event.Digest([]byte(g.Chain.Text))},
		Invocations:    []string{},
		CompletedSteps: []string{fmt.Sprintf("segment %d of the answer", op.Segment)},
		RemainingSteps: []string{},
		Segment:        op.Segment,
	}
	if task != nil {
		saved.Invocations = append(saved.Invocations, task.Completed...)
		for _, id := range task.Completed {
			saved.CompletedSteps = append(saved.CompletedSteps, "invocation "+id)
		}
		saved.Spent = event.Spent{
			Segments: g.Chain.Segment - g.Chain.Base, Tokens: task.Tokens - task.Granted.Tokens,
			ElapsedMS: max(0, t.Now.Sub(task.since()).Milliseconds()), Cost: task.Cost - task.Granted.Cost,
		}
	}
	if kind == event.CheckpointCutoff {
		saved.RemainingSteps = append(saved.RemainingSteps, fmt.Sprintf("continue the answer after byte %d", saved.Delivered.Bytes))
	}
	return record(saved, op.EndID)
}
