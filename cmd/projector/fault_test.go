package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/loopd/loopd/projections"
)

// child is a projector in a process of its own.
type child struct {
	cmd   *exec.Cmd
	lines chan string // of standard error
	out   talk
}

func (p *place) start(verb ...string) *child {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	c := &child{cmd: exec.Command(self, p.args(verb...)...), lines: make(chan string, 10_000)}
	c.cmd.Env = append(os.Environ(), "PROJECTOR_TEST_CHILD=yes")
	c.cmd.Stdout = &c.out
	talked, err := c.cmd.StderrPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		scan := bufio.NewScanner(talked)
		for scan.Scan() {
			c.lines <- scan.Text()
		}
	}()
	p.t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// until reads what the child says until a line holds.
func (c *child) until(t *testing.T, holds func(string) bool) string {
	t.Helper()
	deadline := time.After(time.Minute)
	var all []string
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("the child ended: %s", strings.Join(all, "\n"))
			}
			if all = append(all, line); holds(line) {
				return line
			}
		case <-deadline:
			t.Fatalf("the child does not say it: %s", strings.Join(all, "\n"))
		}
	}
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
}

// kept is how many events a line of progress says are on disk, 0 in another.
func kept(line string) (n uint64) {
	if before, _, ok := strings.Cut(line, " kept,"); ok && strings.Contains(line, "fold b000002: ") {
		_, _ = fmt.Sscan(before[strings.LastIndexByte(before, ' ')+1:], &n)
	}
	return n
}

// A rebuild is killed twice while a projector serves and readers read; it goes
// on each time, a second one joins it, it verifies, and the server takes it up.
func TestRebuildIsKilledTwice(t *testing.T) {
	const events = 60_000
	p := newPlace(t)
	p.write(1, events)
	served := p.start("run")
	served.until(t, func(s string) bool { return strings.Contains(s, "serving build b000001") })

	ctx, cancel := context.WithCancel(t.Context())
	var reads, failed atomic.Int64
	readers := make(chan struct{})
	go func() {
		defer close(readers)
		p.readAtRate(ctx, 200, &reads, &failed)
	}()

	reached := uint64(0)
	for n := range 2 {
		c := p.start("rebuild", "--every", "5ms")
		if n > 0 {
			line := c.until(t, func(s string) bool { return strings.Contains(s, "going on with build b000002 at offset") })
			var offset uint64
			_, rest, _ := strings.Cut(line, "at offset ")
			if _, err := fmt.Sscan(rest, &offset); err != nil || offset < reached {
				t.Fatalf("%s; %d were kept", line, reached)
			}
		}
		reached = kept(c.until(t, func(s string) bool { return kept(s) > reached }))
		c.kill(t)
		if now, err := p.builds().Current(); err != nil || now.ID != "b000001" {
			t.Fatalf("it was over before it was killed: %+v, %v", now, err)
		}
	}
	last := p.start("rebuild", "--every", "5ms")
	last.until(t, func(s string) bool { return kept(s) > 0 })
	out, talked := p.run(exitHeld, "rebuild")
	requireText(t, talked, "another rebuild is at it")
	requireText(t, out, "build b000002 is served, at offset 60000: equal to the build served before")
	if err := last.cmd.Wait(); err != nil {
		t.Fatal(err, last.out.String())
	}
	p.eventually("the new build is served", func() bool { s := p.standing(exitHeld); return s.Running && s.Build == "b000002" })
	cancel()
	<-readers
	if reads.Load() == 0 || failed.Load() > 0 {
		t.Fatalf("%d reads, %d failed", reads.Load(), failed.Load())
	}
	p.run(exitHeld, "verify")
	served.kill(t)
	s := p.standing(exitHeld)
	if s.Running || s.Clean || s.Offset != events {
		t.Fatalf("after a kill: %+v", s)
	}
	p.run(exitHeld, "run", "--once")
}

// readAtRate asks for rows, so many a second.
func (p *place) readAtRate(ctx context.Context, rate int, reads, failed *atomic.Int64) {
	nc, err := nats.Connect(p.server.ClientURL())
	if err != nil {
		failed.Add(1)
		return
	}
	defer nc.Close()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for n := 1; ; n = n%1000 + 1 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		id := fmt.Sprintf("g1-%07d", n)
		reply, err := nc.Request("loop.api.projector.session", fmt.Appendf(nil, `{"session":%q,"id":%q}`, id, id), 10*time.Second)
		var a answer
		if err == nil {
			err = json.Unmarshal(reply.Data, &a)
		}
		if err != nil || len(a.Rows) != 1 {
			failed.Add(1)
		}
		reads.Add(1)
	}
}

