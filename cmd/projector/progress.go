package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// progress is how far a rebuild is: printed, and left in the directory of the
// views for a second one that joins, and for status.
type progress struct {
	Build   string  `json:"build"`
	Phase   string  `json:"phase"` // fold, verify, done
	Offset  uint64  `json:"offset"`
	Target  uint64  `json:"target"`
	Kept    uint64  `json:"kept"`         // on disk: a kill takes back no more than what came after
	Share   float64 `json:"share"`        // 0 to 1
	Rate    float64 `json:"rate"`         // stream sequences a second
	Left    float64 `json:"left_seconds"` // -1 = not known
	Process int     `json:"process"`
}

const progressFile = "rebuild.json"

func (p progress) String() string {
	left := "time left not known"
	if p.Left >= 0 {
		left = (time.Duration(p.Left) * time.Second).String() + " left"
	}
	return fmt.Sprintf("%s %s: %d of %d events, %.0f %%, %d kept, %.0f a second, %s", p.Phase, p.Build, p.Offset, p.Target, 100*p.Share, p.Kept, p.Rate, left)
}

// bar is the progress as one line of a terminal.
func (p progress) bar() string {
	const width = 30
	full := int(p.Share * width)
	return "\r\x1b[K" + strings.Repeat("█", full) + strings.Repeat("░", width-full) + " " + p.String()
}

// meter shows the progress of one rebuild.
type meter struct {
	env      env
	dir      string // where the file is left
	asJSON   bool
	terminal bool
	quiet    bool          // leaves no file: it is no rebuild
	every    time.Duration // between lines; on a terminal it is drawn more often

	mu     sync.Mutex
	build  string
	phase  string
	offset func() uint64
	from   uint64 // at which the phase began
	target uint64
	begun  time.Time
	kept   atomic.Uint64
	end    chan struct{}
	ended  chan struct{}
}

func newMeter(e env, dir string, asJSON bool) *meter {
	return &meter{env: e, dir: dir, asJSON: asJSON, terminal: isTerminal(e.err), every: 2 * time.Second}
}

// isTerminal reports whether w is a character device, such as a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// start begins a phase: shown now, at intervals, and at stop.
func (m *meter) start(build, phase string, target uint64, offset func() uint64) {
	m.build, m.phase, m.target, m.offset = build, phase, target, offset
	m.from, m.begun = offset(), time.Now()
	m.kept.Store(m.from)
	m.end, m.ended = make(chan struct{}), make(chan struct{})
	m.show()
	go func() {
		defer close(m.ended)
		every := m.every
		if m.terminal {
			every = 200 * time.Millisecond
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.show()
			case <-m.end:
				return
			}
		}
	}()
}

func (m *meter) stop() {
	close(m.end)
	<-m.ended
	m.show()
	if m.terminal && !m.asJSON {
		_, _ = fmt.Fprintln(m.env.err)
	}
}

func (m *meter) now() progress {
	p := progress{Build: m.build, Phase: m.phase, Offset: m.offset(), Target: m.target, Kept: m.kept.Load(), Left: -1, Process: os.Getpid()}
	p.Offset = min(p.Offset, p.Target)
	if p.Target > 0 {
		p.Share = float64(p.Offset) / float64(p.Target)
	}
	if seconds := time.Since(m.begun).Seconds(); p.Offset > m.from && seconds > 0 {
		p.Rate = float64(p.Offset-m.from) / seconds
		p.Left = float64(p.Target-p.Offset) / p.Rate
	}
	return p
}

func (m *meter) show() {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.now()
	m.leave(p)
	m.tell(p)
}

func (m *meter) tell(p progress) {
	switch {
	case m.asJSON:
		_ = m.env.printJSON(p) // a reader that is gone stops no rebuild
	case m.terminal:
		_, _ = fmt.Fprint(m.env.err, p.bar())
	default:
		m.env.say("projector: %s", p)
	}
}

// leave writes the file for others; without it they only see less.
func (m *meter) leave(p progress) {
	b, err := json.Marshal(p)
	if err != nil || m.quiet {
		return
	}
	path := filepath.Join(m.dir, progressFile)
	if os.WriteFile(path+".new", b, 0o644) == nil {
		_ = os.Rename(path+".new", path)
	}
}

// readProgress reads what another rebuild left.
func readProgress(dir string) (progress, error) {
	var p progress
	b, err := os.ReadFile(filepath.Join(dir, progressFile))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}
