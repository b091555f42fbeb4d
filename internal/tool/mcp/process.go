package mcp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// process is a server that we started; as an sdk.Transport it is the pipes to
// it. It leads a process group of its own, so that its children end with it
// and a terminal's interrupt reaches us alone.
type process struct {
	cfg    Config
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	said   *speech
	exited chan struct{}
	once   sync.Once
}

// inherited is what a process gets of our environment.
var inherited = []string{
	"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
	"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
}

func startProcess(cfg Config) (*process, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	stdout, out, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p := &process{cfg: cfg, stdin: stdin, stdout: stdout, said: &speech{log: cfg.Logger}, exited: make(chan struct{})}
	p.cmd = exec.Command(cfg.Command, cfg.Args...)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = cfg.Dir, in, out, p.said, cfg.Grace
	p.cmd.Env = []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Env = append(p.cmd.Env, cfg.Env...)
	ownGroup(p.cmd)
	if err := p.cmd.Start(); err != nil {
		_, _ = stdin.Close(), stdout.Close()
		return nil, err
	}
	go p.wait()
	return p, nil
}

// wait reaps the process. What it wrote before it ended may still be read for
// a while; then the connection is over, whoever else holds its output.
func (p *process) wait() {
	err := p.cmd.Wait()
	kill(p.cmd)
	p.cfg.Logger.Debug("an MCP server's process ended", "err", err)
	_ = p.stdout.SetReadDeadline(time.Now().Add(p.cfg.Grace))
	close(p.exited)
}

// stop ends the process: first by the end of its input, as the protocol has
// it, then by a SIGTERM, then by a SIGKILL. It returns when it is gone.
func (p *process) stop() {
	p.once.Do(func() {
		_ = p.stdin.Close()
		for _, harder := range []func(*exec.Cmd){terminate, kill} {
			select {
			case <-p.exited:
			case <-time.After(p.cfg.Grace):
				harder(p.cmd)
			}
		}
		<-p.exited
		_ = p.stdout.Close()
	})
}

// Connect is sdk.Transport's.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	w := &countingWriter{file: p.stdin}
	inner, err := (&sdk.IOTransport{Reader: p.stdout, Writer: w, MaxLineLength: p.cfg.MaxMessage}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pipes{Connection: inner, out: w, turn: make(chan struct{}, 1)}, nil
}

// pipes is the SDK's connection, but a write ends with its context even if the
// process does not read, and says what left. A message that left in part ends
// the connection.
type pipes struct {
	sdk.Connection
	out  *countingWriter
	turn chan struct{} // holds one token: who has it writes
}

func (c *pipes) Write(ctx context.Context, m jsonrpc.Message) error {
	d := dispatchOf(ctx)
	call := d.claim()
	if d != nil && !call {
		defer d.tell()
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	before, cut := c.out.written.Load(), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = c.out.file.SetWriteDeadline(time.Unix(1, 0))
	})
	err := c.Connection.Write(ctx, m)
	if !stop() {
		<-cut
	}
	left := c.out.written.Load() > before
	if call && (err == nil || left) {
		d.sent.Store(true)
	}
	switch {
	case err == nil:
		err = c.out.file.SetWriteDeadline(time.Time{})
	case left:
		_ = c.Connection.Close() // for all who wait on it: nothing may stand behind half a message
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = c.out.file.SetWriteDeadline(time.Time{})
	}
	return err
}

type countingWriter struct {
	file    *os.File
	written atomic.Int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.written.Add(int64(n))
	return n, err
}

func (w *countingWriter) Close() error { return w.file.Close() }

// speech takes what the process writes to its standard error: line by line to
// the log, and the end of it for the report of a failure.
type speech struct {
	log *slog.Logger

	mu   sync.Mutex
	line []byte
	tail []byte
}

// Bounds of what is kept of a process's standard error, in bytes.
const (
	maxLine = 4 << 10
	maxTail = 2 << 10
)

func (s *speech) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, b...)
	s.tail = s.tail[max(0, len(s.tail)-maxTail):]
	for _, c := range b {
		if c != '\n' && len(s.line) < maxLine {
			s.line = append(s.line, c)
			continue
		}
		s.log.Debug("an MCP server says", "line", string(s.line))
		s.line = s.line[:0]
		if c != '\n' {
			s.line = append(s.line, c)
		}
	}
	return len(b), nil
}

func (s *speech) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.tail))
}
