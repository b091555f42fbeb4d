package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// exchange is one call, from its request to its reply.
//
//  1. subscribe a reply subject of its own, so that a late reply, a second one
//     or one after a reconnect still finds it;
//  2. publish the request, once;
//  3. wait: signs of life restart the silence, a reply ends it;
//  4. after a silence or a reconnect, look the call up beside the wait.
type exchange struct {
	t       *Tools
	ctx     context.Context
	req     loop.ToolRequest
	msg     *natsgo.Msg
	sub     *natsgo.Subscription
	replies chan *natsgo.Msg
	status  chan natsgo.Status

	found   chan loop.ToolInspection
	looking bool      // a look-up is under way
	cut     time.Time // when the connection came back, if no look-up said pending since
	again   bool      // it came back while a look-up was under way
}

// retryLook is how long a look-up that found nobody after a reconnect waits
// for the next: the tool may come back later than we do.
const retryLook = 100 * time.Millisecond

// open prepares an exchange; nothing has been sent when it fails.
func (t *Tools) open(ctx context.Context, req loop.ToolRequest) (*exchange, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	subject, err := Subject(t.cfg.Prefix, req.Tool)
	if err != nil {
		return nil, err
	}
	body, err := encodeCall(req)
	if err != nil {
		return nil, err
	}
	limit := min(t.cfg.MaxRequest, int(t.nc.MaxPayload()))
	if len(body) > limit {
		return nil, fmt.Errorf("its request has %d bytes, at most %d are allowed; use smaller arguments, or raise the limit", len(body), limit)
	}
	x := &exchange{
		t: t, ctx: ctx, req: req, msg: natsgo.NewMsg(subject),
		replies: make(chan *natsgo.Msg), found: make(chan loop.ToolInspection, 1),
	}
	x.msg.Reply, x.msg.Data = t.nc.NewInbox(), body
	x.msg.Header.Set(HeaderInvocation, req.InvocationID)
	if x.sub, err = t.nc.Subscribe(x.msg.Reply, x.receive); err != nil {
		return nil, fmt.Errorf("no connection to NATS: %w", err)
	}
	x.status = t.nc.StatusChanged(natsgo.CONNECTED, natsgo.CLOSED)
	return x, nil
}

// receive hands a message over. The client queues those behind it: a channel
// of ours that is full would lose the reply.
func (x *exchange) receive(m *natsgo.Msg) {
	select {
	case x.replies <- m:
	case <-x.ctx.Done():
	}
}

func (x *exchange) close() {
	// It fails only where the connection is closed, and the subscription with it.
	_ = x.sub.Unsubscribe()
	x.t.nc.RemoveStatusListener(x.status)
}

// send fails if the request certainly did not leave. Without a connection the
// client would keep it and send it at some later time: it does not get it then.
func (x *exchange) send() error {
	for len(x.status) > 0 {
		<-x.status // of before
	}
	if s := x.t.nc.Status(); s != natsgo.CONNECTED {
		return fmt.Errorf("no connection to NATS (%s); it is tried again by itself", s)
	}
	err := x.t.nc.PublishMsg(x.msg)
	for _, unsent := range []error{
		natsgo.ErrMaxPayload, natsgo.ErrConnectionClosed, natsgo.ErrConnectionDraining,
		natsgo.ErrHeadersNotSupported, natsgo.ErrBadSubject, natsgo.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, unsent) {
			return err
		}
	}
	if err != nil {
		x.t.cfg.Logger.Warn("a tool call may not have left", "tool", x.req.Tool, "invocation", x.req.InvocationID, "err", err)
	}
	return nil
}

func (x *exchange) await() loop.ToolOutcome {
	silence := time.NewTimer(x.t.cfg.Silence)
	defer silence.Stop()
	for {
		select {
		case m := <-x.replies:
			if out, final := x.t.answer(x.req.Tool, m); final {
				return out
			}
			silence.Reset(x.t.cfg.Silence)
		case <-silence.C:
			x.look(0)
			silence.Reset(x.t.cfg.Silence)
		case s := <-x.status:
			if s == natsgo.CLOSED {
				return loop.ToolOutcome{Lost: true}
			}
			x.cut, x.again = time.Now(), x.looking
			x.look(0)
		case f := <-x.found:
			if out, final := x.judge(f); final {
				return out
			}
		case <-x.ctx.Done():
			return loop.ToolOutcome{Lost: true}
		}
	}
}

// look looks the call up beside the wait, after a pause.
func (x *exchange) look(pause time.Duration) {
	if x.looking {
		return
	}
	x.looking = true
	go func() {
		select {
		case <-time.After(pause):
			x.found <- x.t.Inspect(x.ctx, x.req)
		case <-x.ctx.Done():
		}
	}()
}

// judge says what a look-up means for the call that waits.
func (x *exchange) judge(f loop.ToolInspection) (out loop.ToolOutcome, final bool) {
	x.looking = false
	switch {
	case f.Observed == event.ObservedComplete:
		return f.Outcome, true
	case f.Observed == event.ObservedMissing, f.Observed == event.ObservedExpired:
		return loop.ToolOutcome{Lost: true}, true
	case x.again: // it was asked over the connection that broke
		x.again = false
		x.look(0)
	case f.Observed == event.ObservedPending:
		x.cut = time.Time{}
	case x.cut.IsZero():
	case time.Since(x.cut) >= x.t.cfg.LookupWait:
		return loop.ToolOutcome{Lost: true}, true
	default:
		x.look(retryLook)
	}
	return out, false
}
