package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/runner"
)

// api answers requests to the daemon.
type api struct {
	log     *eventlog.Log
	runner  *runner.Runner
	service string // of the provider
	held    *claims
}

func (a api) serve(ctx context.Context) error {
	return a.log.Serve(ctx, host.EndpointInspect, func(ctx context.Context, request []byte) ([]byte, error) {
		var q host.InspectRequest
		if err := json.Unmarshal(request, &q, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("the request is not {session_id, operation_id}: %w", err)
		}
		from, err := a.inspect(ctx, q)
		if err != nil {
			return nil, err
		}
		return json.Marshal(host.InspectReply{From: from})
	})
}

// inspect begins a look-up. A session that this process does not own is
// claimed first: only its owner may append what was seen.
func (a api) inspect(ctx context.Context, q host.InspectRequest) (from event.Seq, err error) {
	o, err := host.New(a.log).Operation(ctx, q.SessionID, q.OperationID)
	switch {
	case err != nil:
		return 0, err
	case o.Last == 0:
		return 0, fmt.Errorf("session %q has no events", q.SessionID)
	case o.State == "":
		return 0, fmt.Errorf("session %q has no operation %s; loopd events --session %s shows them", q.SessionID, q.OperationID, q.SessionID)
	case o.ServiceID != a.service:
		return 0, fmt.Errorf("operation %s was asked of %s, and this daemon asks %s; start one that asks the former", q.OperationID, o.ServiceID, a.service)
	case o.State == event.TypeOperationAdmitted:
		return 0, fmt.Errorf("operation %s has not been dispatched: there is no original", q.OperationID)
	case o.State != event.TypeOperationDispatched && o.State != event.TypeOperationUnknown:
		return 0, fmt.Errorf("operation %s has ended (%s): there is nothing to look up", q.OperationID, o.State)
	}
	if !a.held.has(q.SessionID, o.Epoch) {
		if err := a.runner.Claim(ctx, q.SessionID); err != nil {
			return 0, err
		}
	}
	return o.Last + 1, a.runner.Inspect(ctx, q.SessionID, q.OperationID)
}

// claims are the epochs that this process has begun, by session: it owns one as
// long as no other epoch follows in the log.
type claims struct{ epochs sync.Map }

func (c *claims) has(session string, epoch event.Epoch) bool {
	begun, ok := c.epochs.Load(session)
	return ok && begun == epoch
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
	if err == nil && e.Type == event.TypeSessionClaimed {
		a.claims.epochs.Store(e.SessionID, e.Epoch)
	}
	return seq, err
}
