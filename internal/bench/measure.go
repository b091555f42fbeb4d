package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The sides, as indexes.
const (
	ours = iota
	theirs
)

// pair is a figure of both sides.
type pair [2]float64

// oneSession: the appends of one session, one after another, against plain
// publishes one after another. The sides take turns at every event. The figure
// of a round is the median time of an append.
func oneSession(ctx context.Context, g *ground, o options) (row, error) {
	r := row{Name: "append, one session", Unit: "µs, median", Goal: 1.6, AtMost: true}
	err := r.rounds(o.rounds, func(first int) (pair, error) {
		id := g.name()
		steps, err := script(id, o.turns)
		if err != nil {
			return pair{}, err
		}
		sides := [2]side{ours: g.fenced(id), theirs: g.plain(id)}
		var times [2][]float64
		for i, st := range steps {
			for turn := range 2 {
				at := (first + i + turn) % 2
				start := time.Now()
				if err := sides[at].append(ctx, st); err != nil {
					return pair{}, err
				}
				times[at] = append(times[at], float64(time.Since(start).Nanoseconds())/1000)
			}
		}
		r.Events, r.Bytes = len(steps), meanBytes(steps)
		return pair{median(times[ours]), median(times[theirs])}, nil
	})
	return r, err
}

// manySessions: as many sessions side by side, each one event after another,
// against as many plain publishers. The figure of a round is the rate of all
// together.
func manySessions(ctx context.Context, g *ground, o options) (row, error) {
	r := row{Name: fmt.Sprintf("append, %d sessions", o.sessions), Unit: "events/s", Goal: 0.85}
	err := r.rounds(o.rounds, func(first int) (got pair, err error) {
		ids, steps := make([]string, o.sessions), make([][]step, o.sessions)
		for i := range ids {
			ids[i] = g.name()
			if steps[i], err = script(ids[i], o.turns); err != nil {
				return got, err
			}
		}
		begin := [2]func(string) side{ours: g.fenced, theirs: g.plain}
		for turn := range 2 {
			at := (first + turn) % 2
			sides := make([]side, o.sessions)
			for i := range sides {
				sides[i] = begin[at](ids[i])
			}
			took, err := together(ctx, sides, steps)
			if err != nil {
				return got, err
			}
			got[at] = float64(o.sessions*len(steps[0])) / took.Seconds()
		}
		r.Events, r.Bytes = o.sessions*len(steps[0]), meanBytes(steps[0])
		return got, nil
	})
	return r, err
}

// together lets every side append its own steps, and waits for all.
func together(ctx context.Context, sides []side, steps [][]step) (time.Duration, error) {
	failures := make([]error, len(sides))
	start := time.Now()
	var wg sync.WaitGroup
	for i := range sides {
		wg.Go(func() {
			for _, st := range steps[i] {
				if failures[i] = sides[i].append(ctx, st); failures[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), errors.Join(failures...)
}

// rounds plays n rounds, each side first in every second one, and takes the
// medians. A round before them warms up and does not count.
func (r *row) rounds(n int, play func(first int) (pair, error)) error {
	var all [2][]float64
	for i := range n + 1 {
		got, err := play(i % 2)
		if err != nil {
			return err
		}
		if i > 0 {
			all[ours], all[theirs] = append(all[ours], got[ours]), append(all[theirs], got[theirs])
			r.Ratios = append(r.Ratios, got[ours]/got[theirs])
		}
	}
	r.Ours, r.Plain, r.Ratio = median(all[ours]), median(all[theirs]), median(r.Ratios)
	r.Held = r.Ratio >= r.Goal
	if r.AtMost {
		r.Held = r.Ratio <= r.Goal
	}
	return nil
}

func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
