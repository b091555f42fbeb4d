package responses

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// stream is Generate over HTTP.
func (a *Adapter) stream(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	body, err := a.cfg.body(a.profile, req)
	if err != nil {
		return notBuilt(err)
	}
	fold := NewFold(a.profile, req.OutputBudget, out)
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodPost, URL: a.endpoint.String(), Header: a.header("text/event-stream"), Body: body,
	}, out.Raw, take(fold))
	if res.Status/100 != 2 {
		return res.Outcome(refusal(res.ErrorBody))
	}
	if a.cfg.Background {
		res = a.readOn(ctx, fold, res, out)
	}
	return explain(fold.End(res.End), res)
}

func take(fold *Fold) func([]byte) bool {
	return func(b []byte) bool {
		fold.Write(b)
		return fold.Done()
	}
}

// readOn reads a background response's stream on where it broke off, as often
// as the settings allow. It asks for nothing but what there is already.
func (a *Adapter) readOn(ctx context.Context, fold *Fold, res httpwire.Result, out loop.Stream) httpwire.Result {
	wait := a.cfg.ResumeWait
	for n := 0; n < a.cfg.Resumes; n++ {
		id, after := fold.place()
		if fold.Done() || fold.answer.gap || id == "" || !broke(res.End) || pause(ctx, wait) != nil {
			break
		}
		wait *= 2
		fold.Resume()
		where := a.response(id)
		where.RawQuery = with(where.Query(), "stream", "true", "starting_after", strconv.FormatInt(after, 10))
		next := a.http.Do(ctx, httpwire.Request{
			Method: http.MethodGet, URL: where.String(), Header: a.header("text/event-stream"),
		}, out.Raw, take(fold))
		if next.Status/100 != 2 {
			fold.Count(next.ErrorBody)
		}
		if next.Status/100 == 2 || next.End == httpwire.EndJournal || ctx.Err() != nil {
			res = next
		}
		if next.Status/100 == 4 {
			break // there is nothing to read, and there will not be
		}
	}
	return res
}

// broke reports whether a stream may have more to say elsewhere.
func broke(end httpwire.End) bool {
	switch end {
	case httpwire.EndClean, httpwire.EndUnframed, httpwire.EndBroken, httpwire.EndTimeout:
		return true
	}
	return false
}

// place is where a stream stands: its response and the last event's number.
func (f *Fold) place() (id string, after int64) {
	if f.form == formJSON {
		f.whole()
	}
	return f.answer.id, max(f.answer.last, 0)
}

// response is the address of a response.
func (a *Adapter) response(id string) *url.URL {
	return a.endpoint.JoinPath(url.PathEscape(id))
}

func with(query url.Values, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return query.Encode()
}

// pause waits, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain adds to an outcome what only the exchange knows.
func explain(outcome loop.Outcome, res httpwire.Result) loop.Outcome {
	switch o := outcome.(type) {
	case loop.Uncertain:
		if res.Err != nil {
			o.Detail += ": " + res.Err.Error()
		}
		if evidence := httpwire.Evidence(res.Header); evidence != "" {
			o.Detail += ": " + evidence
		}
		return o
	case loop.Failure:
		if o.HTTPStatus == 0 {
			o.HTTPStatus = res.Status
		}
		return o
	}
	return outcome
}
