package scenario

import (
	"slices"
	"sync"
	"time"
)

// epochStart is when every scenario begins.
var epochStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// A clock moves only when the host advances it. It satisfies runner.Clock.
type clock struct {
	stage *stage

	mu     sync.Mutex
	now    time.Time
	timers []*timer // by due time, then by age
}

type timer struct {
	due time.Time
	f   func()
}

func newClock(s *stage) *clock { return &clock{stage: s, now: epochStart} }

// Now is the time of the scenario.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f once in its own goroutine when the clock has moved by d.
func (c *clock) AfterFunc(d time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{due: c.now.Add(d), f: f}
	if d <= 0 {
		c.fire(t)
		return func() {}
	}
	i, _ := slices.BinarySearchFunc(c.timers, t, func(have, want *timer) int {
		if have.due.After(want.due) {
			return 1
		}
		return -1
	})
	c.timers = slices.Insert(c.timers, i, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(have *timer) bool { return have == t })
	}
}

// advance moves the clock by d, from one timer to the next; after each it
// waits with settle until everything that the timer set off has come to rest,
// so that what it armed in turn (a look-up with back-off) is due in time too.
func (c *clock) advance(d time.Duration, settle func() error) error {
	if err := settle(); err != nil {
		return err
	}
	until := c.Now().Add(d)
	for c.step(until) {
		if err := settle(); err != nil {
			return err
		}
	}
	return nil
}

// step fires the next timer that is due by then, or moves the clock there.
func (c *clock) step(until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 || c.timers[0].due.After(until) {
		c.now = until
		return false
	}
	t := c.timers[0]
	c.timers = c.timers[1:]
	c.now = t.due
	c.fire(t)
	return true
}

func (c *clock) fire(t *timer) {
	c.stage.enter()
	go func() {
		defer c.stage.exit()
		t.f()
	}()
}
