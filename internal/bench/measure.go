package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// oneSession: the appends of one session, one after another, against plain
// publishes one after another. The figure of a round is the median time of an
// append.
func oneSession(ctx context.Context, g *ground, o options) (row, error) {
	r := row{Name: "append, one session", Unit: "µs, median", Goal: 1.6, AtMost: true}
	err := rounds(o.rounds, &r, func(ours bool) (float64, error) {
		steps, sides, err := g.players(ours, 1, o.turns)
		if err != nil {
			return 0, err
		}
		times := make([]time.Duration, 0, len(steps[0]))
		for _, st := range steps[0] {
			start := time.Now()
			if err := sides[0].append(ctx, st); err != nil {
				return 0, err
			}
			times = append(times, time.Since(start))
		}
		r.Events, r.Bytes = len(steps[0]), meanBytes(steps[0])
		return float64(median(times).Nanoseconds()) / 1000, nil
	})
	return r, err
}

// manySessions: as many sessions side by side, each one event after another,
// against as many plain publishers. The figure of a round is the rate of all
// together.
func manySessions(ctx context.Context, g *ground, o options) (row, error) {
	r := row{Name: fmt.Sprintf("append, %d sessions", o.sessions), Unit: "events/s", Goal: 0.85}
	err := rounds(o.rounds, &r, func(ours bool) (float64, error) {
		steps, sides, err := g.players(ours, o.sessions, o.turns)
		if err != nil {
			return 0, err
		}
		var wg sync.WaitGroup
		failures := make([]error, o.sessions)
		start := time.Now()
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
		took := time.Since(start)
		r.Events, r.Bytes = o.sessions*len(steps[0]), meanBytes(steps[0])
		return float64(r.Events) / took.Seconds(), errors.Join(failures...)
	})
	return r, err
}

// players are n new sessions of one side, and their scripts.
func (g *ground) players(ours bool, n, turns int) (steps [][]step, sides []side, err error) {
	for range n {
		id := g.name()
		s, err := script(id, turns)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, s)
		if ours {
			sides = append(sides, g.fenced(id))
		} else {
			sides = append(sides, g.plain(id))
		}
	}
	return steps, sides, nil
}

// rounds lets the sides take turns. The first round warms up and does not
// count.
func rounds(n int, r *row, play func(ours bool) (float64, error)) error {
	var all [2][]float64
	for i := range n + 1 {
		var got [2]float64
		for turn := range 2 {
			side := (turn + i) % 2
			var err error
			if got[side], err = play(side == 0); err != nil {
				return err
			}
		}
		if i > 0 {
			all[0], all[1] = append(all[0], got[0]), append(all[1], got[1])
			r.Ratios = append(r.Ratios, got[0]/got[1])
		}
	}
	r.Ours, r.Plain, r.Ratio = median(all[0]), median(all[1]), median(r.Ratios)
	r.Held = r.Ratio >= r.Goal
	if r.AtMost {
		r.Held = r.Ratio <= r.Goal
	}
	return nil
}

func median[N float64 | time.Duration](numbers []N) N {
	sorted := slices.Sorted(slices.Values(numbers))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
