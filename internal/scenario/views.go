package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/projections"
)

// views is the store of a play's projections: folded step by step while the
// host acts, so that a rebuild has something of another making to be compared
// with.
type views struct {
	store  *projections.Store
	builds int
}

// catchUp folds what the log has and the store has not.
func (v *views) catchUp(log []seen) error {
	if v.store == nil {
		store, err := projections.Open(v.next())
		if err != nil {
			return err
		}
		v.store = store
	}
	return v.store.ApplyBatch(records(log))
}

// next is where and how the next build is made: in memory, for it dies with
// the play.
func (v *views) next() (dir string, cfg projections.Config) {
	v.builds++
	return fmt.Sprintf("build-%d", v.builds), projections.Config{
		FS: projections.Memory(), Stream: projections.Stream{Name: "scenario", Created: epochStart},
		CacheBytes: 1 << 20, MemTableBytes: 1 << 20,
	}
}

func records(log []seen) []event.Record {
	out := make([]event.Record, 0, len(log))
	for _, e := range log {
		out = append(out, e.Record)
	}
	return out
}

// rebuild drops the store, folds the log from its beginning into a new one,
// and compares the two.
func (v *views) rebuild(ctx context.Context, log []seen) error {
	if err := v.catchUp(log); err != nil {
		return err
	}
	old := v.store
	dir, cfg := v.next()
	store, err := projections.Rebuild(ctx, feedOf(log), dir, cfg)
	if err != nil {
		return err
	}
	differences, err := projections.Compare(ctx, old, store, 3)
	v.store = store
	if err = errors.Join(err, old.Close()); err != nil {
		return err
	}
	if len(differences) > 0 {
		return fmt.Errorf("the rebuilt store differs from the one before: %v", differences)
	}
	return nil
}

func feedOf(log []seen) event.Feed {
	return func(yield func(event.Record, error) bool) {
		for _, e := range log {
			if !yield(e.Record, nil) {
				return
			}
		}
	}
}

func (v *views) close() error {
	if v.store == nil {
		return nil
	}
	return v.store.Close()
}

// catchUp keeps the store current while the host acts, if the file looks at it.
func (p *play) catchUp() error {
	if p.rough || !p.sc.viewed() {
		return nil
	}
	log, _, err := p.tail.events()
	if err != nil {
		return err
	}
	return p.views.catchUp(log)
}

// viewed reports whether the file looks at projections.
func (sc *Scenario) viewed() bool {
	for _, step := range sc.Host {
		if _, ok := step.Do.(Rebuild); ok {
			return true
		}
	}
	return len(sc.Projection) > 0
}

// rebuild carries out the host's step.
func (p *play) rebuild() error {
	if err := p.settle(); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	log, _, err := p.tail.events()
	if err != nil {
		return err
	}
	if err := p.views.rebuild(p.ctx, log); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	return nil
}

// checkRows holds the rows of the store against what the file expects.
func (p *play) checkRows(log []seen) []Failure {
	if len(p.sc.Projection) == 0 {
		return nil
	}
	if err := p.views.catchUp(log); err != nil {
		return []Failure{{Line: p.sc.Projection[0].Line, Msg: fmt.Sprintf("projection: %v", err)}}
	}
	var out []Failure
	for _, row := range p.sc.Projection {
		if wrong := p.checkRow(row); wrong != "" {
			out = append(out, Failure{Line: row.Line, Msg: fmt.Sprintf("projection %s: %s", row, wrong)})
		}
	}
	return out
}

func (p *play) checkRow(row Row) string {
	id, err := p.names.Resolve(row.ID)
	if err != nil {
		return err.Error()
	}
	fields, found, err := p.views.store.Lookup(row.Kind, p.session, fmt.Sprint(id))
	switch {
	case err != nil:
		return err.Error()
	case !found:
		return fmt.Sprintf("there is no %s %v", row.Kind, id)
	case !p.names.Match(row.Fields, fields):
		return join(differences(row.Pattern, seen{fields: fields}, p.names))
	}
	return ""
}
