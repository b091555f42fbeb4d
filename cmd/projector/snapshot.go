package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/projections"
)

func newSnapshot(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot DIR", Short: "Copy the served build, with its offset, for fast starts elsewhere (only reads)",
		Long: `Snapshot writes the served build, as it is at one offset, to DIR, which must not
exist. Copy it to another machine; there projector restore DIR, or projector
rebuild --from-snapshot DIR, go on from its offset. A projector run that serves
the build goes on meanwhile. It only reads the views and the log.`,
		Args: usage(cobra.ExactArgs(1)),
	}
	w := storeFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		offset, err := v.snapshot(cmd.Context(), args[0])
		switch {
		case err != nil:
			return err
		case *asJSON:
			return e.printJSON(map[string]any{"dir": args[0], "offset": offset, "stream": v.src.stream})
		}
		return e.print("%s has the views at offset %d of %s", args[0], offset, v.src.stream)
	}
	return cmd
}

// snapshot opens the copy once, so that what is handed on is known to open.
func (v *views) snapshot(ctx context.Context, to string) (uint64, error) {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("snapshot: %s exists; name a new directory: %w", to, errors.Join(fs.ErrExist, err))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, fmt.Errorf("snapshot: %w", err)
	}
	copied, done, err := v.copyOfServed(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer done()
	return copied.Checkpoint(to)
}

func newRestore(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore DIR", Short: "Serve a snapshot, and go on from its offset (writes views)",
		Long: `Restore makes a build of the snapshot in DIR and switches to it. The snapshot must
be of this very log and of the views of this program. projector run folds what
came since. It writes to the directory of the views only.`,
		Args: usage(cobra.ExactArgs(1)),
	}
	w := storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		lock, err := v.builds.Hold(projections.RoleRebuild)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }() // the kernel frees it at the latest
		build, err := v.builds.Restore(v.src.stream, args[0])
		if err != nil {
			return err
		}
		if err := v.builds.Switch(build.ID); err != nil {
			return err
		}
		return e.print("build %s is served, from %s, at offset %d", build.ID, args[0], build.Offset)
	}
	return cmd
}

func newRollback(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollback", Short: "Serve the build before the served one again (writes views)",
		Long: `Rollback switches to the newest build before the served one that was kept (see
rebuild --keep), by one pointer write. Whoever serves the directory takes it up
and folds what came since. It writes to the directory of the views only.`,
		Args: usage(cobra.NoArgs),
	}
	w := storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := w.store() // the log is not asked
		if err != nil {
			return err
		}
		builds := projections.NewBuilds(dir, projections.Config{})
		lock, err := builds.Hold(projections.RoleRebuild)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }() // the kernel frees it at the latest
		build, err := builds.Rollback()
		if errors.Is(err, projections.ErrNoBuild) {
			return notHeld("%w", err)
		}
		if err != nil {
			return err
		}
		return e.print("build %s is served, at offset %d when it was made", build.ID, build.Offset)
	}
	return cmd
}
