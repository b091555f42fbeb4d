package main

import (
	"os"

	"github.com/spf13/cobra"
)

func newStatus(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Say how far the log goes (only reads)",
		Args: usage(cobra.NoArgs),
	}
	w := storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := w.store()
		if err != nil {
			return err
		}
		s, err := w.open(cmd.Context(), e)
		if err != nil {
			return err
		}
		defer s.close()
		if s.own() {
			e.say("projector: no daemon runs on the data directory")
		}
		head, err := s.log.Head(cmd.Context())
		if err != nil {
			return err
		}
		if _, err := os.Stat(dir); err != nil {
			return notHeld("no views in %s, the log has %d events; projector run makes them", dir, head)
		}
		return e.printJSON(map[string]any{"stream": s.stream, "head": head})
	}
	return cmd
}
