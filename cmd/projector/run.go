package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/projections"
)

const runHelp = `Run keeps the served build of the views current: it follows the log, folds each
event exactly once, and answers queries over NATS (see projector get). With
--once it stops at the head and answers nobody.

A build that cannot be served (damaged, of another stream, of other views, ahead
of a log that lost its end) is left as it is, and one is rebuilt beside it. A
build that a rebuild or a rollback switches to is taken up without a restart. It
writes to the directory of the views only.`

func newRun(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Follow the log, keep the views current, answer queries (writes views)", Long: runHelp,
		Args: usage(cobra.NoArgs),
		Example: `  projector run --data ./loopd-data
  projector run --nats nats://logs:4222 --store /var/lib/views --once`,
	}
	w := storeFlags(cmd)
	once := cmd.Flags().Bool("once", false, "fold to the head, and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		if v.src.own() && !*once {
			return fmt.Errorf("no daemon runs on %s: nothing would come; start loopd serve there, or use --once", w.data)
		}
		lock, err := v.builds.Hold(projections.RoleServe)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }() // the kernel frees it at the latest
		return v.keep(cmd.Context(), *once)
	}
	return cmd
}

// keeper keeps the served build current.
type keeper struct {
	*views

	mu       sync.RWMutex // write: the store is exchanged; read: it is in use
	store    *projections.Store
	build    projections.Build
	changed  chan struct{} // closed and made anew at each batch; guarded by mu
	advanced time.Time     // of the last batch; guarded by mu
}

