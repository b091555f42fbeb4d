package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dispatch watches one call on its way through the SDK, whose errors do not
// tell what left and what did not. It goes along in the call's context, and
// the transports mark it:
//
//  1. the first message with this context is the call; what follows (its
//     cancellation) is not marked;
//  2. sent: its bytes may have left;
//  3. status: the HTTP status of its answer;
//  4. told: a message that followed, which is its cancellation, went out.
type dispatch struct {
	claimed atomic.Bool
	sent    atomic.Bool
	status  atomic.Int32
	told    chan struct{}
	tell    func() // closes told; may be called again
}

// tellWait bounds how long the end of a connection waits for a cancellation to
// go out.
const tellWait = time.Second

func newDispatch() *dispatch {
	d := &dispatch{told: make(chan struct{})}
	d.tell = sync.OnceFunc(func() { close(d.told) })
	return d
}

func (d *dispatch) awaitTold(ended <-chan struct{}) {
	select {
	case <-d.told:
	case <-ended:
	case <-time.After(tellWait):
	}
}

type dispatchKey struct{}

func (d *dispatch) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, dispatchKey{}, d)
}

// dispatchOf is the call that a message belongs to, nil for none.
func dispatchOf(ctx context.Context) *dispatch {
	d, _ := ctx.Value(dispatchKey{}).(*dispatch)
	return d
}

// claim is true for the first message, which is the call.
func (d *dispatch) claim() bool { return d != nil && d.claimed.CompareAndSwap(false, true) }

// trace marks what leaves over HTTP. A call whose headers did not leave whole
// did not leave; where net/http begins anew, it knows that nothing was read.
func (d *dispatch) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { d.sent.Store(false) },
		WroteHeaders: func() { d.sent.Store(true) },
	})
}

type fate int

const (
	lost     fate = iota // it may have run
	unsent               // it never left
	refused              // the server did not take it
	answered             // the server answered with an error
)

type ending struct {
	fate  fate
	stale bool // with unsent and refused: a new connection may help
	err   error
}

// refusals are the statuses by which a server says that it did not take a
// request. Others, such as a gateway's 502 or 504, leave it open.
var refusals = map[int]bool{
	http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusPaymentRequired: true, http.StatusForbidden: true,
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusNotAcceptable: true, http.StatusGone: true,
	http.StatusLengthRequired: true, http.StatusRequestEntityTooLarge: true, http.StatusRequestURITooLong: true,
	http.StatusUnsupportedMediaType: true, http.StatusTooManyRequests: true, http.StatusRequestHeaderFieldsTooLarge: true,
}

// judge says what an error of the SDK means for the call.
func (d *dispatch) judge(err error) ending {
	status := int(d.status.Load())
	// The SDK wraps an error that the server answered with once; errors of its
	// own have the same type, further down.
	wire, direct := errors.Unwrap(err).(*jsonrpc.Error)
	switch {
	case !d.sent.Load():
		return ending{fate: unsent, stale: true, err: err}
	case status == http.StatusNotFound && errors.Is(err, sdk.ErrSessionMissing):
		return ending{fate: refused, stale: true, err: errors.New("it no longer knows our session")}
	case status >= 300 && status < 400:
		return ending{fate: refused, err: fmt.Errorf("it redirects (HTTP %d); configure the address that it redirects to", status)}
	case refusals[status]:
		return ending{fate: refused, err: fmt.Errorf("it refused the call: HTTP %d %s%s", status, http.StatusText(status), detail(err))}
	case !direct:
		return ending{fate: lost}
	}
	return ending{fate: answered, err: fmt.Errorf("%s (code %d)", wire.Message, wire.Code)}
}

// detail is what the server said beside a status.
func detail(err error) string {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return ": " + wire.Message
	}
	return ""
}

// plainly keeps addresses, which may hold a token, out of an error.
func plainly(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
