package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopd/loopd/internal/provider/recorded"
)

// The demo keeps its promises for our own answer and, where they lie beside the
// repository, for recordings of real servers.
func TestDemoPlaysRecordings(t *testing.T) {
	root := repository(t)
	files, err := filepath.Glob(filepath.Join(root, "..", "shared", "fixtures", "*", "*.sse"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(root, "internal", "provider", "recorded", "testdata", "own.sse")
	for _, file := range append([]string{own}, files...) {
		a, err := recorded.Load(file)
		if errors.Is(err, recorded.ErrUnsuitable) || err == nil && a.Finish() != "stop" {
			continue // the demo refuses it: see the script
		} else if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			args := []string{"demo", "--recording", file, "--keep", filepath.Join(t.TempDir(), "kept")}
			if status := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); status != exitHeld {
				t.Errorf("exit status %d\n%s%s", status, stdout.String(), stderr.String())
			}
			if n := strings.Count(stdout.String(), "held   "); n != 6 {
				t.Errorf("%d promises held, want 6\n%s", n, stdout.String())
			}
		})
	}
}

// A promise that does not hold is told, and none at all is none kept.
func TestPromises(t *testing.T) {
	var out bytes.Buffer
	var p promises
	if p.tell(&out) {
		t.Error("no promise counts as kept")
	}
	p.add(true, "one")
	if !p.tell(&out) {
		t.Error("a kept promise does not count")
	}
	p.add(false, "two")
	if p.tell(&out) || !strings.Contains(out.String(), "BROKEN  two") {
		t.Errorf("a broken promise counts as kept: %s", out.String())
	}
}
