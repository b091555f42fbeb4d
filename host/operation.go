package host

import (
	"context"
	"fmt"

	"github.com/loopd/loopd/event"
)

// Operation is what the log says of a model request by now.
type Operation struct {
	ServiceID string     // which provider was asked
	State     event.Type // its last event that is no look-up; "" = the session has no such operation
	Epoch     event.Epoch
	Last      event.Seq // of the session; 0 = it has no events
}

// Operation reads what the log says of an operation. It waits for nothing.
func (h *Host) Operation(ctx context.Context, session, operation string) (Operation, error) {
	var o Operation
	for rec, err := range h.log.Events(ctx, session) {
		if err != nil {
			return o, fmt.Errorf("host: operation %q: %w", operation, err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return o, fmt.Errorf("host: operation %q: stream sequence %d: %w", operation, rec.StreamSeq, err)
		}
		o.Epoch, o.Last = e.Epoch, e.Sequence
		if OperationOf(e.Payload) != operation || e.Type == event.TypeOperationInspected {
			continue
		}
		o.State = e.Type
		if p, ok := e.Payload.(event.OperationAdmitted); ok {
			o.ServiceID = p.ServiceID
		}
	}
	return o, nil
}

// OperationOf is the operation whose own event this is, "" for other events.
func OperationOf(p event.Payload) string {
	switch p := p.(type) {
	case event.OperationAdmitted:
		return p.OperationID
	case event.OperationDispatched:
		return p.OperationID
	case event.OperationCompleted:
		return p.OperationID
	case event.OperationFailed:
		return p.OperationID
	case event.OperationUnknown:
		return p.OperationID
	case event.OperationCancelled:
		return p.OperationID
	case event.OperationInspected:
		return p.OperationID
	}
	return ""
}
