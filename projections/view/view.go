package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
)

// Name is the name of a view, as it stands in keys and in scenario files.
type Name string

// The views.
const (
	ViewSession    Name = "session"
	ViewInput      Name = "input"
	ViewGeneration Name = "generation"
	ViewOperation  Name = "operation"
	ViewInvocation Name = "invocation"
	ViewJob        Name = "job"
	ViewCheckpoint Name = "checkpoint"
	ViewWait       Name = "wait"
	ViewMessage    Name = "message"
	ViewUsage      Name = "usage"
)

// Row is what a view keeps under one key: a pointer to [Session], [Input],
// [Generation], [Operation], [Invocation], [Job], [Checkpoint], [Wait],
// [Message] or [Usage]. Rows are values: nobody changes one that exists.
type Row interface {
	View() Name
	CurrentState() State
	// Fold returns the row as it is after e, nil where it is gone, and whether
	// it changed. The event must be one that Route sends to this row's key.
	Fold(e event.Event) (Row, bool)
}

// State is the word of a row that says what has become of its subject. The
// package comment has the table.
type State string

// The states, one meaning each.
const (
	StateOpen             State = "open"
	StateIdle             State = "idle"
	StateClosed           State = "closed"
	StateAccepted         State = "accepted"
	StateQueued           State = "queued"
	StateSent             State = "sent"
	StateOwned            State = "owned"
	StateApplied          State = "applied"
	StateDelivered        State = "delivered"
	StateHeld             State = "held"
	StateUnknown          State = "unknown"
	StateWithdrawn        State = "withdrawn"
	StateRejected         State = "rejected"
	StateEffected         State = "effected"
	StateFinished         State = "finished"
	StateFailed           State = "failed"
	StateDetached         State = "detached"
	StateAdmitted         State = "admitted"
	StateDispatched       State = "dispatched"
	StateCompleted        State = "completed"
	StateCancelled        State = "cancelled"
	StateProposed         State = "proposed"
	StateAwaitingApproval State = "awaiting_approval"
	StateApproved         State = "approved"
	StateDenied           State = "denied"
	StateUncertain        State = "uncertain"
	StateReconciled       State = "reconciled"
	StateCancelRequested  State = "cancel_requested"
	StateReturned         State = "returned"
	StateRecovered        State = "recovered"
	StateSaved            State = "saved"
	StateContinued        State = "continued"
	StateStopped          State = "stopped"
)

// Stamp is the part that every row has: whose it is, and the last event that
// changed it.
type Stamp struct {
	SessionID string    `json:"session_id"`
	Sequence  event.Seq `json:"sequence"`
	UpdatedAt string    `json:"updated_at"` // that event's time: for people
}

// Version is a view's name and the number of its fold: it rises with every
// change after which an old row would differ from a new one.
type Version struct {
	View    Name `json:"view"`
	Version int  `json:"version"`
}

// Versions lists the views of this binary, in the order of their keys.
func Versions() []Version {
	out := make([]Version, 0, len(views))
	for _, v := range views {
		out = append(out, Version{v.name, v.version})
	}
	slices.SortFunc(out, func(a, b Version) int { return strings.Compare(string(a.View), string(b.View)) })
	return out
}

// Names lists the views of this binary, in the order of their keys.
func Names() []Name {
	var out []Name
	for _, v := range Versions() {
		out = append(out, v.View)
	}
	return out
}

// Route names the rows that e concerns, each key once. The error, a
// [*ShapeError], says that the event lacks the id that it is about.
func Route(e event.Event) ([]Key, error) {
	keys := make([]Key, 0, 4)
	for _, v := range views {
		from := len(keys)
		for _, id := range v.route(e) {
			k := Key{v.name, e.SessionID, id}
			switch {
			case id == "":
				return nil, &ShapeError{e.Type, string(v.name) + " id is missing"}
			case !slices.Contains(keys[from:], k):
				keys = append(keys, k)
			}
		}
	}
	return keys, nil
}

