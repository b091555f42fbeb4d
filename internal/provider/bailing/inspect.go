package bailing

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Inspect looks the original up, read-only.
//
//	complete with its response        complete
//	complete, response past its time  expired
//	admitted, dispatched              pending
//	unknown                           error
//	failed and rejected               complete, with the failure
//	cancelled before it went on       complete, with the failure
//	cancelled later                   error
//	not found, in the hub's own word  missing
//	anything else                     error
//
// An unknown outcome is an error and not pending: the hub itself has no way to
// learn it, so looking again by the clock would wait for a person; a later
// look-up that a person asks for still finds what the hub was told since. It
// is not unsupported either, for there is a look-up. An answer whose own
// protocol did not end is an error too: no look-up will ever make it whole.
func (a *Adapter) Inspect(ctx context.Context, req loop.Request) loop.Inspection {
	if !usableID(req.OperationID) {
		return loop.Inspection{Observed: event.ObservedError}
	}
	wait := a.cfg.LookUpWait
	for tries := 1; ; tries++ {
		found, again := a.ask(ctx, req, http.MethodGet, a.address(req.OperationID), nil)
		if !again || tries >= a.cfg.LookUps || pause(ctx, wait) != nil {
			return found
		}
		wait *= 2
	}
}

// InspectSaved is Inspect, unless saved holds the stream to its end: then the
// hub's receipt is here already, and nothing is asked.
func (a *Adapter) InspectSaved(ctx context.Context, req loop.Request, saved []byte) loop.Inspection {
	f := newFold(a.original(req), nil)
	f.write(saved)
	if found := ended(f.end(httpwire.EndClean)); found.Observed == event.ObservedComplete {
		return found
	}
	return a.Inspect(ctx, req)
}

// Cancel asks the hub to cancel an operation, and says how it stands after
// that. Before its dispatch nothing will run; later the provider may go on,
// and its result is withheld. The loop itself never cancels: it ends its wait.
func (a *Adapter) Cancel(ctx context.Context, req loop.Request) loop.Inspection {
	if !usableID(req.OperationID) {
		return loop.Inspection{Observed: event.ObservedError}
	}
	found, _ := a.ask(ctx, req, http.MethodPost, a.address(req.OperationID).JoinPath("cancel"), []byte("{}"))
	return found
}

func (a *Adapter) address(operationID string) *url.URL {
	return a.requests.JoinPath(url.PathEscape(operationID))
}

// ask makes one exchange about an operation; again says that the hub could not
// be reached or had no time for it.
func (a *Adapter) ask(ctx context.Context, req loop.Request, method string, where *url.URL, body []byte) (found loop.Inspection, again bool) {
	failed := loop.Inspection{Observed: event.ObservedError}
	var view []byte
	res := a.http.Do(ctx, httpwire.Request{
		Method: method, URL: where.String(), Header: a.header("application/json"), Body: body,
	}, func([]byte) error { return nil }, func(b []byte) bool {
		view = append(view, b...)
		return false
	})
	switch {
	case res.Status == 0, res.Status >= 500, res.Status == http.StatusTooManyRequests, res.Status == http.StatusRequestTimeout:
		return failed, true
	case res.Status == http.StatusNotFound:
		if e, ok := readError(res.ErrorBody); ok && e.code() == codeNotFound {
			return loop.Inspection{Observed: event.ObservedMissing}, false
		}
		return failed, false
	case res.Status/100 != 2:
		return failed, false
	case res.End != httpwire.EndClean && res.End != httpwire.EndUnframed:
		return failed, res.End == httpwire.EndBroken || res.End == httpwire.EndTimeout
	}
	want := a.original(req)
	o, err := want.read(view)
	if err != nil {
		return failed, false
	}
	return o.inspection(want), false
}

// inspection is what the view of a look-up says.
func (o operation) inspection(want original) loop.Inspection {
	switch o.standing() {
	case pending:
		return loop.Inspection{Observed: event.ObservedPending}
	case expired:
		return loop.Inspection{Observed: event.ObservedExpired}
	}
	inner := chat.NewFold(want.profile, want.budget, nil)
	if o.Response != nil {
		inner.Write([]byte(*o.Response.Body))
	}
	return ended(o.outcome(inner))
}

// ended is the inspection of an original whose outcome this is: an uncertain
// one shows nothing.
func ended(outcome loop.Outcome) loop.Inspection {
	switch r := outcome.(type) {
	case loop.Completion:
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &r}
	case loop.Failure:
		return loop.Inspection{Observed: event.ObservedComplete, Failure: &r}
	}
	return loop.Inspection{Observed: event.ObservedError}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
