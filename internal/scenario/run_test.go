package scenario

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestScenariosHold(t *testing.T) {
	for _, file := range append(ours(t), shared(t)...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			sc, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			report, err := Run(t.Context(), sc, Options{Log: testLog()})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Failures {
				t.Error(f.in(file))
			}
		})
	}
}

func testLog() *slog.Logger {
	if os.Getenv("SCENARIO_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestEveryCrashHolds(t *testing.T) {
	for _, file := range append(ours(t), shared(t)...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			sc, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			report, err := Run(t.Context(), sc, Options{Log: testLog(), EveryCrash: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Failures {
				t.Error(f.in(file))
			}
			t.Logf("%d crashes", report.Crashes)
		})
	}
}
