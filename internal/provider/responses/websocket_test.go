package responses_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/responses"
	"github.com/loopd/loopd/loop"
)

// peer is the server's side of one WebSocket, driven by a test.
type peer struct {
	conn *websocket.Conn
	ctx  context.Context
}

// read is the next message of the adapter; "" = it hung up.
func (p *peer) read() string {
	_, b, err := p.conn.Read(p.ctx)
	if err != nil {
		return ""
	}
	return string(b)
}

func (p *peer) send(messages ...string) {
	for _, m := range messages {
		if err := p.conn.Write(p.ctx, websocket.MessageText, []byte(m)); err != nil {
			return // the adapter has gone: the test sees its outcome
		}
	}
}

// gone waits until the adapter hangs up.
func (p *peer) gone() {
	for p.read() != "" {
	}
}

// sockets serves WebSockets, one script a connection; n counts them from 1.
func sockets(t *testing.T, script func(p *peer, n int)) string {
	t.Helper()
	connections := atomic.Int32{}
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key || r.URL.Path != "/v1/responses" || r.Header.Get("Sec-WebSocket-Extensions") != "" {
			w.WriteHeader(400)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(1 << 20)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		script(&peer{conn, ctx}, int(connections.Add(1)))
	})
	return url
}

func socket(c *responses.Config) {
	c.Transport, c.Steering = responses.TransportWebSocket, true
	c.Socket.SettleTimeout = 10 * time.Second
}

func TestConverse(t *testing.T) {
	asked := make(chan string, 1)
	url := sockets(t, func(p *peer, _ int) {
		asked <- p.read()
		p.send(created("r1", ""), hello, block, ended("r1", "completed", ""))
		p.gone()
	})
	a := adapter(t, url, socket)
	j := &journal{}
	outcome := a.Generate(t.Context(), ask(), j)
	c, ok := outcome.(loop.Completion)
	if !ok || c.Finish != event.FinishStop || c.Text != "Hello" {
		t.Fatalf("outcome %+v; want Hello, stop", outcome)
	}
	const want = `{"type":"response.create","model":"m","store":false,"metadata":{"op":"op-1"},"input":[{"type":"message","role":"user","content":"hi"}]}`
	if got := <-asked; got != want {
		t.Errorf("asked %s; want %s", got, want)
	}
	wire := strings.Join([]string{created("r1", ""), hello, block, ended("r1", "completed", ""), ""}, "\n")
	if string(j.raw) != wire || c.ResponseDigest != event.Digest([]byte(wire)) || c.ResponseBytes != int64(len(wire)) {
		t.Errorf("saved %q, digest of %d bytes; want each message and a newline", j.raw, c.ResponseBytes)
	}
	if want := []string{"raw", "raw", "text Hello", "raw", "message Hello", "raw"}; !slices.Equal(j.log, want) {
		t.Errorf("told %q; want %q", j.log, want)
	}
}

