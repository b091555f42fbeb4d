// Package event holds the words of the log: the envelope, one payload struct
// for each event type, the inputs that hosts send, and the codec between them
// and the stored bytes. It is pure: no clock, no randomness, no IO.
//
// Invariants
//
//  1. What was stored is kept: a decoded [Event] carries the very bytes it was
//     read from, and encoding it again yields them, unknown fields and unknown
//     types included (contract, section 2).
//  2. Payloads are sealed: only the types of this package are facts, and each
//     has one constant of type [Type].
//  3. An event that [Encode] made is right by construction: every list is an
//     array (never null), every required field is present.
//  4. JSON is read strictly: names are case sensitive, a repeated name or
//     invalid UTF-8 is an error, never a silent choice.
//
// It does not decide what may follow what: that is package loop; nor does it
// judge a log: that is package replay.
package event
