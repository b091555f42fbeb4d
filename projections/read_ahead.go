package projections

import (
	"runtime"
	"sync"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/projections/view"
)

// reading is what view.Read says of one record.
type reading struct {
	event event.Event
	keys  []view.Key
	err   error
}

// readAll reads records side by side: it is half the work of a fold, and needs
// no order.
func readAll(recs []event.Record) []reading {
	const least = 64 // records that are worth a goroutine
	out := make([]reading, len(recs))
	workers := max(min(runtime.GOMAXPROCS(0), len(recs)/least), 1)
	size := (len(recs) + workers - 1) / workers
	var wait sync.WaitGroup
	for from := 0; from < len(recs); from += size {
		wait.Go(func() {
			for i := from; i < min(from+size, len(recs)); i++ {
				out[i].event, out[i].keys, out[i].err = view.Read(recs[i])
			}
		})
	}
	wait.Wait()
	return out
}
