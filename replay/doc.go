// Package replay holds the independent auditor of the log: it reads stored
// events, of any writer, and says which rules of the contract (section 7) they
// break. Its judgement is its own: it is derived from the contract alone and
// never runs the code that wrote the log.
//
// How it works: a record is decoded; each rule that judges its type looks at
// the event and at the ledger (what the session's log said so far); then the
// ledger takes the event in, whatever the rules said. The ledger is lenient:
// after a fault it adopts what the log claims, so that one fault is one
// finding and not an avalanche.
//
// Invariants
//
//  1. A rule reads the ledger and never changes it; the ledger's fold never
//     judges. So no rule depends on the order of the others.
//  2. The auditor never stops at a fault: a record that does not decode is an
//     E2 finding, and the audit goes on behind it. Where events are missing (a
//     gap, a record that does not decode), nothing is concluded from the
//     absence of an earlier event.
//  3. Only what the log proves is judged: a session that is not closed may
//     have pending things, and W1 says nothing of it.
//  4. Findings depend on the records alone: the same feed yields the same
//     findings in the same order.
//
// Memory: per session it keeps what is open, with its texts, and for ever a
// small entry for each identity (inputs with their digests, generations,
// operations, checkpoints, invocations, jobs): an id must not come back, ever.
// These entries are the one part that grows with the log. The texts of a chain
// that was stopped at a checkpoint stay too, until its continuation.
//
// It does not decide (package loop does), keep views (package projections
// does), or read streams (package eventlog does).
package replay
