// Package eventlog is the memory: it appends, reads and follows the log on
// NATS JetStream, and holds the fence.
//
// Three plain streams carry everything (prefix "loop", stream names in upper
// case):
//
//	LOOP_INBOX   loop.in.<session>.<input>                inputs, published by hosts
//	LOOP_EVENTS  loop.ev.<session>.<family>.<transition>  the log, published by a session's owner
//	LOOP_FRAMES  loop.op.<session>.<operation>            raw provider bytes, while they stream
//
// Invariants
//
//  1. One function makes each subject and the fence's filter (subjects.go). The
//     server checks nothing about that filter: a second spelling of it is no
//     fence.
//  2. A [Writer] has at most one append in flight, always with the sequence it
//     last knew. Once another's event stands behind that sequence, the writer
//     answers [ErrFenced] for ever.
//  3. An append is never guessed: it is stored, refused, or of unknown outcome,
//     and an unknown outcome is resolved by reading (STREAM.MSG.GET, never a
//     direct get) before anything else is sent.
//  4. None of the streams allows roll-up, schedules, TTL, counters or batches:
//     who may publish inputs can then neither forge nor remove an event. [Open]
//     refuses a stream of our name that does.
//  5. A reader that meets a hole in the stream's sequences says which, as a
//     [GapError], and stops.
//
// It does not decide what may be appended: that is package loop. It does not
// judge payloads: that is package replay.
package eventlog
