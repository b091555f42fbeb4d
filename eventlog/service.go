package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// familyAPI are the service endpoints: outside every stream, or the caller
// would get the receipt of a stream as its answer.
const familyAPI = "api"

// maxServing bounds the requests of one endpoint that are answered at a time;
// further ones wait.
const maxServing = 16

// answerTimeouts is how many RequestTimeouts a Call waits whose context has no
// deadline: somebody works on it.
const answerTimeouts = 5

// Serve answers the requests to an endpoint, <prefix>.api.<name>, until ctx
// ends. It returns once they arrive here. Processes that serve one name share
// its requests. What handle answers with an error, the caller gets as a
// *[RefusedError].
func (l *Log) Serve(ctx context.Context, name string, handle func(ctx context.Context, request []byte) ([]byte, error)) error {
	subject, err := l.subjects.service(name)
	if err != nil {
		return failed("serve", "endpoint "+name, err)
	}
	free := make(chan struct{}, maxServing)
	answer := func(r micro.Request) {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		go func() {
			defer func() { <-free }()
			l.answer(ctx, r, handle)
		}()
	}
	service, err := micro.AddService(l.nc, micro.Config{
		Name: "loopd", Version: "1.0.0", Description: "owns the sessions of the log under prefix " + l.cfg.Prefix,
		Endpoint: &micro.EndpointConfig{Subject: subject, Handler: micro.HandlerFunc(answer)},
	})
	if err == nil {
		err = l.nc.FlushTimeout(l.cfg.RequestTimeout)
	}
	if err != nil {
		if service != nil {
			_ = service.Stop()
		}
		return failed("serve", "endpoint "+name, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	context.AfterFunc(ctx, func() { _ = service.Stop() }) // a closed connection has stopped it
	return nil
}

func (l *Log) answer(ctx context.Context, r micro.Request, handle func(context.Context, []byte) ([]byte, error)) {
	reply, err := handle(ctx, r.Data())
	if err == nil {
		err = r.Respond(reply)
	} else {
		err = r.Error("500", oneLine(err.Error()), nil)
	}
	if err != nil {
		l.cfg.Logger.Warn("an answer could not be sent", "subject", r.Subject(), "error", err)
	}
}

// oneLine is a text that may stand in a header.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// Call asks an endpoint that some process serves, once. It waits until ctx
// ends, or without a deadline for 5 RequestTimeouts. Nobody serves it =
// *[NobodyServesError], and nothing was done; refused = *[RefusedError]; no
// answer in time is [ErrUnknownOutcome].
func (l *Log) Call(ctx context.Context, name string, request []byte) ([]byte, error) {
	object := "endpoint " + name
	subject, err := l.subjects.service(name)
	if err != nil {
		return nil, failed("call", object, err)
	}
	if err := l.awaitConnected(ctx, l.cfg.RequestTimeout); err != nil {
		return nil, failed("call", object, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeouts*l.cfg.RequestTimeout)
		defer cancel()
	}
	reply, err := l.nc.RequestWithContext(ctx, subject, request)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, failed("call", object, &NobodyServesError{Subject: subject})
	case err != nil:
		return nil, failed("call", object, fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
	case reply.Header.Get(micro.ErrorHeader) != "":
		return nil, failed("call", object, &RefusedError{Reason: reply.Header.Get(micro.ErrorHeader)})
	}
	return reply.Data, nil
}

// Conn is the connection for requests, for tools that are asked over NATS. It
// is the Log's to close. While it is lost, a publish fails at once: nothing
// waits in a buffer to be sent later.
func (l *Log) Conn() *nats.Conn { return l.nc }

// service is where requests to an endpoint are sent.
func (s subjects) service(name string) (string, error) {
	if !plainToken(name) {
		return "", &TokenError{ID: name}
	}
	return s.prefix + "." + familyAPI + "." + name, nil
}

// NobodyServesError says that no process answers an endpoint. Nothing was
// done.
type NobodyServesError struct{ Subject string }

func (e *NobodyServesError) Error() string {
	return fmt.Sprintf("nobody answers on %s; start the daemon with loopd serve, and give both the same prefix", e.Subject)
}

// RefusedError is the error that an endpoint answered with.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }
