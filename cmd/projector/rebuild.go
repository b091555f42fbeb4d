package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/projections"
)

const rebuildHelp = `Rebuild folds the log into a new build of the views, beside the one that is
served, verifies it, and switches to it by one pointer write. A projector run
that serves the directory goes on meanwhile, and takes the new build up.

It goes on where a rebuild that was killed stopped. A second rebuild of one
directory joins the first: it shows its progress, and takes over if it dies.

It is verified against the served build where that can be read, folded to the
same offset; where that cannot, or where rows differ, against a second fold of
the log. What fails stays beside and is not switched to. It writes to the
directory of the views only.`

// rebuilding is what the flags of rebuild say.
type rebuilding struct {
	snapshot string
	keep     int
	noVerify bool
	asJSON   bool
	every    time.Duration
}

func newRebuild(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Build the views anew beside the served ones, verify, switch (writes views)", Long: rebuildHelp,
		Args: usage(cobra.NoArgs),
		Example: `  projector rebuild --data ./loopd-data
  projector rebuild --nats nats://logs:4222 --store /var/lib/views --from-snapshot /backup/views --json`,
	}
	w := storeFlags(cmd)
	var o rebuilding
	cmd.Flags().StringVar(&o.snapshot, "from-snapshot", "", "begin with the snapshot in `DIR`, not with the first event")
	cmd.Flags().IntVar(&o.keep, "keep", 2, "old builds to keep, for rollback")
	cmd.Flags().BoolVar(&o.noVerify, "no-verify", false, "switch without a proof")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "progress and result as JSON lines")
	cmd.Flags().DurationVar(&o.every, "every", 2*time.Second, "time between lines of progress, and between flushes that a kill cannot take back")
	nice := cmd.Flags().Int("nice", 10, "lower the priority by `N`, 0 to 19, so that reads of what is served hardly notice")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.every < time.Millisecond:
			return fmt.Errorf("--every is %v; want 1ms or more", o.every)
		case o.keep < 0:
			return fmt.Errorf("--keep is %d; want 0 or more", o.keep)
		case *nice < 0 || *nice > 19:
			return fmt.Errorf("--nice is %d; want 0 to 19", *nice)
		}
		if err := yieldTo(*nice); err != nil {
			return err
		}
		collectLess()
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		build, err := v.rebuild(cmd.Context(), o)
		if err != nil {
			return err
		}
		if o.asJSON {
			return e.printJSON(build)
		}
		return e.print("build %s is served, at offset %d: %s", build.ID, build.Offset, proofOf(build))
	}
	return cmd
}

func proofOf(b projections.Build) string {
	if b.Proof == "" {
		return "not verified"
	}
	return b.Proof
}

// views are an open log and the directory of its views.
type views struct {
	env    env
	src    *source
	builds *projections.Builds
}

// views opens the log, and names the directory of the views.
func (w *where) views(ctx context.Context, e env) (*views, error) {
	dir, err := w.store()
	if err != nil {
		return nil, err
	}
	src, err := w.open(ctx, e)
	if err != nil {
		return nil, err
	}
	cfg := projections.Config{Logger: e.logger(), Fatal: func(err error) {
		e.say("projector: %v", err)
		os.Exit(exitUnasked)
	}}
	return &views{e, src, projections.NewBuilds(dir, cfg)}, nil
}

func (v *views) close() { v.src.close() }

// rebuild makes a new build and switches to it, or joins the process that is
// at it.
func (v *views) rebuild(ctx context.Context, o rebuilding) (projections.Build, error) {
	m := newMeter(v.env, v.builds.Dir(), o.asJSON)
	m.every = o.every
	lock, joined, err := v.join(ctx, m)
	if err != nil {
		return projections.Build{}, err
	}
	defer func() { _ = lock.Close() }() // the kernel frees it at the latest
	if now, err := v.builds.Current(); err == nil && joined != "" && now.ID == joined {
		return now, nil
	}
	build, store, resumed, err := v.builds.Begin(v.src.stream, o.snapshot)
	if err != nil {
		return build, err
	}
	if resumed {
		v.env.say("projector: going on with build %s at offset %d", build.ID, store.Offset())
	}
	proof, err := v.make(ctx, build, store, o, m)
	if err != nil {
		return build, errors.Join(err, store.Close())
	}
	if err := v.builds.Ready(build, store, proof); err != nil {
		return build, err
	}
	if err := v.builds.Switch(build.ID); err != nil {
		return build, err
	}
	p := m.now()
	p.Phase, p.Offset, p.Target, p.Share, p.Left = "done", store.Offset(), store.Offset(), 1, 0
	m.leave(p)
	if _, err := v.builds.Prune(o.keep); err != nil {
		v.env.say("projector: old builds stay: %v", err)
	}
	return v.builds.Find(build.ID)
}

// join takes the rebuild's lock, or shows the progress of who has it until it
// is free. joined is the build that it waited for.
func (v *views) join(ctx context.Context, m *meter) (lock io.Closer, joined string, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last progress
	for {
		lock, err = v.builds.Hold(projections.RoleRebuild)
		var used *projections.InUseError
		if !errors.As(err, &used) {
			return lock, joined, err
		}
		if p, err := readProgress(v.builds.Dir()); err == nil && p != last {
			if joined == "" {
				v.env.say("projector: another rebuild is at it, process %d; joining it", p.Process)
			}
			joined, last = p.Build, p
			m.tell(p)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, joined, ctx.Err()
		}
	}
}

// make folds a build to the head, and proves it.
func (v *views) make(ctx context.Context, build projections.Build, store *projections.Store, o rebuilding, m *meter) (string, error) {
	head, err := v.src.checkAhead(ctx, store)
	if err != nil {
		return "", err
	}
	m.start(build.ID, "fold", head, store.Offset)
	stop := v.flushing(store, m)
	err = v.src.fold(ctx, store, head)
	stop()
	m.stop()
	if err != nil || o.noVerify {
		return "", err
	}
	proof, why, err := v.proveByServed(ctx, store)
	if err != nil || proof != "" {
		return proof, err
	}
	v.env.say("projector: verifying by a second fold of the log: %s", why)
	second, done, err := v.secondFold(ctx, build.ID, store.Offset(), m)
	if err != nil {
		return "", err
	}
	defer done()
	found, err := projections.Prove(ctx, store, second, maxShown)
	if err != nil {
		return "", err
	}
	if !found.Equal() {
		v.showDifferences(found.Differences, "build "+build.ID, "second fold")
		return "", notHeld("build %s is not equal to a second fold of the log at offset %d; it is not served", build.ID, store.Offset())
	}
	return fmt.Sprintf("equal to a second fold of the log: %d rows, %s", found.A.Rows, found.A.Hash), nil
}

// flushing flushes a store at intervals, until stop: a kill takes back no more.
func (v *views) flushing(store *projections.Store, m *meter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause(ctx, m.every) == nil {
			at := store.Offset()
			if err := store.Flush(); err != nil {
				v.env.say("projector: flush: %v", err)
				continue
			}
			m.kept.Store(at)
		}
	}()
	return func() { cancel(); <-ended }
}

// proveByServed holds a new build against a copy of the served one, both at
// the same offset. No proof = why it must be sought elsewhere.
func (v *views) proveByServed(ctx context.Context, store *projections.Store) (proof, why string, err error) {
	copied, done, err := v.copyOfServed(ctx, store.Offset())
	if err != nil {
		return "", err.Error(), ctx.Err()
	}
	defer done()
	to := max(copied.Offset(), store.Offset())
	if err := v.src.fold(ctx, store, to); err != nil {
		return "", "", err
	}
	if err := v.src.fold(ctx, copied, to); err != nil {
		return "", "the served build: " + err.Error(), ctx.Err()
	}
	found, err := projections.Prove(ctx, store, copied, maxShown)
	switch {
	case err != nil:
		return "", "the served build: " + err.Error(), ctx.Err()
	case !found.Equal():
		v.showDifferences(found.Differences, "new build", "served build")
		return "", "the served build differs", nil
	}
	return fmt.Sprintf("equal to the build served before: %d rows, %s", found.A.Rows, found.A.Hash), "", nil
}

// secondFold folds the log to an offset in a store of its own, in other
// batches; done removes it.
func (v *views) secondFold(ctx context.Context, name string, to uint64, m *meter) (second *projections.Store, done func(), err error) {
	dir, err := os.MkdirTemp(v.builds.Dir(), "fold-")
	if err != nil {
		return nil, nil, fmt.Errorf("second fold: %w", err)
	}
	second, err = projections.Open(filepath.Join(dir, "db"), projections.Config{
		Stream: v.src.stream, NoWAL: true, BatchRecords: 331, Logger: v.env.logger(),
	})
	if err == nil {
		m.start(name, "verify", to, second.Offset)
		err = v.src.fold(ctx, second, to)
		m.stop()
		if err != nil {
			err = errors.Join(err, second.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return second, func() { _ = second.Close(); _ = os.RemoveAll(dir) }, nil
}

// maxShown is how many rows that differ are shown.
const maxShown = 5

func (v *views) showDifferences(rows []projections.Difference, a, b string) {
	for _, d := range rows {
		v.env.say("projector: row %s differs\n  %s: %s\n  %s: %s", d.Key, a, orNoRow(d.A), b, orNoRow(d.B))
	}
}

func orNoRow(row []byte) string {
	if row == nil {
		return "no row"
	}
	return string(row)
}
