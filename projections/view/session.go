package view

import "github.com/loopd/loopd/event"

// Session is the row of a session; its Sequence is the last event's.
type Session struct {
	Stamp
	State           State    `json:"state"`
	GenerationID    string   `json:"generation_id,omitzero"` // the open one
	Owner           string   `json:"owner,omitzero"`
	Epoch           uint64   `json:"epoch"`
	Status          string   `json:"status,omitzero"` // of session.closed
	Text            string   `json:"text,omitzero"`   // of the last session.idle
	Mode            string   `json:"mode,omitzero"`
	Steering        string   `json:"steering,omitzero"`
	Provider        string   `json:"provider,omitzero"`
	Tools           []string `json:"tools,omitzero"`
	OpenedAt        string   `json:"opened_at,omitzero"`
	ResumedFrom     uint64   `json:"resumed_from,omitzero"` // of the last claim
	LastGeneration  string   `json:"last_generation_id,omitzero"`
	SummarizedUntil uint64   `json:"summarized_through,omitzero"` // through_sequence of the last summary
}

// View implements Row.
func (*Session) View() Name { return ViewSession }

// CurrentState implements Row.
func (r *Session) CurrentState() State { return r.State }

func routeSession(e event.Event) []string { return about(e.SessionID) }

// Fold implements Row: every event of a session changes its row.
func (r *Session) Fold(e event.Event) (Row, bool) {
	next := *r
	next.touch(e)
	next.Epoch = uint64(e.Epoch)
	if next.State == "" {
		next.State = StateOpen
	}
	next.apply(e)
	return &next, true
}

func (r *Session) apply(e event.Event) {
	switch p := e.Payload.(type) {
	case event.SessionOpened:
		r.Mode, r.Steering, r.Provider, r.Tools = p.Mode, p.Steering, p.Provider, p.Tools
		r.OpenedAt = r.UpdatedAt
	case event.SessionClaimed:
		r.Owner, r.ResumedFrom = p.Owner, uint64(p.ResumedFrom)
	case event.SessionIdle:
		r.Text = p.Text
		r.become(StateIdle)
	case event.SessionClosed:
		r.State, r.Status = StateClosed, p.Status
	case event.InputAccepted:
		if p.Kind.Content() {
			r.become(StateOpen)
		}
	case event.GenerationStarted:
		r.GenerationID, r.LastGeneration = p.GenerationID, p.GenerationID
		r.become(StateOpen)
	case event.GenerationFinished:
		r.end(p.GenerationID)
	case event.GenerationFailed:
		r.end(p.GenerationID)
	case event.GenerationDetached:
		r.end(p.GenerationID)
	case event.ContextSummarized:
		r.SummarizedUntil = uint64(p.ThroughSequence)
	}
}

// become keeps a closed session closed: late evidence follows (rule E4).
func (r *Session) become(s State) {
	if r.State != StateClosed {
		r.State = s
	}
}

func (r *Session) end(generation string) {
	if r.GenerationID == generation {
		r.GenerationID = ""
	}
}
