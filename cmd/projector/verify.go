package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/projections"
)

const verifyHelp = `Verify proves the served build equal to the log: it folds the log once more, in
a store of its own, to the offset of the served build, and compares hashes of
ranges of the ordered rows; where these differ it shows the first rows that do.
With --against it compares with the store in DIR (a snapshot, or a build's db
directory) instead, folded to the same offset.

It only reads, but for a directory beside the builds that it removes again. A
projector run that serves the build goes on meanwhile. Exit status 1: they
differ, or the build is damaged.`

// verdict is what verify found.
type verdict struct {
	Equal       bool               `json:"equal"`
	Build       string             `json:"build"`
	Against     string             `json:"against"`
	Served      projections.Digest `json:"served"`
	Other       projections.Digest `json:"other"`
	Differences []difference       `json:"differences"`
}

type difference struct {
	View    string `json:"view"`
	Session string `json:"session"`
	ID      string `json:"id"`
	Served  string `json:"served"` // the row, "" = none
	Other   string `json:"other"`
}

func newVerify(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Short: "Prove the served build equal to the log (only reads)", Long: verifyHelp,
		Args: usage(cobra.NoArgs),
	}
	w := storeFlags(cmd)
	against := cmd.Flags().String("against", "", "compare with the store in `DIR`, not with the log")
	asJSON := cmd.Flags().Bool("json", false, "one JSON object, with the hashes of all ranges")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v, err := w.views(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer v.close()
		found, err := v.verify(cmd.Context(), *against)
		if errors.Is(err, projections.ErrCorrupt) {
			return notHeld("the build is damaged: %w", err)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			err = e.printJSON(found)
		} else if found.Equal {
			err = e.print("build %s is equal to %s at offset %d: %d rows in %d ranges, %s",
				found.Build, found.Against, found.Served.Offset, found.Served.Rows, len(found.Served.Ranges), found.Served.Hash)
		}
		if err == nil && !found.Equal {
			err = notHeld("build %s differs from %s at offset %d; projector rebuild makes a new one", found.Build, found.Against, found.Served.Offset)
		}
		return err
	}
	return cmd
}

func (v *views) verify(ctx context.Context, against string) (verdict, error) {
	build, err := v.builds.Current()
	if err != nil {
		return verdict{}, fmt.Errorf("%w; projector run makes one", err)
	}
	served, done, err := v.copyOfServed(ctx, 0)
	if err != nil {
		return verdict{}, err
	}
	defer done()
	out := verdict{Build: build.ID, Against: "the log"}
	var other *projections.Store
	if against == "" {
		m := newMeter(v.env, v.builds.Dir(), false)
		m.quiet = true
		var remove func()
		if other, remove, err = v.secondFold(ctx, build.ID, served.Offset(), m); err != nil {
			return out, err
		}
		defer remove()
	} else {
		out.Against = against
		var remove func()
		if other, remove, err = v.copyOf(against); err != nil {
			return out, err
		}
		defer remove()
		to := max(served.Offset(), other.Offset())
		if err := errors.Join(v.src.fold(ctx, served, to), v.src.fold(ctx, other, to)); err != nil {
			return out, err
		}
	}
	proof, err := projections.Prove(ctx, served, other, maxShown)
	if err != nil {
		return out, err
	}
	v.showDifferences(proof.Differences, "build "+build.ID, out.Against)
	out.Equal, out.Served, out.Other, out.Differences = proof.Equal(), proof.A, proof.B, []difference{}
	for _, d := range proof.Differences {
		out.Differences = append(out.Differences, difference{string(d.Key.View), d.Key.Session, d.Key.ID, string(d.A), string(d.B)})
	}
	return out, nil
}

// copyOf opens a store somewhere else, by a copy: that one stays as it is, and
// nobody folds into it meanwhile.
func (v *views) copyOf(dir string) (store *projections.Store, done func(), err error) {
	there, err := projections.Open(dir, projections.Config{Stream: v.src.stream, ReadOnly: true, Logger: v.env.logger()})
	if err != nil {
		return nil, nil, err
	}
	parent, err := os.MkdirTemp(v.builds.Dir(), "copy-")
	if err == nil {
		err = os.CopyFS(filepath.Join(parent, "db"), os.DirFS(dir))
	}
	if err = errors.Join(err, there.Close()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("copy of %s: %w", dir, err), os.RemoveAll(parent))
	}
	return v.openCopy(filepath.Join(parent, "db"))
}
