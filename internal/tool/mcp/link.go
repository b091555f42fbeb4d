package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// rawMessage passes through the SDK's encoder as it is.
type rawMessage = json.RawMessage

// link is one connection to the server, with its process where it has one.
type link struct {
	session *sdk.ClientSession
	ended   chan struct{} // closed when the connection is no longer one
}

func (l *link) alive() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// connect returns the connection for new calls. It is fresh if it was made for
// this one.
func (t *Tools) connect(ctx context.Context) (l *link, fresh bool, err error) {
	select {
	case t.gate <- struct{}{}:
		defer func() { <-t.gate }()
	case <-ctx.Done():
		return nil, false, fmt.Errorf("waiting for a connection: %w", context.Cause(ctx))
	}
	t.mu.Lock()
	l, closed := t.link, t.closed
	t.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case l != nil && l.alive():
		return l, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	if t.cfg.Command != "" {
		l, err = t.start(ctx)
	} else {
		l, err = t.dial(ctx)
	}
	if err != nil {
		t.cfg.Logger.Warn("no connection to an MCP server", "err", plainly(err))
		return nil, false, fmt.Errorf("no connection to it: %w", plainly(err))
	}
	t.mu.Lock()
	closed = t.closed
	if !closed {
		t.link = l
	}
	t.mu.Unlock()
	if closed {
		t.retire(l)
		return nil, false, errClosed
	}
	return l, true, nil
}

// start runs the process and shakes hands with it.
func (t *Tools) start(ctx context.Context) (*link, error) {
	p, err := startProcess(t.cfg)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w; check its command", t.cfg.Command, err)
	}
	session, err := t.client.Connect(ctx, p, t.sessionOptions())
	if err != nil {
		p.stop()
		if said := p.said.last(); said != "" {
			t.cfg.Logger.Warn("an MCP server wrote before it failed", "stderr", said)
		}
		return nil, fmt.Errorf("handshake with %s: %w; check that it is an MCP server for stdio", t.cfg.Command, err)
	}
	return t.watch(session, p.stop), nil
}

// dial shakes hands with the endpoint.
func (t *Tools) dial(ctx context.Context) (*link, error) {
	rt := newRoundTripper(t.cfg)
	session, err := t.client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: t.cfg.URL,
		HTTPClient: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // following one would send a call again
		}},
		DisableStandaloneSSE: true,
		MaxEventSize:         t.cfg.MaxMessage,
	}, t.sessionOptions())
	if err != nil {
		rt.close()
		return nil, fmt.Errorf("handshake: %w; check its url and headers", plainly(err))
	}
	// What a tool's schema says of headers is known once it was listed. A server
	// that cannot list may still be called.
	if _, err := t.pages(ctx, session); err != nil {
		t.cfg.Logger.Warn("an MCP server does not list its tools", "err", plainly(err))
	}
	return t.watch(session, rt.close), nil
}

func (t *Tools) sessionOptions() *sdk.ClientSessionOptions {
	return &sdk.ClientSessionOptions{ProtocolVersion: t.cfg.Protocol}
}

// watch cleans up after a connection, however it ends.
func (t *Tools) watch(session *sdk.ClientSession, cleanUp func()) *link {
	l := &link{session: session, ended: make(chan struct{})}
	t.links.Go(func() {
		err := session.Wait()
		close(l.ended)
		if err != nil && !errors.Is(err, context.Canceled) && t.root.Err() == nil {
			t.cfg.Logger.Warn("the connection to an MCP server ended", "err", plainly(err))
		}
		cleanUp()
	})
	return l
}

// retire takes a connection from new calls, and ends it once those that run
// over it are done. Calls and Close may ask for it, more than once.
func (t *Tools) retire(l *link) {
	t.mu.Lock()
	if t.link == l {
		t.link = nil
	}
	t.mu.Unlock()
	t.links.Go(func() {
		if err := l.session.Close(); err != nil {
			t.cfg.Logger.Debug("a connection to an MCP server did not close well", "err", plainly(err))
		}
	})
}
