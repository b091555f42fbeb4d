package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/runner"
)

// endpointInspect is where a daemon is asked to look an original up.
const endpointInspect = "inspect"

// inspectRequest asks for a look-up of an operation's original.
type inspectRequest struct {
	SessionID   string `json:"session_id"`
	OperationID string `json:"operation_id"`
}

// inspectReply says that the look-up has begun: what it finds is in the
// session's events from From on.
type inspectReply struct {
	From event.Seq `json:"from"`
}

// api answers requests to the daemon.
type api struct {
	log     *eventlog.Log
	runner  *runner.Runner
	service string // of the provider
	held    *claims
}

func (a api) serve(ctx context.Context) error {
	return a.log.Serve(ctx, endpointInspect, func(ctx context.Context, request []byte) ([]byte, error) {
		var q inspectRequest
		if err := json.Unmarshal(request, &q, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("the request is not {session_id, operation_id}: %w", err)
		}
		from, err := a.inspect(ctx, q)
		if err != nil {
			return nil, err
		}
		return json.Marshal(inspectReply{From: from})
	})
}

// inspect begins a look-up. A session that this process does not own is
// claimed first: only its owner may append what was seen.
func (a api) inspect(ctx context.Context, q inspectRequest) (from event.Seq, err error) {
	o, err := a.find(ctx, q)
	if err != nil {
		return 0, err
	}
	switch {
	case o.service != a.service:
		return 0, fmt.Errorf("operation %s was asked of %s, and this daemon asks %s; start one that asks the former", q.OperationID, o.service, a.service)
	case o.state == event.TypeOperationAdmitted:
		return 0, fmt.Errorf("operation %s has not been dispatched: there is no original", q.OperationID)
	case o.state != event.TypeOperationDispatched && o.state != event.TypeOperationUnknown:
		return 0, fmt.Errorf("operation %s has ended (%s): there is nothing to look up", q.OperationID, o.state)
	}
	if !a.held.has(q.SessionID, o.epoch) {
		if err := a.runner.Claim(ctx, q.SessionID); err != nil {
			return 0, err
		}
	}
	return o.last + 1, a.runner.Inspect(ctx, q.SessionID, q.OperationID)
}

// original is what the log says of an operation.
type original struct {
	service string
	state   event.Type // the last of its events that is no look-up
	epoch   event.Epoch
	last    event.Seq
}

func (a api) find(ctx context.Context, q inspectRequest) (original, error) {
	var o original
	for r, err := range a.log.Events(ctx, q.SessionID) {
		if err != nil {
			return o, err
		}
		e, err := event.Decode(r.Data)
		if err != nil {
			return o, fmt.Errorf("session %q at stream sequence %d: %w", q.SessionID, r.StreamSeq, err)
		}
		o.epoch, o.last = e.Epoch, e.Sequence
		if p, ok := e.Payload.(event.OperationAdmitted); ok && p.OperationID == q.OperationID {
			o.service = p.ServiceID
		}
		if operationOf(e.Payload) == q.OperationID && e.Type != event.TypeOperationInspected {
			o.state = e.Type
		}
	}
	switch {
	case o.last == 0:
		return o, fmt.Errorf("session %q has no events", q.SessionID)
	case o.state == "":
		return o, fmt.Errorf("session %q has no operation %s; loopd events --session %s shows them", q.SessionID, q.OperationID, q.SessionID)
	}
	return o, nil
}

// operationOf is the operation that an operation's own event is about, "" for
// others.
func operationOf(p event.Payload) string {
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

// claims are the epochs that this process has begun: it owns a session as long
// as no other epoch follows in the log.
type claims struct {
	mu     sync.Mutex
	epochs map[string]event.Epoch
}

func newClaims() *claims { return &claims{epochs: map[string]event.Epoch{}} }

func (c *claims) has(session string, epoch event.Epoch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return epoch != 0 && c.epochs[session] == epoch
}

// writer makes appenders that note what they claim.
func (c *claims) writer(log *eventlog.Log) func(session string, last uint64) runner.Appender {
	return func(session string, last uint64) runner.Appender {
		return claiming{log.Writer(session, last), c}
	}
}

type claiming struct {
	runner.Appender
	claims *claims
}

func (a claiming) Append(ctx context.Context, e event.Event) (uint64, error) {
	seq, err := a.Appender.Append(ctx, e)
	a.claims.mu.Lock()
	defer a.claims.mu.Unlock()
	switch {
	case err == nil && e.Type == event.TypeSessionClaimed:
		a.claims.epochs[e.SessionID] = e.Epoch
	case errors.Is(err, event.ErrFenced):
		delete(a.claims.epochs, e.SessionID)
	}
	return seq, err
}
