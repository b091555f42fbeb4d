// Package httpwire is one HTTP exchange of a provider adapter: it sends one
// request once, hands every body byte to the journal before anything is read
// from it, keeps the limits, and says how the body ended.
//
// Invariants
//
//  1. One request at most leaves for one call of [Client.Do]: no retry, no
//     redirect, no reused connection that could die under it.
//  2. Every byte of an answer's body goes to raw first, as it came from the
//     wire: no encoding is asked for and none is undone.
//  3. Result.Sent is false only if no byte of the request can have left.
//  4. The end of a body proves nothing: whether the answer is whole is for the
//     protocol's terminal frame to say. After it the body is drained, within
//     bounds, so that late bytes are on record.
//  5. No header value, URL or body of ours stands in an error.
//
// It does not know what a body means; taxonomy.go says what a status means.
package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Config is how a client talks HTTP; the zero value means the defaults.
type Config struct {
	// ConnectTimeout bounds name resolution, connecting and the TLS handshake,
	// each; default 30 s. Nothing has left when it strikes.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait from the connection to the answer's
	// header; default 2 min. Servers that think before they stream need more.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the wait for the next body byte; default 2 min.
	// Keep-alive comments count as bytes.
	IdleTimeout time.Duration
	// MaxBodyBytes bounds a 2xx answer's body; default 64 MiB.
	MaxBodyBytes int64
	// MaxErrorBody bounds what is read of any other answer's body; default
	// 64 KiB. The rest is left unread.
	MaxErrorBody int64
	// MaxHeaderBytes bounds the answer's header; default 256 KiB.
	MaxHeaderBytes int64
	// DrainTime and DrainBytes bound what is read after the protocol's
	// terminal frame; default 2 s and 64 KiB.
	DrainTime  time.Duration
	DrainBytes int64
	// TLS is for servers with certificates of their own; nil = the system's.
	TLS *tls.Config
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	setBytes := func(n *int64, v int64) {
		if *n == 0 {
			*n = v
		}
	}
	set(&c.ConnectTimeout, 30*time.Second)
	set(&c.HeaderTimeout, 2*time.Minute)
	set(&c.IdleTimeout, 2*time.Minute)
	set(&c.DrainTime, 2*time.Second)
	setBytes(&c.MaxBodyBytes, 64<<20)
	setBytes(&c.MaxErrorBody, 64<<10)
	setBytes(&c.MaxHeaderBytes, 256<<10)
	setBytes(&c.DrainBytes, 64<<10)
	return c
}

func (c Config) validate() error {
	if min(c.ConnectTimeout, c.HeaderTimeout, c.IdleTimeout, c.DrainTime) < 0 {
		return errors.New("httpwire: config: a timeout is negative; leave it 0 for the default")
	}
	if min(c.MaxBodyBytes, c.MaxErrorBody, c.MaxHeaderBytes, c.DrainBytes) < 0 {
		return errors.New("httpwire: config: a size limit is negative; leave it 0 for the default")
	}
	return nil
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// New makes a client.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second}
	return &Client{cfg: cfg, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        cfg.TLS,
			TLSHandshakeTimeout:    cfg.ConnectTimeout,
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Request is what to send.
type Request struct {
	Method string
	URL    string
	Header http.Header // Accept-Encoding is set here, to identity
	Body   []byte
}

// Result is what came of a request.
type Result struct {
	Sent      bool        // a byte of the request may have left
	Status    int         // 0 = no answer's header came
	Header    http.Header // of the answer, as it came
	ErrorBody []byte      // of an answer that is not 2xx, at most MaxErrorBody
	End       End         // how the body ended, or the wait for it
	Err       error       // what ended it, unless the end was clean
}

// End is how an exchange ended.
type End int

// The ends. Clean means that HTTP's own framing was complete; Unframed is an
// end that HTTP/1 leaves to the closing of the connection.
const (
	EndClean     End = iota
	EndUnframed      // closed by the server, without a length or chunks
	EndBroken        // unexpected EOF, reset, no header
	EndTimeout       // a timeout of ours, or the context's deadline
	EndCancelled     // the context was cancelled
	EndTooLarge      // MaxBodyBytes was reached
	EndDrained       // the drain's bounds were reached after the terminal frame
	EndJournal       // raw failed
)

func (e End) String() string {
	names := [...]string{"clean", "unframed", "broken", "timeout", "cancelled", "too large", "drained", "journal"}
	if e < 0 || int(e) >= len(names) {
		return fmt.Sprintf("End(%d)", int(e))
	}
	return names[e]
}

var (
	errHeaderTimeout = errors.New("no answer within the header timeout")
	errIdleTimeout   = errors.New("no byte within the idle timeout")
	errDrainTimeout  = errors.New("the drain's time is over")
	errBodyTooLarge  = errors.New("the body passes its limit (MaxBodyBytes)")
	errDrainTooLarge = errors.New("the drain's bytes are used up")
)

// Do sends one request and reads the answer to its end. raw gets every body
// byte first; take then gets those of a 2xx answer and says whether the
// protocol's terminal frame was among what it has seen. Both may keep what
// they get.
func (c *Client) Do(ctx context.Context, r Request, raw func([]byte) error, take func([]byte) (terminal bool)) Result {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e := &exchange{cfg: c.cfg, outer: ctx, within: within, cancel: cancel, raw: raw, take: take}
	req, err := e.request(r)
	if err != nil {
		return Result{End: EndBroken, Err: fmt.Errorf("httpwire: build request: %w", err)}
	}
	resp, err := c.http.Do(req)
	e.wait(nil, 0)
	if err != nil {
		return Result{Sent: e.sent.Load(), End: e.endOf(err), Err: e.cause(err)}
	}
	defer resp.Body.Close()
	return e.read(resp)
}

// exchange is one call of Do.
type exchange struct {
	cfg    Config
	outer  context.Context // the caller's
	within context.Context // the request's: outer, and our timeouts
	cancel context.CancelCauseFunc
	raw    func([]byte) error
	take   func([]byte) bool
	sent   atomic.Bool
	timer  atomic.Pointer[time.Timer]
}

func (e *exchange) request(r Request) (*http.Request, error) {
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		e.sent.Store(true)
		e.wait(errHeaderTimeout, e.cfg.HeaderTimeout)
	}}
	ctx := httptrace.WithClientTrace(e.within, trace)
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, errors.New("the URL or method is not usable")
	}
	req.GetBody = nil // the transport has nothing to send twice
	if len(r.Body) == 0 {
		req.Body = nil
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	req.Header.Set("Accept-Encoding", "identity")
	return req, nil
}

