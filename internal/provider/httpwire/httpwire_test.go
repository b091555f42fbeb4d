package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// raw answers one connection with bytes and closes it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buf.WriteString(answer)
		_ = buf.Flush()
		_ = conn.Close()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestEnds(t *testing.T) {
	cases := []struct {
		name, answer string
		end          End
		status       int
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", EndClean, 200},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", EndClean, 200},
		{"until close", "HTTP/1.1 200 OK\r\n\r\nhi", EndUnframed, 200},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nhi", EndUnframed, 200},
		{"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", EndBroken, 200},
		{"without a last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", EndBroken, 200},
		{"no answer", "", EndBroken, 0},
		{"error body", "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nhi", EndClean, 500},
		{"header too large", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 600<<10) + "\r\n\r\nhi", EndBroken, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var saved, taken []byte
			res := client(t, Config{}).Do(t.Context(), Request{Method: "POST", URL: raw(t, c.answer), Body: []byte("q")},
				func(b []byte) error { saved = append(saved, b...); return nil },
				func(b []byte) bool {
					if len(saved) < len(taken)+len(b) {
						t.Error("bytes were taken before they were saved")
					}
					taken = append(taken, b...)
					return false
				})
			if res.End != c.end || res.Status != c.status || !res.Sent {
				t.Errorf("end %s status %d sent %t (%v); want %s, %d", res.End, res.Status, res.Sent, res.Err, c.end, c.status)
			}
			if want := map[int]string{0: "", 200: "hi", 500: "hi"}[c.status]; string(saved) != want {
				t.Errorf("saved %q; want %q", saved, want)
			}
			if (c.status == 500) != (string(res.ErrorBody) == "hi") || (c.status == 200) != (string(taken) == "hi") {
				t.Errorf("error body %q, taken %q of a %d", res.ErrorBody, taken, c.status)
			}
			if (res.Err == nil) != (c.end == EndClean || c.end == EndUnframed) {
				t.Errorf("error %v with end %s", res.Err, res.End)
			}
		})
	}
}

func TestErrorsTellNoURL(t *testing.T) {
	res := client(t, Config{}).Do(t.Context(), Request{Method: "GET", URL: "http://127.0.0.1:1/v1?secret=s3cret"}, nil, nil)
	if res.Sent || res.Err == nil || strings.Contains(res.Err.Error(), "s3cret") {
		t.Errorf("sent %t, error %v; want an error without the URL", res.Sent, res.Err)
	}
	res = client(t, Config{}).Do(t.Context(), Request{Method: "GET", URL: "http://h\x00/s3cret"}, nil, nil)
	if res.Sent || res.Err == nil || strings.Contains(res.Err.Error(), "s3cret") {
		t.Errorf("sent %t, error %v; want an error without the URL", res.Sent, res.Err)
	}
}

func TestNotDispatched(t *testing.T) {
	cases := []struct {
		res  Result
		code string
	}{
		{Result{End: EndBroken, Err: fmt.Errorf("dial: %w", &net.DNSError{Name: "h"})}, "dns_failed"},
		{Result{End: EndBroken, Err: errors.New("refused")}, "connect_failed"},
		{Result{End: EndBroken, Err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}, "connect_timeout"},
		{Result{End: EndTimeout, Err: context.DeadlineExceeded}, "connect_timeout"},
		{Result{End: EndCancelled, Err: context.Canceled}, "cancelled"},
	}
	for _, c := range cases {
		f, ok := c.res.Outcome(Refusal{}).(loop.Failure)
		if !ok || f.Code != c.code || f.Dispatch != event.DispatchNotDispatched || f.NextAction == "" {
			t.Errorf("%v: %+v; want not_dispatched, %s", c.res.Err, f, c.code)
		}
	}
}

