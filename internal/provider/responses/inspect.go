package responses

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
)

// Inspect cannot look anything up: the protocol finds a response by nothing
// but the id that it told. See InspectSaved.
func (a *Adapter) Inspect(context.Context, loop.Request) loop.Inspection {
	return loop.Inspection{Observed: event.ObservedUnsupported}
}

// InspectSaved looks the original up, read-only, by the id in what was saved
// of it. Of an operation that was steered that is the last response.
//
//	nothing was stored, no id came             unsupported
//	completed, incomplete, failed, cancelled   complete
//	incomplete because it was steered          unsupported: its successor's id never came
//	queued, in_progress                        pending
//	404, also after MissingFor                 missing
//	anything else, another one's response      error
func (a *Adapter) InspectSaved(ctx context.Context, req loop.Request, saved []byte) loop.Inspection {
	id := savedID(saved)
	if !a.cfg.Store || id == "" {
		return loop.Inspection{Observed: event.ObservedUnsupported}
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.InspectTimeout)
	defer cancel()
	missing := loop.Inspection{Observed: event.ObservedMissing}
	wait := min(time.Second, max(a.cfg.MissingFor/8, time.Millisecond))
	for left := a.cfg.MissingFor; ; left -= wait {
		found := a.lookUp(ctx, req, id)
		if found.Observed != event.ObservedMissing || left <= 0 {
			return found
		}
		if pause(ctx, wait) != nil {
			return missing
		}
	}
}

func (a *Adapter) lookUp(ctx context.Context, req loop.Request, id string) loop.Inspection {
	failed := loop.Inspection{Observed: event.ObservedError}
	var body []byte
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodGet, URL: a.response(id).String(), Header: a.header("application/json"),
	}, func([]byte) error { return nil }, func(b []byte) bool {
		body = append(body, b...)
		return false
	})
	switch {
	case res.Status == http.StatusNotFound:
		return loop.Inspection{Observed: event.ObservedMissing}
	case res.Status/100 != 2 || res.End != httpwire.EndClean && res.End != httpwire.EndUnframed:
		return failed
	}
	var r responseObject
	if json.Unmarshal(body, &r) != nil || r.Object != "response" || r.ID != id || !ours(r, req.OperationID) {
		return failed
	}
	switch {
	case r.Status == statusQueued || r.Status == statusInProgress:
		return loop.Inspection{Observed: event.ObservedPending}
	case r.Status == statusIncomplete && r.Incomplete.Reason == reasonSteered:
		return loop.Inspection{Observed: event.ObservedUnsupported}
	}
	fold := NewFold(a.profile, req.OutputBudget, nil)
	fold.Write(body)
	switch o := fold.End(httpwire.EndClean).(type) {
	case loop.Completion:
		return loop.Inspection{Observed: event.ObservedComplete, Completion: &o}
	case loop.Failure:
		return loop.Inspection{Observed: event.ObservedComplete, Failure: &o}
	}
	return failed
}

// ours reports whether a response's metadata, if it has ours, names this
// operation.
func ours(r responseObject, operationID string) bool {
	var metadata map[string]string
	if empty(r.Metadata) || json.Unmarshal(r.Metadata, &metadata) != nil {
		return true
	}
	op, has := metadata[operationKey]
	return !has || op == operationID
}

// savedID is the id of the last response whose beginning was saved: as events
// of a stream, as messages of a WebSocket or as one response; "" = none.
func savedID(saved []byte) string {
	id := ""
	look := func(data []byte) {
		var e eventObject
		var r responseObject
		switch {
		case json.Unmarshal(data, &e) == nil && e.Type == "response.created" && json.Unmarshal(e.Response, &r) == nil,
			json.Unmarshal(data, &r) == nil && r.Object == "response":
			if r.ID != "" {
				id = r.ID
			}
		}
	}
	if trimmed := bytes.TrimLeft(saved, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		var parser sse.Parser
		_ = parser.Write(saved, func(e sse.Event) { look(e.Data) }) // what is too long is no beginning
		if tail, ok := parser.Tail(); ok {
			look(tail.Data)
		}
		return id
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(saved), jsontext.AllowDuplicateNames(true))
	for {
		v, err := decoder.ReadValue()
		if err != nil {
			return id
		}
		look(v)
	}
}
