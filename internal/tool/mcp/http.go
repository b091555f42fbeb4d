package mcp

import (
	"fmt"
	"io"
	"mime"
	"net/http"
)

// roundTripper adds the headers, bounds bodies and marks what leaves.
type roundTripper struct {
	base    *http.Transport
	headers map[string]string
	max     int64
}

func newRoundTripper(cfg Config) *roundTripper {
	base := cfg.Transport
	if base == nil {
		base = http.DefaultTransport.(*http.Transport)
	}
	return &roundTripper{base: base.Clone(), headers: cfg.Headers, max: int64(cfg.MaxMessage)}
}

func (rt *roundTripper) close() { rt.base.CloseIdleConnections() }

// RoundTrip is http.RoundTripper's.
func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	d, ctx := dispatchOf(req.Context()), req.Context()
	call := req.Method == http.MethodPost && d.claim()
	switch {
	case call:
		ctx = d.trace(ctx)
	case d != nil && req.Method == http.MethodPost:
		defer d.tell()
	}
	req = req.Clone(ctx)
	for name, value := range rt.headers {
		req.Header.Set(name, value)
	}
	resp, err := rt.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if call {
		d.status.Store(int32(resp.StatusCode))
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "text/event-stream" {
		resp.Body = &boundedBody{body: resp.Body, left: rt.max, max: rt.max}
	}
	return resp, nil
}

// boundedBody fails where a body is too large, instead of ending.
type boundedBody struct {
	body      io.ReadCloser
	left, max int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("an answer of more than %d bytes", b.max)
	}
	return n, err
}

func (b *boundedBody) Close() error { return b.body.Close() }