// wait replaces the running timeout by one that ends the exchange with why
// after d; a nil why only ends the running one.
func (e *exchange) wait(why error, d time.Duration) {
	var next *time.Timer
	if why != nil {
		next = time.AfterFunc(d, func() { e.cancel(why) })
	}
	if last := e.timer.Swap(next); last != nil {
		last.Stop()
	}
}

func (e *exchange) read(resp *http.Response) Result {
	defer e.wait(nil, 0)
	res := Result{Sent: true, Status: resp.StatusCode, Header: resp.Header}
	ok := resp.StatusCode/100 == 2
	left, full := e.cfg.MaxBodyBytes, errBodyTooLarge
	if !ok {
		left = e.cfg.MaxErrorBody
	}
	terminal := false
	buf := make([]byte, 32<<10)
	for {
		if !terminal {
			e.wait(errIdleTimeout, e.cfg.IdleTimeout)
		}
		n, err := resp.Body.Read(buf)
		over := int64(n) > left
		b := bytes.Clone(buf[:min(int64(n), left)])
		left -= int64(len(b))
		if jerr := e.journal(b); jerr != nil {
			res.End, res.Err = EndJournal, jerr
			return res
		}
		switch {
		case !ok:
			res.ErrorBody = append(res.ErrorBody, b...)
		case len(b) > 0 && e.take(b) && !terminal:
			terminal = true
			left, full = min(left, e.cfg.DrainBytes), errDrainTooLarge
			e.wait(errDrainTimeout, e.cfg.DrainTime)
		}
		if over {
			err = full
		}
		if err != nil {
			res.End, res.Err = e.ending(resp, err)
			return res
		}
	}
}

func (e *exchange) journal(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := e.raw(b); err != nil {
		return fmt.Errorf("httpwire: save raw bytes: %w", err)
	}
	return nil
}

func (e *exchange) ending(resp *http.Response, err error) (End, error) {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		if resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
			return EndUnframed, nil
		}
		return EndClean, nil
	}
	return e.endOf(err), e.cause(err)
}

// cause is why the exchange ended: our own reason where there is one.
func (e *exchange) cause(err error) error {
	if why := context.Cause(e.within); why != nil {
		return why
	}
	// url.Error would print the URL
	return withoutURL(err)
}

func (e *exchange) endOf(err error) End {
	why := context.Cause(e.within)
	switch {
	case errors.Is(err, errBodyTooLarge):
		return EndTooLarge
	case errors.Is(err, errDrainTooLarge), errors.Is(why, errDrainTimeout):
		return EndDrained
	case errors.Is(why, errHeaderTimeout), errors.Is(why, errIdleTimeout):
		return EndTimeout
	case errors.Is(e.outer.Err(), context.DeadlineExceeded):
		return EndTimeout
	case e.outer.Err() != nil:
		return EndCancelled
	}
	return EndBroken
}

// Secret is a key: it prints as a placeholder, wherever it is printed.
type Secret string

const hidden = "[secret]"

func (Secret) String() string               { return hidden }
func (Secret) GoString() string             { return hidden }
func (Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
