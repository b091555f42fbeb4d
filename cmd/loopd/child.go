package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// child is a loopd process that this one started. It ends with us: its
// standard input does.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	gone  chan struct{} // closed when the process has ended
	said  *talk
}

// startChild runs our own program with other arguments, until it says that it
// serves.
func startChild(ctx context.Context, env []string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	c := &child{gone: make(chan struct{}), said: newTalk()}
	c.cmd = &exec.Cmd{Path: self, Args: append([]string{"loopd"}, args...), Env: append(os.Environ(), env...), Stderr: c.said}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", self, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", self, err)
	}
	go func() {
		defer close(c.gone)
		_ = c.cmd.Wait() // it is killed, or told to end: its status says nothing
	}()
	if err := c.says(ctx, "loopd: serving on"); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// says waits until the process has said a text.
func (c *child) says(ctx context.Context, text string) error {
	for {
		all, more := c.said.read()
		if strings.Contains(all, text) {
			return nil
		}
		select {
		case <-more:
		case <-c.gone:
			if all, _ := c.said.read(); !strings.Contains(all, text) {
				return fmt.Errorf("the process ended: %s", c.talk())
			}
		case <-ctx.Done():
			return fmt.Errorf("the process did not say %q: %w: %s", text, ctx.Err(), c.talk())
		}
	}
}

// talk is what it said.
func (c *child) talk() string {
	all, _ := c.said.read()
	return strings.TrimSpace(all)
}

// kill ends it with SIGKILL, and returns when it is gone.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", c.cmd.Process.Pid, err)
	}
	<-c.gone
	return nil
}

// stop ends it, and returns when it is gone.
func (c *child) stop() {
	_ = c.stdin.Close()
	select {
	case <-c.gone:
	case <-time.After(5 * time.Second):
		_ = c.kill()
	}
}

// talk keeps what a process says.
type talk struct {
	mu   sync.Mutex
	all  []byte
	more chan struct{} // closed and renewed with each write
}

// maxTalk bounds what is kept.
const maxTalk = 64 << 10

func newTalk() *talk { return &talk{more: make(chan struct{})} }

func (t *talk) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxTalk - len(t.all); room > 0 {
		t.all = append(t.all, b[:min(room, len(b))]...)
	}
	close(t.more)
	t.more = make(chan struct{})
	return len(b), nil
}

// read is what was said so far; the channel closes when there is more.
func (t *talk) read() (all string, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.all), t.more
}
