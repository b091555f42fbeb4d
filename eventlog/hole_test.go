package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

// TestHoleInTheInboxIsTold: an acknowledged input that is gone is not passed
// over in silence.
func TestHoleInTheInboxIsTold(t *testing.T) {
	for name, gone := range map[string]uint64{"a hole": 2, "none": 0} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, natsembed.Config{})
			var told bytes.Buffer // written by the watch alone, read after its end
			l := h.log(t, func(c *eventlog.Config) { c.Logger = slog.New(slog.NewTextHandler(&told, nil)) })
			ctx := logtest.Context(t)
			for _, id := range []string{"i1", "i2", "i3"} {
				if err := l.Submit(ctx, "s", id, []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			if gone > 0 {
				if err := h.rawStream(t, "LOOP_INBOX").DeleteMsg(ctx, gone); err != nil {
					t.Fatal(err)
				}
			}
			watch, stop := context.WithCancel(ctx)
			defer stop()
			err := l.WatchInputs(watch, func(_ string, seq uint64) {
				if seq == 3 {
					stop()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if hole := strings.Contains(told.String(), "from=2 to=2"); hole != (gone == 2) {
				t.Errorf("told: %q", told.String())
			}
		})
	}
}