// keep serves until ctx ends: for good, or once to the head.
func (v *views) keep(ctx context.Context, once bool) error {
	k := &keeper{views: v, changed: make(chan struct{}), advanced: time.Now()}
	defer k.end()
	if err := k.open(ctx); err != nil {
		return err
	}
	if once {
		head, err := v.src.log.Head(ctx)
		if err == nil {
			err = v.src.fold(ctx, k.store, head)
		}
		if err != nil {
			return err
		}
		return v.env.print("build %s is at offset %d, the head of the log", k.build.ID, k.store.Offset())
	}
	stop, err := k.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	v.env.say("projector: serving build %s of stream %s at offset %d", k.build.ID, v.src.stream.Name, k.store.Offset())
	for {
		err := k.follow(ctx)
		switch {
		case ctx.Err() != nil:
			v.env.say("projector: stopped at offset %d", k.store.Offset())
			return nil
		case err == nil:
		case errors.Is(err, eventlog.ErrNoStream):
			if waitErr := k.awaitStream(ctx, err); waitErr != nil {
				return waitErr
			}
		case k.refused(err):
			if err = k.renew(ctx, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// awaitStream waits a minute for a stream that was deleted: who restores or
// recreates one deletes it first. What comes then is judged as ever.
func (k *keeper) awaitStream(ctx context.Context, gone error) error {
	k.env.say("projector: %v; waiting for it", gone)
	for range 120 {
		if _, err := k.src.look(ctx, false); err == nil {
			return nil
		}
		if pause(ctx, 500*time.Millisecond) != nil {
			return nil // keep sees that it is over
		}
	}
	return gone
}

// refused reports whether an error says that the build cannot be served, and
// another one must be made.
func (k *keeper) refused(err error) bool {
	var (
		foreign   *projections.ForeignStreamError
		version   *projections.VersionError
		ahead     *aheadError
		recreated *recreatedError
	)
	return errors.As(err, &foreign) || errors.As(err, &version) || errors.As(err, &ahead) || errors.As(err, &recreated) ||
		errors.Is(err, projections.ErrCorrupt) || errors.Is(err, projections.ErrNoBuild)
}

// open opens the served build, or makes one where that cannot be served.
func (k *keeper) open(ctx context.Context) error {
	err := k.take(ctx)
	if err == nil {
		_, err = k.src.checkAhead(ctx, k.store)
	}
	if err != nil && k.refused(err) {
		return k.renew(ctx, err)
	}
	return err
}

// take opens the build that CURRENT names, and has it catch up with the one
// served until now, so that no answer goes back in time.
func (k *keeper) take(ctx context.Context) error {
	build, err := k.builds.Current()
	if err != nil {
		return err
	}
	store, err := k.openStore(ctx, build)
	if err != nil {
		return err
	}
	if k.store != nil {
		if err := k.src.fold(ctx, store, k.store.Offset()); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	k.exchange(store, build)
	return nil
}

// openStore waits a little for a rebuild that makes a copy.
func (k *keeper) openStore(ctx context.Context, build projections.Build) (*projections.Store, error) {
	for attempt := 0; ; attempt++ {
		store, err := k.builds.Open(build, k.src.stream)
		var used *projections.InUseError
		if !errors.As(err, &used) || attempt == 50 {
			return store, err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

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

func (k *keeper) exchange(store *projections.Store, build projections.Build) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store != nil {
		if err := k.store.Close(); err != nil {
			k.env.say("projector: build %s: %v", k.build.ID, err)
		}
	}
	k.store, k.build = store, build
	k.note()
}

// renew makes a build beside one that cannot be served, and takes it up.
func (k *keeper) renew(ctx context.Context, why error) error {
	if errors.Is(why, projections.ErrNoBuild) {
		k.env.say("projector: there are no views yet; building them")
	} else {
		k.env.say("projector: the served build stays as it is and is not served: %v", why)
	}
	k.end() // its answers were not true of this log
	if err := k.src.identify(ctx); err != nil {
		return err
	}
	if _, err := k.rebuild(ctx, rebuilding{keep: 2, noVerify: true, every: 2 * time.Second}); err != nil {
		return err
	}
	return k.take(ctx)
}

func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store == nil {
		return
	}
	if err := k.store.Close(); err != nil {
		k.env.say("projector: build %s: %v", k.build.ID, err)
	}
	k.store = nil
}

// note tells who waits that the offset has moved; the caller has mu.
func (k *keeper) note() {
	k.advanced = time.Now()
	close(k.changed)
	k.changed = make(chan struct{})
}

// errSwitched says that CURRENT names another build.
var errSwitched = errors.New("another build is to be served")

// follow folds what comes until ctx ends, another build is to be served (nil),
// or the log cannot go on. It is the only one that folds into the store.
func (k *keeper) follow(ctx context.Context) error {
	var recreated *recreatedError
	switch err := k.checkStream(ctx); {
	case errors.As(err, &recreated), errors.Is(err, eventlog.ErrNoStream):
		return err
	case err != nil: // a server that does not answer now
		k.env.say("projector: %v; trying again", err)
		_ = pause(ctx, time.Second) // its end shows at the next turn
		return nil
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go k.watch(watched, cancel)
	records := make(chan event.Record, 4096)
	folded := make(chan error, 1)
	go func() { folded <- k.foldAll(watched, cancel, records) }()
	err := k.src.log.Follow(watched, k.store.Offset()+1, func(rec event.Record) error {
		select {
		case records <- rec:
			return nil
		case <-watched.Done():
			return context.Cause(watched)
		}
	})
	close(records)
	if foldErr := <-folded; foldErr != nil {
		return foldErr
	}
	cause := context.Cause(watched)
	var gap *eventlog.GapError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(cause, errSwitched):
		return k.take(ctx)
	case cause != nil:
		return cause
	case errors.As(err, &gap):
		if err := k.src.skip(ctx, k.store, gap); err != nil {
			return err
		}
		k.mu.Lock()
		k.note()
		k.mu.Unlock()
		k.env.say("projector: nothing at sequences %d to %d: proven, skipped", gap.From, gap.To)
		return nil
	}
	return err
}

// foldAll folds what the reader brings, as much at once as is there.
func (k *keeper) foldAll(ctx context.Context, cancel context.CancelCauseFunc, records <-chan event.Record) error {
	batch := make([]event.Record, 0, cap(records))
	for rec := range records {
		batch = append(batch[:0], rec)
		for more := true; more && len(batch) < cap(batch); {
			select {
			case next, ok := <-records:
				if more = ok; ok {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		if err := k.store.ApplyBatch(batch); err != nil {
			cancel(err)
			return err
		}
		k.mu.Lock()
		k.note()
		k.mu.Unlock()
		clear(batch)
	}
	return nil
}

// watch ends a follow when CURRENT names another build, or the stream became
// another one under its name.
func (k *keeper) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for pause(ctx, 250*time.Millisecond) == nil {
		if now, err := k.builds.Current(); err == nil && now.ID != k.build.ID {
			cancel(errSwitched)
			return
		}
		var recreated *recreatedError
		if err := k.checkStream(ctx); errors.As(err, &recreated) {
			cancel(err)
			return
		}
	}
}

// checkStream asks whether the stream is still the one that the store folds.
// The client follows a name: it would read on in another stream.
func (k *keeper) checkStream(ctx context.Context) error {
	now, err := k.src.look(ctx, false)
	if err == nil && !now.Created.Equal(k.src.stream.Created) {
		err = &recreatedError{stream: k.src.stream.Name, was: k.src.stream.Created, is: now.Created}
	}
	return err
}

// use hands the served store to f, which the store outlives.
func (k *keeper) use(f func(*projections.Store, projections.Build) error) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.store == nil {
		return errors.New("the views are being rebuilt; ask again later, or see projector status")
	}
	return f(k.store, k.build)
}

// await returns when the views have folded a stream sequence.
func (k *keeper) await(ctx context.Context, seq uint64) error {
	for {
		k.mu.RLock()
		changed, at := k.changed, uint64(0)
		if k.store != nil {
			at = k.store.Offset()
		}
		k.mu.RUnlock()
		if at >= seq {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the views are at %d and did not reach %d in time", at, seq)
		}
	}
}
