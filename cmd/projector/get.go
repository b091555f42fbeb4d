package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/projections"
	"github.com/loopd/loopd/projections/view"
)

const getHelp = `Get prints rows of a view: one by its id, or without an id those of a session
(--session), or of all. Every answer says the offset at which it is true; with
--at-least it waits until the views have folded that sequence of the stream.

It asks the projector that serves the directory (--store, --data), else any that
serves the log (--nats), else reads the directory itself. It only reads.

Ids are looked up in the session that --session names; without it every session
is searched, which takes long where there are many. Exit status 1: there is no
such row, or the views did not get there in time.`

func newGet(e env) *cobra.Command {
	var q query
	cmd := &cobra.Command{
		Use: "get VIEW [ID]", Short: "Print rows of a view (only reads)", Long: getHelp,
		Args: usage(cobra.RangeArgs(1, 2)),
		Example: `  projector get session s1 --data ./loopd-data
  projector get input i-17 --session s1 --at-least 1234 --nats nats://logs:4222
  projector get wait --session s1 --data ./loopd-data`,
	}
	w := storeFlags(cmd)
	cmd.Flags().StringVar(&q.Session, "session", "", "rows of session `ID` alone")
	cmd.Flags().Uint64Var(&q.AtLeast, "at-least", 0, "wait until the views have folded this `SEQ` of the stream")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "most rows of a list")
	wait := cmd.Flags().Duration("wait", 0, "how long --at-least waits (default 5s)")
	asJSON := cmd.Flags().Bool("json", false, "the answer as one JSON object, with its offset")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		q.View, q.WaitMS = view.Name(args[0]), wait.Milliseconds()
		if len(args) == 2 {
			q.ID = args[1]
		}
		if q, err = q.withDefaults(); err != nil {
			return err
		}
		a, err := w.ask(cmd.Context(), e, q)
		if err != nil {
			return err
		}
		if *asJSON {
			err = e.printJSON(a)
		} else {
			e.say("projector: true at offset %d", a.Offset)
			for _, r := range a.Rows {
				err = errors.Join(err, e.print("%s", r.Row))
			}
		}
		if err == nil && len(a.Rows) == 0 && q.ID != "" {
			err = notHeld("no %s %q at offset %d", q.View, q.ID, a.Offset)
		}
		return err
	}
	return cmd
}

// ask takes the nearest way to the views.
func (w *where) ask(ctx context.Context, e env, q query) (answer, error) {
	src, err := w.open(ctx, e)
	if err != nil {
		return answer{}, err
	}
	defer src.close()
	request, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	var a answer
	dir, noStore := w.store()
	v := &views{e, src, projections.NewBuilds(dir, projections.Config{Logger: e.logger()})}
	var b []byte
	if noStore == nil {
		b, err = v.callInstance(ctx, string(q.View), request)
	} else {
		b, err = src.call(ctx, "projector."+string(q.View), request)
	}
	switch {
	case errors.Is(err, errNobodyServes) && noStore == nil:
		return v.askHere(ctx, q)
	case err != nil && strings.Contains(err.Error(), "did not reach"):
		return a, notHeld("%w", err)
	case err == nil:
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// askHere reads the served build itself: nobody folds on.
func (v *views) askHere(ctx context.Context, q query) (a answer, err error) {
	build, err := v.builds.Current()
	if err != nil {
		return a, fmt.Errorf("%w; projector run makes one", err)
	}
	store, err := v.builds.Open(build, v.src.stream, func(c *projections.Config) { c.ReadOnly = true })
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if store.Offset() < q.AtLeast {
		return a, notHeld("the views are at %d, not yet at %d, and nobody folds on; start projector run", store.Offset(), q.AtLeast)
	}
	a, err = ask(ctx, store, q)
	a.Build = build.ID
	return a, err
}
