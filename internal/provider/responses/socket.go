package responses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// socket is one WebSocket. One goroutine reads it as long as it lives, so that
// pings are answered and its end is known; who runs an operation takes the
// messages.
type socket struct {
	conn    *websocket.Conn
	born    time.Time
	timeout time.Duration // of a write
	inbox   chan []byte   // closed at the end
	err     error         // why, once inbox is closed
	stop    context.CancelFunc
}

// dialer is the HTTP client of opening handshakes: no redirect, HTTP/1.1.
func dialer(cfg Config) *http.Client {
	connect := &net.Dialer{Timeout: cfg.Socket.HandshakeTimeout, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            connect.DialContext,
			TLSClientConfig:        cfg.HTTP.TLS,
			TLSHandshakeTimeout:    cfg.Socket.HandshakeTimeout,
			MaxResponseHeaderBytes: 256 << 10,
			DisableKeepAlives:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dial opens a WebSocket. When it does not open, nothing of the request has
// left; what a server said instead is saved.
func (a *Adapter) dial(ctx context.Context, out loop.Stream) (*socket, loop.Outcome) {
	limited, cancel := context.WithTimeout(ctx, a.cfg.Socket.HandshakeTimeout)
	defer cancel()
	conn, resp, err := websocket.Dial(limited, a.endpoint.String(), &websocket.DialOptions{
		HTTPClient: a.dialer, HTTPHeader: a.header(""), CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, notOpened(ctx, limited, resp, err, out)
	}
	conn.SetReadLimit(a.cfg.Socket.MaxMessageBytes)
	reading, stop := context.WithCancel(context.Background())
	s := &socket{
		conn: conn, born: time.Now(), timeout: a.cfg.Socket.WriteTimeout,
		inbox: make(chan []byte), stop: stop,
	}
	go s.read(reading)
	return s, nil
}

// notOpened judges a handshake that failed: whatever the status, the request
// had not left.
func notOpened(ctx, limited context.Context, resp *http.Response, err error, out loop.Stream) loop.Outcome {
	if resp == nil {
		res := httpwire.Result{End: httpwire.EndBroken, Err: err}
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			res.End = httpwire.EndCancelled
		case limited.Err() != nil:
			res.End = httpwire.EndTimeout
		}
		return res.Outcome(httpwire.Refusal{})
	}
	body, _ := io.ReadAll(resp.Body) // at most 1,024 bytes, in memory
	if len(body) > 0 {
		_ = out.Raw(body) // the outcome is certain without it
	}
	res := httpwire.Result{Sent: true, Status: resp.StatusCode, Header: resp.Header, ErrorBody: body}
	if resp.StatusCode/100 > 2 {
		if f, ok := res.Outcome(refusal(body)).(loop.Failure); ok {
			return f
		}
	}
	return loop.Failure{
		Dispatch: event.DispatchNotDispatched, Code: "no_websocket", HTTPStatus: resp.StatusCode,
		NextAction: "nothing was sent: the server opened no WebSocket; send the input again, or use the http transport",
	}
}

func (s *socket) read(ctx context.Context) {
	defer close(s.inbox)
	for {
		kind, message, err := s.conn.Read(ctx)
		if err != nil {
			s.err = err
			return
		}
		if kind != websocket.MessageText {
			message = append([]byte("binary message: "), message...) // unreadable, and on record
		}
		select {
		case s.inbox <- message:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

// write sends one message. After an error the socket is dead, and a part of
// the message may have left.
func (s *socket) write(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, message); err != nil {
		return fmt.Errorf("responses: write message: %w", err)
	}
	return nil
}

func (s *socket) close() {
	s.stop()
	_ = s.conn.CloseNow() // nothing is to be said to the peer any more
}

// next is the next message, or how the wait for it ended.
func (s *socket) next(ctx context.Context, patience time.Duration) ([]byte, httpwire.End, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case message, ok := <-s.inbox:
		switch {
		case ok:
			return message, httpwire.EndClean, nil
		case errors.Is(s.err, websocket.ErrMessageTooBig):
			return nil, httpwire.EndTooLarge, s.err
		}
		return nil, httpwire.EndBroken, s.err
	case <-timer.C:
		return nil, httpwire.EndTimeout, fmt.Errorf("no message within %s", patience)
	case <-ctx.Done():
		return nil, endOf(ctx), ctx.Err()
	}
}

func endOf(ctx context.Context) httpwire.End {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return httpwire.EndTimeout
	case ctx.Err() != nil:
		return httpwire.EndCancelled
	}
	return httpwire.EndBroken
}
