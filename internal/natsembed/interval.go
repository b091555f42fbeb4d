//go:build !race

package natsembed

import "time"

// defaultSyncInterval is Config.SyncInterval's default.
const defaultSyncInterval = 100 * time.Millisecond
