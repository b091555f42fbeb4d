package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/projections"
	"github.com/loopd/loopd/projections/view"
)

const statusHelp = `Status says how far the served build is, and how far the log: offset, head, lag,
who serves it, the views, the events that could not be folded, holes, builds, and
a rebuild that runs. It only reads.

Exit status 1: there are no views, they cannot be served, they stand still behind
the log (--stalled-after), or they lag by more than --max-lag.`

// standing is where the views of a directory stand.
type standing struct {
	Stream  projections.Stream   `json:"stream"`
	Running bool                 `json:"running"` // a projector run serves them
	Build   string               `json:"build,omitzero"`
	Offset  uint64               `json:"offset"`
	Head    uint64               `json:"head"`
	Lag     uint64               `json:"lag"`
	Rate    float64              `json:"rate"`    // events folded a second, while status looked
	IdleMS  int64                `json:"idle_ms"` // since the last batch, while running
	Clean   bool                 `json:"clean"`   // its last writer had ended in order
	Views   []view.Version       `json:"views,omitzero"`
	Parked  uint64               `json:"parked"`                  // events that could not be folded
	Missing uint64               `json:"missing"`                 // sequences in proven holes
	Reasons []projections.Parked `json:"parked_events,omitempty"` // the first ones
	Holes   []projections.Hole   `json:"holes,omitempty"`         // the first ones
	Builds  []projections.Build  `json:"builds"`
	Rebuild *progress            `json:"rebuild,omitzero"`
	Trouble string               `json:"trouble,omitzero"` // why the exit status is 1
}

// maxListed bounds the parked events and the holes that status lists.
const maxListed = 20

func newStatus(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Say how far the views are, and the log (only reads)", Long: statusHelp,
		Args: usage(cobra.NoArgs),
	}
	w := storeFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "one JSON object")
	maxLag := cmd.Flags().Uint64("max-lag", 0, "events the views may lag behind the log (0 = any)")
	stalled := cmd.Flags().Duration("stalled-after", 10*time.Second, "how long the views may stand still while they lag")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		now, err := v.standing(cmd.Context())
		if err != nil {
			return err
		}
		now.judge(*maxLag, *stalled)
		if *asJSON {
			err = e.printJSON(now)
		} else {
			err = e.print("%s", now)
		}
		if err == nil && now.Trouble != "" {
			err = notHeld("%s", now.Trouble)
		}
		return err
	}
	return cmd
}

func (s *standing) judge(maxLag uint64, stalled time.Duration) {
	switch {
	case s.Trouble != "":
	case s.Lag > 0 && !s.Running && s.Rebuild == nil:
		s.Trouble = fmt.Sprintf("stalled: nobody folds, and the views lag by %d events; start projector run", s.Lag)
	case s.Lag > 0 && s.Running && s.IdleMS > stalled.Milliseconds():
		s.Trouble = fmt.Sprintf("stalled: nothing was folded for %s, and the views lag by %d events", time.Duration(s.IdleMS)*time.Millisecond, s.Lag)
	case maxLag > 0 && s.Lag > maxLag:
		s.Trouble = fmt.Sprintf("the views lag by %d events, more than %d", s.Lag, maxLag)
	}
}

func (s standing) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	who := "nobody serves it"
	if s.Running {
		who = "served"
	}
	line("stream   %s", s.Stream)
	line("build    %s, %s", s.Build, who)
	line("offset   %d of %d, lag %d, %.0f events a second", s.Offset, s.Head, s.Lag, s.Rate)
	line("parked   %d events that could not be folded", s.Parked)
	for _, p := range s.Reasons {
		line("         %d %s: %s", p.StreamSeq, p.Subject, p.Reason)
	}
	line("missing  %d sequences in proven holes", s.Missing)
	for _, h := range s.Holes {
		line("         %d to %d: %s", h.From, h.To, h.Proof)
	}
	for _, x := range s.Builds {
		line("have     %s %s, from %s, %s", x.ID, x.State, x.From, proofOf(x))
	}
	if s.Rebuild != nil {
		line("rebuild  %s", s.Rebuild)
	}
	var names []string
	for _, v := range s.Views {
		names = append(names, fmt.Sprintf("%s %d", v.View, v.Version))
	}
	line("views    %s", strings.Join(names, ", "))
	return strings.TrimSuffix(b.String(), "\n")
}