// Fold returns the row of k as it is after e; row is nil where there is none
// yet. The bool says whether there is anything to do: false leaves the row, or
// its absence, as it was; nil and true removes it.
func Fold(k Key, row Row, e event.Event) (Row, bool) {
	known := row != nil
	if !known {
		v, ok := find(k.View)
		if !ok {
			return nil, false
		}
		row = v.empty(k)
	}
	next, changed := row.Fold(e)
	switch {
	case !changed:
		return nil, false
	case next == nil:
		return nil, known
	case next.CurrentState() == "":
		return nil, false
	}
	return next, true
}

// Read is the one rule of what can be folded: it decodes a record and routes
// it. An error says why the record must be parked.
func Read(rec event.Record) (event.Event, []Key, error) {
	e, err := event.Decode(rec.Data)
	if err != nil {
		return event.Event{}, nil, err
	}
	if e.Version > event.Version {
		return event.Event{}, nil, &ShapeError{e.Type, fmt.Sprintf("version %d is not known here", e.Version)}
	}
	keys, err := Route(e)
	return e, keys, err
}

// ShapeError says that an event cannot be folded although it is one.
type ShapeError struct {
	Type   event.Type
	Reason string
}

func (e *ShapeError) Error() string { return fmt.Sprintf("view: %s: %s", e.Type, e.Reason) }

// Encode gives a row its bytes: one JSON object, fields in a fixed order.
func Encode(row Row) ([]byte, error) {
	b, err := json.Marshal(row, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("view: encode %s row: %w", row.View(), err)
	}
	return b, nil
}

// Decode reads what Encode wrote.
func Decode(name Name, b []byte) (Row, error) {
	v, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("view: decode row: no view is named %q", name)
	}
	row := v.empty(Key{})
	if err := json.Unmarshal(b, row, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("view: decode %s row: %w", name, err)
	}
	return row, nil
}

// definition is one view; empty makes the row that the first event of a key is
// folded into.
type definition struct {
	name    Name
	version int
	route   func(event.Event) []string
	empty   func(Key) Row
}

var views = []definition{
	{ViewSession, 1, routeSession, func(k Key) Row { return &Session{Stamp: k.stamp()} }},
	{ViewInput, 1, routeInput, func(k Key) Row { return &Input{Stamp: k.stamp(), InputID: k.ID} }},
	{ViewGeneration, 1, routeGeneration, func(k Key) Row { return &Generation{Stamp: k.stamp(), GenerationID: k.ID} }},
	{ViewOperation, 1, routeOperation, func(k Key) Row { return &Operation{Stamp: k.stamp(), OperationID: k.ID} }},
	{ViewInvocation, 1, routeInvocation, func(k Key) Row { return &Invocation{Stamp: k.stamp(), InvocationID: k.ID} }},
	{ViewJob, 1, routeJob, func(k Key) Row { return &Job{Stamp: k.stamp(), JobID: k.ID} }},
	{ViewCheckpoint, 1, routeCheckpoint, func(k Key) Row { return &Checkpoint{Stamp: k.stamp(), CheckpointID: k.ID} }},
	{ViewWait, 1, routeWait, func(k Key) Row { return emptyWait(k) }},
	{ViewMessage, 1, routeMessage, func(k Key) Row { return emptyMessage(k) }},
	{ViewUsage, 1, routeUsage, func(k Key) Row { return &Usage{Stamp: k.stamp()} }},
}

func (k Key) stamp() Stamp { return Stamp{SessionID: k.Session} }

func find(name Name) (definition, bool) {
	for _, v := range views {
		if v.name == name {
			return v, true
		}
	}
	return definition{}, false
}

const timeLayout = "2006-01-02T15:04:05.000000Z"

func (s *Stamp) touch(e event.Event) {
	s.Sequence, s.UpdatedAt = e.Sequence, e.Time.Format(timeLayout)
}

// about routes to the row that an event is about: an empty id is an error.
func about(id string) []string { return []string{id} }

// maybe routes to the rows of those ids that are there.
func maybe(ids ...string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// with returns list with id at its end, once; list itself stays as it is.
func with(list []string, id string) []string {
	if slices.Contains(list, id) {
		return list
	}
	return append(slices.Clip(list), id)
}

// without returns list without id; list itself stays as it is.
func without(list []string, id string) []string {
	if !slices.Contains(list, id) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(other string) bool { return other == id })
}
