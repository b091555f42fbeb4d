// Package projections keeps the views of package view in a store: one Pebble
// database a build, folded from the log and from nothing else.
//
// Invariants
//
//  1. Rows and offset are one: a batch holds every row that its records
//     changed and the stream sequence of the last of them, or nothing of it
//     is there. So a record at or before the offset was folded, exactly once,
//     and is skipped.
//  2. The log is what makes a row durable. Batches are not synced: what a
//     crash loses is folded again.
//  3. A store belongs to one stream (its name and the time it was created) and
//     to one set of view versions; [Open] refuses any other, and never
//     changes what it refuses.
//  4. A record that cannot be folded is parked with its sequence and the
//     reason, and stops nobody. A store that cannot be read is [ErrCorrupt],
//     and stops.
//  5. A store never writes to the log.
//  6. One process has a store open at a time; [Store.Checkpoint] gives others a copy.
//  7. Which of several builds is served is one file, CURRENT, replaced whole
//     ([Builds]); a build is served only once it is ready, and the served one is
//     never removed.
//
// What lies under which key:
//
//	m/clean           there while nobody writes: the last writer closed the store
//	m/identity        the stream, the view versions, the layout; written once, synced
//	m/progress        the offset, and how many records are parked; in every batch
//	h SEQUENCE        a proven hole of the stream, by its first sequence
//	p SEQUENCE        a parked record; eight bytes, big endian
//	r VIEW SESSION ID a row, as view.Encode wrote it, under view.Key's ordered bytes
//
// It does not follow a stream, prove holes or serve queries over a network: that
// is cmd/projector.
package projections
