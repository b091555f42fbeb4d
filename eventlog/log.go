package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Log is the log of all sessions on one server or cluster. It is safe for use
// by many goroutines.
type Log struct {
	cfg      Config
	subjects subjects

	nc      *nats.Conn          // appends and requests
	js      jetstream.JetStream // on nc
	bulk    *nats.Conn          // readers; apart, so that a rebuild delays no append
	bulkJS  jetstream.JetStream // on bulk
	streams streams
}

// Open connects and makes sure that the three streams are there. The error
// says what is missing, and how to mend it.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("eventlog: config: %w", err)
	}
	l := &Log{cfg: cfg, subjects: subjects{cfg.Prefix}}
	if err := l.connect(ctx); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.openStreams(ctx); err != nil {
		l.Close()
		return nil, err
	}
	if cfg.Created != nil {
		if err := cfg.Created(ctx); err != nil {
			l.Close()
			return nil, failed("open", "sync of new streams", err)
		}
	}
	return l, nil
}

// Close ends the connections. What is in flight gets an error, or an unknown
// outcome.
func (l *Log) Close() {
	for _, nc := range []*nats.Conn{l.bulk, l.nc} {
		if nc != nil {
			nc.Close()
		}
	}
}

// Head is the stream sequence of the last stored event of any session, 0 for
// none.
func (l *Log) Head(ctx context.Context) (uint64, error) {
	var state jetstream.StreamState
	err := l.again(ctx, func() (err error) {
		state, err = l.state(ctx, l.streams.events)
		return err
	})
	if err != nil {
		return 0, failed("head", "stream "+l.subjects.stream(familyEvents), err)
	}
	return state.LastSeq, nil
}

func (l *Log) state(ctx context.Context, stream jetstream.Stream) (jetstream.StreamState, error) {
	ctx, cancel, err := l.request(ctx)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return jetstream.StreamState{}, classify(err)
	}
	return info.State, nil
}

func (l *Log) connect(ctx context.Context) (err error) {
	// While a connection is lost, nothing waits in a buffer to be sent later:
	// a publish fails at once, and is known not to have been sent.
	if l.nc, l.js, err = l.dial(ctx, l.cfg.InProcess, nats.ReconnectBufSize(-1)); err != nil {
		return err
	}
	reader := l.cfg.InProcess
	if l.cfg.URL != "" {
		reader = nil
	}
	l.bulk, l.bulkJS, err = l.dial(ctx, reader)
	return err
}

// dial waits in its own goroutine: the library's connect knows no context.
func (l *Log) dial(ctx context.Context, inProcess nats.InProcessConnProvider, more ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	options := append(l.options(), more...)
	where := "server " + redact(l.cfg.URL)
	if inProcess != nil {
		options = append(options, nats.InProcessServer(inProcess))
		where = "server in process"
	}
	type result struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		nc, err := nats.Connect(l.cfg.URL, options...)
		done <- result{nc, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		go func() {
			if late := <-done; late.nc != nil {
				late.nc.Close()
			}
		}()
		r.err = context.Cause(ctx)
	}
	if r.err != nil {
		return nil, nil, failed("open", where, fmt.Errorf("%w: %w", ErrUnavailable, r.err))
	}
	js, err := jetstream.New(r.nc)
	if err != nil {
		r.nc.Close()
		return nil, nil, failed("open", where, err)
	}
	return r.nc, js, nil
}

func (l *Log) options() []nats.Option {
	c, log := l.cfg, l.cfg.Logger
	options := []nats.Option{
		nats.Name("loopd eventlog"),
		nats.Timeout(max(c.RequestTimeout, time.Second)),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() && err != nil {
				log.Warn("connection to the server lost; trying again", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection to the server is back", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("the server reports an error", "error", err)
		}),
	}
	switch {
	case c.CredsFile != "":
		options = append(options, nats.UserCredentials(c.CredsFile))
	case c.User != "":
		options = append(options, nats.UserInfo(c.User, c.Password))
	case c.Token != "":
		options = append(options, nats.Token(c.Token))
	}
	if c.TLSCA != "" {
		options = append(options, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		options = append(options, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	return options
}

// awaitConnected waits until the request connection is up, at most for d.
func (l *Log) awaitConnected(ctx context.Context, d time.Duration) error {
	if l.nc.IsConnected() {
		return nil
	}
	status := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(status)
	if l.nc.IsConnected() {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-status:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.nc.IsClosed() {
		return fmt.Errorf("%w: %w", ErrUnavailable, nats.ErrConnectionClosed)
	}
	return nil
}

// request begins a request: once the connection is up, with a context that
// ends after RequestTimeout.
func (l *Log) request(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := l.awaitConnected(ctx, l.cfg.RequestTimeout); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RequestTimeout)
	return ctx, cancel, nil
}

// classify gives an error of a request (not of a publish) its sentinel.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	case errors.As(err, &api) && isFull(api.ErrorCode):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.As(err, &api) && api.Code != 503 && api.ErrorCode != codeNoPeers:
		return err
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