func TestStatusVerdict(t *testing.T) {
	rejected := map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 405: true, 413: true, 415: true, 422: true, 429: true}
	for status := 300; status < 600; status++ {
		want := VerdictUncertain
		if rejected[status] || status < 400 {
			want = VerdictRejected
		}
		if got := StatusVerdict(status, false); got != want {
			t.Errorf("status %d: verdict %d; want %d", status, got, want)
		}
	}
	if StatusVerdict(429, true) != VerdictUncertain || StatusVerdict(400, true) != VerdictRejected {
		t.Error("an upstream's 429 proves nothing; its 400 does")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	cases := map[string]time.Duration{
		"Retry-After: 20":  20 * time.Second,
		"Retry-After: 1.5": 1500 * time.Millisecond,
		"Retry-After: Mon, 30 Nov 2026 12:01:00 GMT": time.Minute,
		"Retry-After: Mon, 30 Nov 2026 11:00:00 GMT": 0,
		"Retry-After: soon":                          0,
		"Retry-After: -5":                            0,
		"Retry-After: NaN":                           0,
		"Retry-After: 1e30":                          24 * time.Hour,
		"Retry-After-Ms: 250":                        250 * time.Millisecond,
		"X: 1":                                       0,
	}
	for line, want := range cases {
		name, value, _ := strings.Cut(line, ": ")
		if got := RetryAfter(http.Header{name: {value}}, now); got != want {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for in, want := range map[string]string{
		"rate_limit_exceeded": "rate_limit_exceeded", "a.b-C9": "a.b-C9", "": "",
		"two words": "", "naïve": "", strings.Repeat("x", 65): "",
	} {
		if got := Code(in); got != want {
			t.Errorf("Code(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestIdempotentHeadersDoNotRepeat(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	h := http.Header{"Idempotency-Key": {"1"}}
	res := client(t, Config{}).Do(t.Context(), Request{Method: "POST", URL: s.URL, Header: h, Body: []byte("q")}, nil, nil)
	if asked.Load() != 1 || res.End != EndBroken || !res.Sent {
		t.Errorf("asked %d times, end %s, sent %t; want once, broken", asked.Load(), res.End, res.Sent)
	}
	if h.Get("Accept-Encoding") != "" {
		t.Error("the caller's header was changed")
	}
}

func TestEachRequestHasItsConnection(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := client(t, Config{})
	for range 3 {
		res := c.Do(t.Context(), Request{Method: "POST", URL: s.URL, Body: []byte("q")},
			func([]byte) error { return nil }, func([]byte) bool { return false })
		if res.End != EndClean {
			t.Fatalf("end %s: %v", res.End, res.Err)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections for 3 requests; want 3", n)
	}
}

func TestTheTransportCannotRepeat(t *testing.T) {
	e := &exchange{within: t.Context()}
	req, err := e.request(Request{Method: "POST", URL: "http://h/", Body: []byte("q")})
	if err != nil || req.GetBody != nil {
		t.Errorf("GetBody set %t, error %v; want none: the transport repeats with it", req.GetBody != nil, err)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/there", http.StatusFound)
	}))
	defer s.Close()
	res := client(t, Config{}).Do(t.Context(), Request{Method: "POST", URL: s.URL + "/here"}, func([]byte) error { return nil }, nil)
	if res.Status != 302 || asked.Load() != 1 {
		t.Errorf("status %d of %d requests; want 302 of one", res.Status, asked.Load())
	}
}

func TestDrainBytes(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
	}))
	defer s.Close()
	saved := 0
	res := client(t, Config{DrainBytes: 100}).Do(t.Context(), Request{Method: "GET", URL: s.URL},
		func(b []byte) error { saved += len(b); return nil }, func([]byte) bool { return true })
	if res.End != EndDrained || saved > 32<<10+100 {
		t.Errorf("end %s after %d bytes; want drained after one read and 100 bytes", res.End, saved)
	}
}

func TestSecret(t *testing.T) {
	s := struct{ Key Secret }{"s3cret"}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%v %+v %#v %s %q", s, s, s, s.Key, s.Key)
	fmt.Fprint(&b, s.Key.LogValue())
	if strings.Contains(b.String(), "s3cret") {
		t.Errorf("printed %s", &b)
	}
}