// The projector that follows is killed again and again while events come: each
// is folded exactly once.
func TestRunIsKilled(t *testing.T) {
	p := newPlace(t)
	p.write(1, 500)
	for n := range uint64(3) {
		c := p.start("run")
		c.until(t, func(s string) bool { return strings.Contains(s, "serving build") })
		p.write(n+2, 700)
		p.eventually("some of it is folded", func() bool { return p.standing(exitHeld).Offset > 500+700*n })
		c.kill(t)
	}
	p.run(exitHeld, "run", "--once")
	out, _ := p.run(exitHeld, "verify")
	requireText(t, out, "equal to the log at offset 2600")
}

func TestVerifyNamesTheRowThatWasChanged(t *testing.T) {
	p := newPlace(t)
	p.write(1, 2000)
	p.run(exitHeld, "run", "--once")
	db, err := pebble.Open(p.builds().StoreDir("b000001"), &pebble.Options{FormatMajorVersion: pebble.FormatTableFormatV6})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("rinput\x00\x01g1-0000003\x00\x01in-1\x00\x01")
	value, closer, err := db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(value), `"kind":"user"`, `"kind":"uses"`, 1))
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Set(key, changed, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, talked := p.run(exitNotHeld, "verify")
	requireText(t, talked, `row input "in-1" of session "g1-0000003" differs`, `"kind":"uses"`)
	out, _ := p.run(exitNotHeld, "verify", "--json")
	requireText(t, out, `"equal":false`, `"id":"in-1"`, `"session":"g1-0000003"`)

	// The rebuild finds the served build wrong, not itself.
	out, talked = p.run(exitHeld, "rebuild")
	requireText(t, talked, "the served build differs")
	requireText(t, out, "equal to a second fold of the log")
	p.run(exitHeld, "verify")
}

func TestADamagedBuildIsNotServed(t *testing.T) {
	p := newPlace(t)
	p.write(1, 3000)
	p.run(exitHeld, "run", "--once")
	tables, err := filepath.Glob(filepath.Join(p.builds().StoreDir("b000001"), "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		f, err := os.OpenFile(table, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(8) {
			if _, err := f.WriteAt([]byte{0xA5, 0x5A}, 64+512*i); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, talked := p.run(exitNotHeld, "verify")
	requireText(t, talked, "damaged")
	out, _ := p.run(exitHeld, "rebuild")
	requireText(t, out, "build b000002 is served", "equal to a second fold of the log")
	if _, err := p.builds().Find("b000001"); err != nil {
		t.Fatalf("the damaged build is gone: %v", err)
	}
	p.run(exitHeld, "verify")
}

// A stream that was created again under its name is another log: the build of
// the old one is kept, and not served.
func TestARecreatedStream(t *testing.T) {
	p := newPlace(t)
	p.write(1, 400)
	_, talked := p.serve(p.store)
	if err := p.js.DeleteStream(t.Context(), streamName); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.write(2, 600)
	p.eventually("the new log is served", func() bool {
		s, err := p.tryStanding()
		return err == nil && s.Running && s.Offset == 600
	})
	requireText(t, talked.String(), "stays as it is and is not served")
	p.run(exitHeld, "get", "session", "g2-0000001")
	p.run(exitNotHeld, "get", "session", "g1-0000001")
	if old, err := p.builds().Find("b000001"); err != nil || old.State != projections.BuildReady {
		t.Fatal(old, err)
	}
	p.run(exitHeld, "verify")
}

// tryStanding is status without a wish for its exit status.
func (p *place) tryStanding() (s standing, err error) {
	var out talk
	if got := run(p.t.Context(), p.args("status", "--json"), strings.NewReader(""), &out, io.Discard); got == exitUnasked {
		return s, fmt.Errorf("exit status %d", got)
	}
	return s, json.Unmarshal([]byte(out.String()), &s)
}

// Views that are ahead of a log that lost its end are rebuilt.
func TestViewsAheadOfTheLog(t *testing.T) {
	p := newPlace(t)
	p.write(1, 300)
	p.run(exitHeld, "run", "--once")
	build, err := p.builds().Current()
	if err != nil {
		t.Fatal(err)
	}
	store, err := p.builds().Open(build, projections.Stream{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Skip(projections.Hole{From: 301, To: 310}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if s := p.standing(exitNotHeld); !strings.Contains(s.Trouble, "it lost its end") {
		t.Fatalf("%+v", s)
	}
	_, talked := p.run(exitHeld, "run", "--once")
	requireText(t, talked, "stays as it is and is not served", "the log ends at 300")
	if s := p.standing(exitHeld); s.Build != "b000002" || s.Offset != 300 {
		t.Fatalf("%+v", s)
	}
}
