package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/provider/recorded"
)

// The test program is loopd when it is called by that name: scripts and the
// demo run it as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"loopd": func() { os.Exit(mainStatus()) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("OPENAI_API_KEY", "")
			env.Values[daemonKey{}] = new(*child)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "model": startModel, "daemon": startDaemon, "terminate": terminate, "busy": busy, "bare": bare,
		},
	})
}

// status N ARGS... runs loopd and wants that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: status N ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec("loopd", args[1:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("loopd %s: exit status %d, want %d\n%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stderr"))
	}
}

// model TEXT... starts a model server that gives these answers in turn, and
// sets $MODEL.
func startModel(ts *testscript.TestScript, _ bool, texts []string) {
	var answers []recorded.Answer
	for _, text := range texts {
		answers = append(answers, recorded.Compose("chatcmpl-1", "m", text))
	}
	s := recorded.New(recorded.Config{Answers: answers})
	web := httptest.NewServer(s)
	ts.Defer(web.Close)
	ts.Defer(s.Close)
	ts.Setenv("MODEL", web.URL+"/v1")
}

// daemonKey is where a script keeps its running daemon.
type daemonKey struct{}

// daemon ARGS... starts loopd serve at a free port, and sets $URL.
func startDaemon(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	ts.Defer(cancel)
	args = append([]string{"serve", "--until-stdin-ends", "--listen", "127.0.0.1:0"}, args...)
	for i, a := range args {
		if i > 0 && (args[i-1] == "--data" || args[i-1] == "--config") {
			args[i] = ts.MkAbs(a)
		}
	}
	c, err := startChild(ctx, []string{"OPENAI_API_KEY=", "SECRET=" + ts.Getenv("SECRET")}, args...)
	ts.Check(err)
	ts.Defer(c.stop)
	*ts.Value(daemonKey{}).(**child) = c
	_, rest, _ := strings.Cut(c.talk(), "serving on ")
	url, _, _ := strings.Cut(rest, ",")
	ts.Setenv("URL", url)
}

// terminate ends the script's daemon with SIGTERM, and wants exit status 0.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	c := *ts.Value(daemonKey{}).(**child)
	ts.Check(c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-c.gone:
	case <-time.After(20 * time.Second):
		ts.Fatalf("the daemon does not end: %s", c.talk())
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(c.talk(), "loopd: stopped") {
		ts.Fatalf("the daemon ended with status %d: %s", code, c.talk())
	}
}

// busy sets $BUSY to an address at which somebody listens.
func busy(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("BUSY", l.Addr().String())
}

// bare [NAME SUBJECT] starts a NATS server without a log, with one foreign
// stream if named, and sets $URL.
func bare(ts *testscript.TestScript, _ bool, args []string) {
	server, err := natsembed.Start(natsembed.Config{Dir: ts.MkAbs("bare"), MaxStore: 16 << 20})
	ts.Check(err)
	ts.Defer(server.Shutdown)
	ts.Setenv("URL", server.ClientURL())
	if len(args) == 0 {
		return
	}
	nc, err := nats.Connect(server.ClientURL())
	ts.Check(err)
	ts.Defer(nc.Close)
	js, err := jetstream.New(nc)
	ts.Check(err)
	_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{Name: args[0], Subjects: args[1:], AllowRollup: true})
	ts.Check(err)
}

// repository is the root of the checkout.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal(fmt.Errorf("no go.mod above this test: %w", err))
	return ""
}
