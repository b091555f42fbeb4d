package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// The help of serve is the manual of the file: it names every key.
func TestHelpNamesEveryKey(t *testing.T) {
	for _, path := range keys(reflect.TypeFor[config](), "") {
		name := path[strings.LastIndexByte(path, '.')+1:]
		if !strings.Contains(serveHelp, name) {
			t.Errorf("the help does not name %s", path)
		}
	}
}

// The defaults that loopd shows are those that the loop has.
func TestDefaultsAreThoseOfTheLoop(t *testing.T) {
	got, err := defaultConfig().loop()
	if err != nil {
		t.Fatal(err)
	}
	bounds := loop.DefaultBounds()
	want := loop.Config{
		Steering: event.SteeringModeRequest, Bounds: &bounds,
		Limits:   loop.Limits{Limits: event.Limits{Text: 16_000}, Pending: 128},
		Timeouts: loop.Timeouts{Steer: 30 * time.Second, Operation: 120 * time.Second, Inspect: 30 * time.Second, Tool: 10 * time.Minute},
		Window:   loop.Window{Share: 0.8},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Whichever of the two places a flag names wins over the one in the file.
func TestFlagsWinOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	read := func(text string, args ...string) config {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{}
		f := addFlags(cmd, connection, serving)
		if err := cmd.ParseFlags(append([]string{"--config", file}, args...)); err != nil {
			t.Fatal(err)
		}
		c, err := f.config()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := read("nats: {url: nats://file}", "--data", "d"); c.NATS.URL != "" || c.Data != "d" || !c.dataSet {
		t.Errorf("--data over a server: %+v", c)
	}
	if c := read("data: file", "--nats", "nats://flag"); c.NATS.URL != "nats://flag" || c.dataSet {
		t.Errorf("--nats over a directory: %+v", c)
	}
	if c := read("data: file\ngrace: 5s", "--grace", "7s"); !c.dataSet || c.Data != "file" || c.Grace != duration(7*time.Second) {
		t.Errorf("a directory in the file: %+v", c)
	}
	if c := read("# nothing\n"); !reflect.DeepEqual(c, defaultConfig()) {
		t.Errorf("an empty file changes the defaults: %+v", c)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "4096": 4096, "7B": 7, "64KiB": 64 << 10, "10 GiB": 10 << 30, "2TiB": 2 << 40} {
		var s size
		if err := s.set(text); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1.5GiB", "10GB", "9999999999TiB"} {
		var s size
		if err := s.set(text); err == nil {
			t.Errorf("%q = %d, want an error", text, s)
		}
	}
}
