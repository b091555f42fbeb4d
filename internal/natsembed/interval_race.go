//go:build race

package natsembed

import "time"

// defaultSyncInterval is longer under the race detector: the server (2.15)
// starts a store's sync timer before the store is made, without its lock, and a
// start that the detector slows down beyond the interval is reported as a race
// of the server's own.
const defaultSyncInterval = time.Minute
