package eventlog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

// childDir, in the environment, makes this test binary a process that appends
// to a log in that directory until it is killed.
const childDir = "EVENTLOG_TEST_CHILD_DIR"

const childSessions = 4

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child says "session event-id" on stdout for each append that was
// acknowledged.
func child(dir string) error {
	s, err := natsembed.Start(natsembed.Config{Dir: dir})
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := eventlog.Open(ctx, eventlog.Config{URL: s.ClientURL(), InProcess: s, Created: s.Sync})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var out sync.Mutex
	for i := range childSessions {
		wg.Go(func() {
			t := &testing.T{} // only asked for Helper: no event of ours fails to encode
			session := fmt.Sprint("s", i)
			c, w := logtest.NewChain(session), l.Writer(session, 0)
			for {
				e := c.Next(t, "x")
				if _, err := w.Append(ctx, e); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				out.Lock()
				fmt.Println(session, e.ID)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.New("all writers stopped")
}

// TestKill kills a process that embeds the server in the middle of its appends:
// each acknowledged one is there, and the sessions go on.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[string][]string{}
	lines := bufio.NewScanner(stdout)
	for n := 0; lines.Scan(); n++ {
		session, id, ok := strings.Cut(lines.Text(), " ")
		if !ok || len(id) != 26 {
			break // the last line may be cut off
		}
		acked[session] = append(acked[session], id)
		switch n {
		case 1000:
			var locked *natsembed.LockedError
			if _, err := natsembed.Start(natsembed.Config{Dir: dir}); !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprint(cmd.Process.Pid)) {
				t.Errorf("a second server on the directory: %v, want a LockedError that names process %d", err, cmd.Process.Pid)
			}
		case 2000:
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended by itself: %v", err)
	}
	if len(acked) != childSessions {
		t.Fatalf("%d sessions were acknowledged", len(acked))
	}
	l := startHost(t, natsembed.Config{Dir: dir}).log(t, nil)
	for session, ids := range acked {
		there := logtest.Verify(t, l, session)
		if len(there) < len(ids) || len(there) > len(ids)+50 {
			t.Errorf("%s: %d events, %d acknowledged", session, len(there), len(ids))
			continue
		}
		for i, id := range ids {
			if there[i].ID != id {
				t.Errorf("%s: event %d is %s, acknowledged was %s", session, i, there[i].ID, id)
			}
		}
	}
}
