// Package host is the client of a host: it publishes inputs and learns from the
// log what became of them. A host needs no owner to be running: an input is
// durable once it is submitted.
//
// Invariants
//
//  1. An input is settled by the log alone (contract, section 4): by the
//     terminal event of the generation whose input_ids hold it, or by the event
//     that says that it never will be part of one. Provisional text, a queue, an
//     acknowledgement of steering settle nothing.
//  2. What [Host.Await] answers is a function of the log: asked again, however
//     late and by whomever, it answers the same.
//  3. A host appends nothing to the log: it publishes to the inbox, and reads.
//
// It keeps no state: two hosts of one session need not know each other.
package host
