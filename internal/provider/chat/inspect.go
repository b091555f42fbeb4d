package chat

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// storeKey is the metadata under which a stored completion names its
// operation.
const storeKey = "op"

// Inspect looks the original up, read-only: by the operation id among the
// stored completions, where Config.Store is on. Anything but one completion of
// that very operation proves nothing.
func (a *Adapter) Inspect(ctx context.Context, req loop.Request) loop.Inspection {
	if !a.cfg.Store {
		return loop.Inspection{Observed: event.ObservedUnsupported}
	}
	where := *a.endpoint
	query := where.Query()
	query.Set("metadata["+storeKey+"]", req.OperationID)
	query.Set("limit", "2")
	where.RawQuery = query.Encode()
	var body []byte
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodGet, URL: where.String(), Header: a.header("application/json"),
	}, func([]byte) error { return nil }, func(b []byte) bool {
		body = append(body, b...)
		return false
	})
	if res.Status/100 != 2 || res.End != httpwire.EndClean && res.End != httpwire.EndUnframed {
		return loop.Inspection{Observed: event.ObservedError}
	}
	return a.stored(body, req)
}

// stored reads a list of stored completions.
func (a *Adapter) stored(body []byte, req loop.Request) loop.Inspection {
	var list struct {
		Object string           `json:"object"`
		Data   []jsontext.Value `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || list.Object != "list" || list.Data == nil {
		return loop.Inspection{Observed: event.ObservedError}
	}
	if len(list.Data) == 0 {
		return loop.Inspection{Observed: event.ObservedMissing}
	}
	var item struct {
		Metadata map[string]string `json:"metadata"`
	}
	if len(list.Data) > 1 || json.Unmarshal(list.Data[0], &item) != nil || item.Metadata[storeKey] != req.OperationID {
		return loop.Inspection{Observed: event.ObservedError} // the filter did not hold
	}
	fold := NewFold(a.profile, req.OutputBudget, nil)
	fold.Write(list.Data[0])
	switch o := fold.End(httpwire.EndClean).(type) {
	case loop.Completion:
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &o}
	case loop.Failure:
		return loop.Inspection{Observed: event.ObservedComplete, Failure: &o}
	}
	return loop.Inspection{Observed: event.ObservedError}
}