// standing asks who serves the directory, or looks at it itself.
func (v *views) standing(ctx context.Context) (standing, error) {
	now, err := v.ofInstance(ctx)
	if errors.Is(err, errNobodyServes) {
		now, err = v.ofDirectory(ctx)
	}
	if err != nil {
		return now, err
	}
	now.Stream = v.src.stream
	if now.Builds, err = v.builds.List(); err != nil {
		return now, err
	}
	lock, err := v.builds.Hold(projections.RoleRebuild)
	var used *projections.InUseError
	if errors.As(err, &used) {
		if p, err := readProgress(v.builds.Dir()); err == nil {
			now.Rebuild = &p
		}
	} else if err == nil {
		_ = lock.Close()
	}
	return now, nil
}

// ofInstance asks twice, for the rate.
func (v *views) ofInstance(ctx context.Context) (now standing, err error) {
	ask := func() (s standing, err error) {
		b, err := v.callInstance(ctx, "status", nil)
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		return s, err
	}
	first, err := ask()
	if err != nil {
		return first, err
	}
	begun := time.Now()
	if err := pause(ctx, 250*time.Millisecond); err != nil {
		return first, err
	}
	if now, err = ask(); err == nil && now.Offset > first.Offset {
		now.Rate = float64(now.Offset-first.Offset) / time.Since(begun).Seconds()
	}
	return now, err
}

func (v *views) ofDirectory(ctx context.Context) (standing, error) {
	var now standing
	head, err := v.src.log.Head(ctx)
	if err != nil {
		return now, err
	}
	now.Head, now.Lag = head, head
	build, err := v.builds.Current()
	if errors.Is(err, projections.ErrNoBuild) {
		now.Trouble = "there are no views; projector run makes them"
		return now, nil
	}
	var store *projections.Store
	if err == nil {
		now.Build = build.ID
		store, err = v.builds.Open(build, v.src.stream, func(c *projections.Config) { c.ReadOnly = true })
	}
	if err != nil {
		now.Trouble = "the build cannot be served: " + err.Error()
		return now, nil
	}
	return now, errors.Join(now.of(store, head), store.Close())
}

// status is what the keeper tells of itself.
func (k *keeper) status(ctx context.Context) (standing, error) {
	head, err := k.src.log.Head(ctx)
	if err != nil {
		return standing{}, err
	}
	k.mu.RLock()
	idle := time.Since(k.advanced)
	k.mu.RUnlock()
	now := standing{Running: true, IdleMS: idle.Milliseconds()}
	err = k.use(func(store *projections.Store, build projections.Build) error {
		now.Build = build.ID
		return now.of(store, head)
	})
	return now, err
}

// of fills in what a store tells.
func (s *standing) of(store *projections.Store, head uint64) error {
	now, err := store.Snapshot()
	if err != nil {
		return err
	}
	s.Clean, s.Views = store.Clean(), store.Versions()
	s.Offset, s.Head, s.Lag = now.Offset(), head, 0
	if s.Offset > head {
		s.Trouble = (&aheadError{s.Offset, head}).Error() + "; projector run rebuilds"
	} else {
		s.Lag = head - s.Offset
	}
	s.Parked, s.Missing = now.ParkedCount(), now.Missing()
	var parkedErr, holesErr error
	s.Reasons, parkedErr = now.Parked()
	s.Reasons = s.Reasons[:min(len(s.Reasons), maxListed)]
	s.Holes, holesErr = now.Holes(maxListed)
	return errors.Join(parkedErr, holesErr, now.Close())
}
