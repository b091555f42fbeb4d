// Package scenario reads scenario files, plays them on a real log, and checks
// what they expect: a host that acts, a scripted provider and scripted tools
// that answer, crashes where the file wants them.
//
// How a play goes:
//
//  1. A server with an empty log is started in the process; the owner "loopd"
//     runs on it. Its clock stands at 2026-01-01T00:00:00Z and moves only when
//     the host advances it, from one timer to the next.
//  2. The host's steps are done in order. What an await waits for is read back
//     from the server, never taken from an owner.
//  3. After the last step the play goes on until nothing moves without the
//     host. Then the file's expectations, the rows of the projections and the
//     rules of the contract (package replay) are held against the log.
//  4. A round of crashes plays the scenario again for each append and each of
//     its points (before, after, stored), in a session of its own: the owner
//     is killed there and started at once; an await that nothing can meet any
//     more is skipped; only the contract must hold, writes must not run more
//     often, and the session must not stay stuck.
//
// Invariants
//
//  1. Nothing sleeps. Whether something still moves follows from the folded
//     log (what loop.Next wants, and whether it already waits at a gate), from
//     the inputs that were sent and are not answered in it, and from the stage,
//     which knows each call that is under way.
//  2. A $name is bound at first sight, by a pattern that matches as a whole,
//     and is equal ever after; explaining a failure binds nothing.
//  3. The provider, the tools and the gates outlive every owner: who is killed
//     loses its connections, and they keep what they know.
//  4. An append that was sent arrives, whoever is killed meanwhile; a dead
//     owner sends nothing.
//  5. Every failure that has a place in the file names its line.
//
// It does not speak a wire protocol, and it never touches another log.
package scenario
