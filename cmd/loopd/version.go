package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
)

func versionCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Say which loopd this is (only reads)",
		Long: "Version says which loopd this is, and which version of the event envelope it writes. It only reads.",
		Args: usage(cobra.NoArgs),
	}
	asJSON := cmd.Flags().Bool("json", false, "one JSON object")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := struct {
			Version  string `json:"version"`
			Revision string `json:"revision,omitzero"`
			Envelope int    `json:"envelope"`
			Go       string `json:"go"`
		}{"(devel)", "", event.Version, runtime.Version()}
		if info, ok := debug.ReadBuildInfo(); ok {
			if info.Main.Version != "" {
				v.Version = info.Main.Version
			}
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v.Revision = s.Value
				}
			}
		}
		if *asJSON {
			b, err := json.Marshal(v)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(io.out, "%s\n", b)
			return err
		}
		_, err := fmt.Fprintf(io.out, "loopd %s, envelope version %d, %s\n", v.Version, v.Envelope, v.Go)
		return err
	}
	return cmd
}
