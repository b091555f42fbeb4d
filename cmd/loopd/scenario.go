package main

import (
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/internal/scenario"
)

const scenarioHelp = `Run plays scenario files and checks what they expect: a host that acts, a
scripted provider and scripted tools that answer, crashes where the file wants
them, on a real log of its own. It touches no other log.

Exit status: 0 all held; 1 a step, an expectation or a rule did not hold, each
named on standard error with the file's line; 2 a file cannot be read.`

func scenarioCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "scenario", Short: "Rehearse a host against a provider that behaves badly",
		Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	run := &cobra.Command{
		Use: "run FILE...", Short: "Play scenario files and check them (writes a log of its own)", Long: scenarioHelp,
		Args:    usage(cobra.MinimumNArgs(1)),
		Example: "  loopd scenario run steering.yaml\n  loopd scenario run --every-crash *.yaml",
	}
	jsonl := run.Flags().Bool("jsonl", false, "write every event of the log to standard output, a line each")
	every := run.Flags().Bool("every-crash", false, "play again with a crash at each append")
	keep := run.Flags().String("keep", "", "keep the server's data in `DIR`")
	run.RunE = func(cmd *cobra.Command, files []string) error {
		o := scenario.Options{EveryCrash: *every, KeepDir: *keep}
		if *jsonl {
			o.Jsonl = io.out
		}
		if status := scenario.Main(cmd.Context(), files, o, io.out, io.err); status != exitHeld {
			return &statusError{status: status}
		}
		return nil
	}
	cmd.AddCommand(run)
	return cmd
}
