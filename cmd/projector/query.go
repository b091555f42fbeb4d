package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/projections"
	"github.com/loopd/loopd/projections/view"
)

// query asks for a row of a view, or without an id for the rows of a session,
// or without a session for those of all.
type query struct {
	View    view.Name `json:"-"` // the endpoint's name
	Session string    `json:"session,omitzero"`
	ID      string    `json:"id,omitzero"`
	AtLeast uint64    `json:"at_least,omitzero"` // wait until the views have folded this stream sequence
	WaitMS  int64     `json:"wait_ms,omitzero"`  // for how long; default 5000, at most 60 000
	Limit   int       `json:"limit,omitzero"`    // rows; default 100, at most 1000
}

// answer is true at Offset: everything up to it is in, nothing after it.
type answer struct {
	Offset uint64 `json:"offset"`
	Build  string `json:"build"`
	Rows   []row  `json:"rows"`          // one, none, or those of a list in order
	More   bool   `json:"more,omitzero"` // the list goes on
}

type row struct {
	Session string         `json:"session"`
	ID      string         `json:"id"`
	Row     jsontext.Value `json:"row"`
}

// The bounds of an answer.
const (
	maxRows        = 1000
	maxAnswerBytes = 512 << 10
	maxWait        = time.Minute
)

func (q query) withDefaults() (query, error) {
	if !slices.ContainsFunc(view.Versions(), func(v view.Version) bool { return v.View == q.View }) {
		return q, fmt.Errorf("no view is named %q; there are %v", q.View, view.Names())
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.WaitMS == 0 {
		q.WaitMS = 5000
	}
	if q.Limit < 0 || q.Limit > maxRows || q.WaitMS < 0 || q.WaitMS > maxWait.Milliseconds() {
		return q, fmt.Errorf("limit is %d and wait_ms %d; at most %d and %d", q.Limit, q.WaitMS, maxRows, maxWait.Milliseconds())
	}
	if q.View == view.ViewSession && q.Session == "" {
		q.Session = q.ID
	}
	return q, nil
}

// ask answers a query from a store as it is now.
func ask(ctx context.Context, store *projections.Store, q query) (a answer, err error) {
	now, err := store.Snapshot()
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	a.Offset, a.Rows = now.Offset(), []row{}
	if q.ID != "" && q.Session != "" {
		found, ok, err := now.Get(q.View, q.Session, q.ID)
		if err != nil || !ok {
			return a, err
		}
		b, err := view.Encode(found)
		a.Rows = append(a.Rows, row{q.Session, q.ID, b})
		return a, err
	}
	var sessions []string
	if q.Session != "" {
		sessions = append(sessions, q.Session)
	}
	size := 0
	for entry, err := range now.View(q.View, sessions...) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return a, err
		}
		if q.ID != "" && entry.Key.ID != q.ID {
			continue
		}
		size += len(entry.Row)
		if len(a.Rows) == q.Limit || size > maxAnswerBytes && len(a.Rows) > 0 {
			a.More = true
			break
		}
		a.Rows = append(a.Rows, row{entry.Key.Session, entry.Key.ID, entry.Row})
	}
	return a, nil
}
