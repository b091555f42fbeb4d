package host

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
)

// EndpointInspect is where a daemon is asked, with an InspectRequest, to look
// up an operation's original; it answers with an InspectReply.
const EndpointInspect = "inspect"

// InspectRequest asks for a look-up.
type InspectRequest struct {
	SessionID   string `json:"session_id"`
	OperationID string `json:"operation_id"`
}

// InspectReply says that the look-up has begun: what it finds is in the
// session's events from From on.
type InspectReply struct {
	From event.Seq `json:"from"`
}

// Inspect has the session's owner look up what became of an operation, and
// calls fn for the operation's events that follow: operation.inspected, and,
// where it was seen complete, its ending. Nothing is asked of a model again.
//
// A look-up that makes no sense (no such operation, it has ended) is an
// *[eventlog.RefusedError]; no daemon is an *[eventlog.NobodyServesError].
func (h *Host) Inspect(ctx context.Context, session, operation string, fn func(event.Event) error) error {
	request, err := json.Marshal(InspectRequest{session, operation})
	if err != nil {
		return fmt.Errorf("host: inspect operation %q: %w", operation, err)
	}
	b, err := h.log.Call(ctx, EndpointInspect, request)
	if err != nil {
		return fmt.Errorf("host: inspect operation %q: %w", operation, err)
	}
	var reply InspectReply
	if err := json.Unmarshal(b, &reply); err != nil {
		return fmt.Errorf("host: inspect operation %q: the daemon's answer: %w; are both of one version?", operation, err)
	}
	for e, err := range h.Events(ctx, session, reply.From) {
		if err != nil {
			return err
		}
		if OperationOf(e.Payload) != operation {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
		switch p := e.Payload.(type) {
		case event.OperationInspected:
			if p.Observed != event.ObservedComplete {
				return nil
			}
		case event.OperationCompleted, event.OperationFailed, event.OperationCancelled:
			return nil // found by the look-up, or come by itself meanwhile
		}
	}
	return nil
}
