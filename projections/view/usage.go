package view

import "github.com/loopd/loopd/event"

// Usage is the row of what a session has used, as the provider says it; its id
// is the session's. Answers that came late count: they were paid for.
type Usage struct {
	Stamp
	Operations  int     `json:"operations"` // completed ones
	Unmeasured  int     `json:"unmeasured"` // of them, those whose usage nobody told
	Failed      int     `json:"failed"`
	Input       int64   `json:"input"` // tokens
	Output      int64   `json:"output"`
	Reasoning   int64   `json:"reasoning"`
	Cost        float64 `json:"cost,omitzero"` // where the provider tells one
	Invocations int     `json:"invocations"`   // dispatches of tools
}

// View implements Row.
func (*Usage) View() Name { return ViewUsage }

// CurrentState implements Row.
func (*Usage) CurrentState() State { return StateOpen }

func routeUsage(e event.Event) []string {
	switch e.Payload.(type) {
	case event.OperationCompleted, event.OperationFailed, event.InvocationDispatched:
		return about(e.SessionID)
	}
	return nil
}

// Fold implements Row.
func (r *Usage) Fold(e event.Event) (Row, bool) {
	next := *r
	switch p := e.Payload.(type) {
	case event.OperationCompleted:
		next.Operations++
		if p.Usage == nil {
			next.Unmeasured++
			break
		}
		next.Input += p.Usage.Input
		next.Output += p.Usage.Output
		next.Reasoning += p.Usage.Reasoning
		next.Cost += p.Usage.Cost
	case event.OperationFailed:
		next.Failed++
	case event.InvocationDispatched:
		next.Invocations++
	default:
		return r, false
	}
	next.touch(e)
	return &next, true
}
