package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/internal/provider/recorded"
)

const demoHelp = `Demo shows in a few seconds what loopd promises, on this machine alone: no key, no
network, nothing to install.

It runs the NATS server in this process, a model server on loopback that plays an
answer in the recorded wire format of Chat Completions, chunk by chunk (the answer
is our own; --recording FILE plays a real one), and the owner as a process of its
own. A host sends a message and corrects it while the answer streams. Then the owner
is killed with SIGKILL in the middle of another answer, and a new one goes on from
the log: it looks the original up and does not ask again.

Exit status 1: something that was promised did not hold. It writes a log of its own.`

func demoCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Show it: steer a running request, kill the owner, go on (no key, no network)", Long: demoHelp,
		Args:    usage(cobra.NoArgs),
		Example: "  loopd demo\n  loopd demo --keep ./demo-data",
	}
	keep := cmd.Flags().String("keep", "", "keep the log in `DIR` (default a directory under the system's for temporary files)")
	recording := cmd.Flags().String("recording", "", "play the streamed Chat Completions answer in `FILE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
		defer cancel()
		answers, err := demoAnswers(*recording)
		if err != nil {
			return err
		}
		dir, err := demoDir(*keep)
		if err != nil {
			return err
		}
		s, err := openStage(ctx, dir, answers, io)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		defer s.close()
		return s.show(ctx)
	}
	return cmd
}

// demoAnswers are an answer, its correction, and a second one, of our own
// making in the documented wire shape; or a recording for all three.
func demoAnswers(file string) ([]recorded.Answer, error) {
	if file == "" {
		return []recorded.Answer{
			recorded.Compose("chatcmpl-demo-1", "demo", "Tonight ", "the ", "color ", "of ", "the ", "harbor ", "lights ", "changes ", "to ", "green."),
			recorded.Compose("chatcmpl-demo-2", "demo", "Tonight ", "the ", "colour ", "of ", "the ", "harbour ", "lights ", "changes ", "to ", "green."),
			recorded.Compose("chatcmpl-demo-3", "demo", "Skippers, ", "mind ", "the ", "new ", "colour: ", "green ", "means ", "harbour ", "from ", "tonight."),
		}, nil
	}
	a, err := recorded.Load(file)
	if err != nil {
		return nil, fmt.Errorf("demo: --recording: %w", err)
	}
	if a.Finish() != "stop" {
		return nil, fmt.Errorf("demo: --recording %s: its finish reason is %q; the demo needs an answer that ends with stop", file, a.Finish())
	}
	return []recorded.Answer{a}, nil
}

func demoDir(keep string) (string, error) {
	if keep == "" {
		dir, err := os.MkdirTemp("", "loopd-demo-")
		if err != nil {
			return "", fmt.Errorf("demo: %w", err)
		}
		return dir, nil
	}
	entries, err := os.ReadDir(keep)
	switch {
	case err != nil && !os.IsNotExist(err):
		return "", fmt.Errorf("demo: --keep: %w", err)
	case len(entries) > 0:
		return "", fmt.Errorf("demo: --keep %s: the directory is not empty; the demo begins a log of its own: name another one", keep)
	}
	return keep, nil
}
