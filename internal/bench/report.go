package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
)

// row is one line of the table: the medians of both sides, and of the ratios
// of the rounds.
type row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Ours   float64   `json:"ours"`
	Plain  float64   `json:"plain"`
	Ratio  float64   `json:"ratio"`
	Ratios []float64 `json:"ratios"` // of each round
	Goal   float64   `json:"goal"`
	AtMost bool      `json:"at_most"` // the ratio should be at most Goal, else at least
	Held   bool      `json:"held"`
	Events int       `json:"events"` // of a round and a side
	Bytes  int       `json:"bytes"`  // of an event, mean
}

// report is what a run says.
type report struct {
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	CPUs      int    `json:"cpus"`
	Rounds    int    `json:"rounds"`
	Rows      []row  `json:"rows"`
}

func newReport(o options) *report {
	return &report{
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Rounds: o.rounds,
	}
}

func (r *report) save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func (r *report) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s, %s, %d CPUs, %d rounds\n", r.GoVersion, r.Platform, r.CPUs, r.Rounds)
	fmt.Fprintln(table, "work\tours\tplain\tunit\tratio\trange\tgoal\t")
	for _, row := range r.Rows {
		goal, held := fmt.Sprintf("≥ %.2f", row.Goal), "held"
		if row.AtMost {
			goal = fmt.Sprintf("≤ %.2f", row.Goal)
		}
		if !row.Held {
			held = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%s\t%.2f\t%.2f–%.2f\t%s\t%s\n", row.Name, row.Ours, row.Plain, row.Unit,
			row.Ratio, slices.Min(row.Ratios), slices.Max(row.Ratios), goal, held)
	}
	return table.Flush()
}