func TestConversations(t *testing.T) {
	big := saying(strings.Repeat("x", 100<<10))
	for _, c := range []struct {
		name   string
		script func(p *peer)
		change func(*responses.Config)
		want   string
	}{
		{"a large message", func(p *peer) { p.send(created("r1", ""), big, ended("r1", "completed", "")) }, nil, "completion stop"},
		{"one too large", func(p *peer) { p.send(created("r1", ""), big) }, func(c *responses.Config) { c.Socket.MaxMessageBytes = 1000 }, "uncertain no_terminal"},
		{"all too large", func(p *peer) { p.send(created("r1", ""), big) }, func(c *responses.Config) { c.Socket.MaxBytes = 1000 }, "uncertain no_terminal"},
		{"cut off", func(p *peer) {
			p.send(created("r1", ""), hello, ended("r1", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`))
		}, nil, "completion output_budget"},
		{"failed", func(p *peer) { p.send(created("r1", ""), ended("r1", "failed", `,"error":{"code":"server_error"}`)) }, nil, "failure ran server_error 0"},
		{"refused", func(p *peer) {
			p.send(`{"type":"error","status":400,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"m"}}`)
		}, nil, "failure rejected context_length_exceeded 400"},
		{"limit", func(p *peer) {
			p.send(`{"type":"error","status":429,"error":{"code":"websocket_connection_limit_reached"}}`)
		}, nil, "failure rejected websocket_connection_limit_reached 429"},
		{"busy", func(p *peer) { p.send(`{"type":"error","status":503,"error":{"code":"server_error"}}`) }, nil, "uncertain transport"},
		{"error in the answer, and no end", func(p *peer) {
			p.send(created("r1", ""), hello, `{"type":"error","status":500,"error":{"code":"server_error"}}`)
			p.gone()
		}, func(c *responses.Config) { c.Socket.SettleTimeout = 20 * time.Millisecond }, "uncertain timeout"},
		{"socket lost before a word", func(*peer) {}, nil, "uncertain transport"},
		{"socket lost in the answer", func(p *peer) { p.send(created("r1", ""), hello) }, nil, "uncertain transport"},
		{"closed in order in the answer", func(p *peer) {
			p.send(created("r1", ""), hello)
			_ = p.conn.Close(websocket.StatusNormalClosure, "bye")
		}, nil, "uncertain transport"},
		{"silence", func(p *peer) { p.send(created("r1", "")); p.gone() }, func(c *responses.Config) { c.Socket.IdleTimeout = 20 * time.Millisecond }, "uncertain timeout"},
		{"unreadable", func(p *peer) { p.send(created("r1", ""), "{", ended("r1", "completed", "")) }, nil, "completion unrecognised"},
		{"binary", func(p *peer) {
			p.send(created("r1", ""))
			_ = p.conn.Write(p.ctx, websocket.MessageBinary, []byte(hello))
			p.send(ended("r1", "completed", ""))
		}, nil, "completion unrecognised"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := sockets(t, func(p *peer, _ int) { p.read(); c.script(p) })
			a := adapter(t, url, socket, func(cfg *responses.Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			outcome := a.Generate(t.Context(), ask(), &journal{})
			if got := say(outcome); got != c.want {
				t.Errorf("outcome %s (%+v); want %s", got, outcome, c.want)
			}
			if n := responses.Running(a); n != 0 {
				t.Errorf("%d operations still known; want none", n)
			}
		})
	}
}

func TestNoWebSocket(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   string
	}{
		{"401", status(401, "application/json", apiError), "failure rejected the_code 401"},
		{"404", status(404, "text/plain", ""), "failure rejected http_404 404"},
		{"503", status(503, "application/json", apiError), "failure not_dispatched no_websocket 503"},
		{"200", status(200, "application/json", `{}`), "failure not_dispatched no_websocket 200"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, "failure rejected redirect 302"},
		{"hang up", func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, "failure not_dispatched connect_failed 0"},
		{"silence", forever(""), "failure not_dispatched connect_timeout 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, _ := server(t, c.handle)
			a := adapter(t, url, socket, func(cfg *responses.Config) { cfg.Socket.HandshakeTimeout = 300 * time.Millisecond })
			j := &journal{}
			if got := say(a.Generate(t.Context(), ask(), j)); got != c.want {
				t.Errorf("outcome %s; want %s", got, c.want)
			}
			if c.name == "401" && string(j.raw) != apiError {
				t.Errorf("saved %q; want what the server said", j.raw)
			}
		})
	}
}

func TestSocketJournalFails(t *testing.T) {
	url := sockets(t, func(p *peer, _ int) { p.read(); p.send(created("r1", ""), hello); p.gone() })
	j := &journal{refuse: 2}
	if got := say(adapter(t, url, socket).Generate(t.Context(), ask(), j)); got != "uncertain transport" {
		t.Errorf("outcome %s; want uncertain transport", got)
	}
	if slices.Contains(j.log, "text Hello") {
		t.Error("a message was read that is not saved")
	}
}

func TestSocketContextEnds(t *testing.T) {
	url := sockets(t, func(p *peer, _ int) { p.read(); p.send(created("r1", ""), hello); p.gone() })
	a := adapter(t, url, socket)
	ctx, cancel := context.WithCancel(t.Context())
	if got := say(a.Generate(ctx, ask(), &journal{told: func(string) { cancel() }})); got != "uncertain cancelled" {
		t.Errorf("cancelled in the answer: %s; want uncertain cancelled", got)
	}
	if got := say(a.Generate(ctx, ask(), &journal{})); got != "failure not_dispatched cancelled 0" {
		t.Errorf("cancelled before: %s; want not_dispatched", got)
	}
}
