package projections

import "github.com/loopd/loopd/projections/view"

// rowCache keeps the rows that were folded last, decoded, and that a row is not
// there: events of one session come close together. It holds at most twice its
// size: when the young half is full, the old half is forgotten. Rows are
// values, so they can be shared; only what was committed goes in.
type rowCache struct {
	size       int
	young, old map[string]view.Row

	// whole are sessions of which every row is here: those that had no rows
	// when they were met first. What is not here of them is nowhere. Each event
	// changes its session's row, so one without that row has none.
	whole map[string]bool
}

func newRowCache(size int) *rowCache {
	return &rowCache{size: size, young: map[string]view.Row{}, whole: map[string]bool{}}
}

// get returns a row, nil for one of which it is known that it is not there.
func (c *rowCache) get(key string) (row view.Row, known bool) {
	if row, known = c.young[key]; known {
		return row, true
	}
	if row, known = c.old[key]; known {
		c.put(key, row)
	}
	return row, known
}

func (c *rowCache) put(key string, row view.Row) {
	if len(c.young) >= c.size {
		c.old, c.young = c.young, make(map[string]view.Row, c.size)
		clear(c.whole)
	}
	c.young[key] = row
}
