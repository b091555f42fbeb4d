// Package loop is the thinking of loopd: the pure machine of contract sections
// 5 and 6. Values in, values out; time and ids are arguments.
//
//	Evolve(State, Event) State      folds one stored fact; total
//	Next(State, Tick) Plan          what the world should do now
//	Decide(State, Command) Fact     one command, one fact, or a *RejectedError
//
// How a fact comes to be, one after another:
//
//  1. Next looks at the folded state alone. Where the loop itself moves on, it
//     asks for a record: Decide(state, Advance) says which fact.
//  2. Where the world must act (send a request, look an original up, call a
//     tool, ask a provider to steer), it names an [Effect]. Effects are
//     declarative: the same one is asked for as long as the state wants it.
//  3. The outcome of an effect comes back as a command. A command that is not
//     legal now is refused: so a late answer of an older generation dies here.
//  4. The stored fact is folded, and Next is asked again.
//
// A session's phases:
//
//	New ─ session.opened ─► Unclaimed ─ session.claimed ─► Open ─ session.closed ─► Closed
//	any ─ an impossible fact ─► Broken
//
// A generation, by the facts of its last operation:
//
//	started ─ deliver the batch ─ admit ─ dispatch ─┬ completed, calls ─ invoke ─ deliver ─ admit …
//	                                                ├ completed, cutoff ─ checkpoint ─ continue or stop
//	                                                ├ completed, stop ─ checkpoint ─ yield once ─ finished
//	                                                ├ failed ─ failed
//	                                                └ unknown ─ inspect ─ completed, or detached
//
// Invariants
//
//  1. State is a function of the events alone (and of Config): what happens
//     after a crash follows from it, never from a side queue.
//  2. Evolve never changes the state it was given.
//  3. State holds what is open; the past lives in [Past].
//  4. What belongs to an older epoch is never taken for running: it is
//     inspected, taken over or declared unknown (contract 6.4).
package loop
