package eventlog_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

// tap stands between a log and the server in its process, and loses what it is
// told to lose.
type tap struct {
	provider nats.InProcessConnProvider

	mu    sync.Mutex
	armed fault
	then  func() // called when the fault has happened
	hits  int
}

type fault int

const (
	none        fault = iota
	ackLost           // the server's next acknowledgement never arrives
	ackCut            // the connection breaks where it would arrive
	requestLost       // the next publish to a stream never reaches the server
)

func (t *tap) arm(f fault, then func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed, t.then, t.hits = f, then, 0
}

func (t *tap) happened() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hits > 0
}

// meets reports whether the armed fault is one of these, and disarms it.
func (t *tap) meets(faults ...fault) (fault, bool) {
	t.mu.Lock()
	var then func()
	met := none
	for _, f := range faults {
		if t.armed == f {
			met, then = f, t.then
			t.armed, t.hits = none, t.hits+1
		}
	}
	t.mu.Unlock()
	if then != nil {
		then()
	}
	return met, met != none
}

func (t *tap) InProcessConn() (net.Conn, error) {
	c, err := t.provider.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: c, tap: t}, nil
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c *tapped) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !bytes.Contains(b[:n], []byte(`"seq":`)) || bytes.Contains(b[:n], []byte(`"message"`)) || bytes.Contains(b[:n], []byte(`"error"`)) {
			return n, err
		}
		f, met := c.tap.meets(ackLost, ackCut)
		if !met {
			return n, err
		}
		whole := bytes.HasPrefix(b[:n], []byte("MSG ")) && bytes.HasSuffix(b[:n], []byte("\r\n")) && bytes.Count(b[:n], []byte("\r\n")) == 2
		if f == ackCut || !whole {
			_ = c.Conn.Close()
			return 0, io.EOF
		}
	}
}

func (c *tapped) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("PUB loop.")) {
		if _, met := c.tap.meets(requestLost); met {
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// tappedLog is a log on a fresh server whose messages can be lost.
func tappedLog(t testing.TB, change func(*eventlog.Config)) (*eventlog.Log, *tap, *host) {
	t.Helper()
	h := startHost(t, natsembed.Config{})
	wire := &tap{provider: h}
	l := h.log(t, func(c *eventlog.Config) {
		c.InProcess, c.RequestTimeout = wire, 200*time.Millisecond
		if change != nil {
			change(c)
		}
	})
	return l, wire, h
}

// raw is a connection beside the log: an administrator's, or an attacker's.
func (h *host) raw(t testing.TB) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(h.current().ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func (h *host) rawStream(t testing.TB, name string) jetstream.Stream {
	t.Helper()
	_, js := h.raw(t)
	s, err := js.Stream(logtest.Context(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
