// Package nats runs tools that live in other processes, in any language, over
// NATS request and reply.
//
// # The wire
//
// A process serves the tool <name> by answering requests on three subjects; the
// first is enough to begin with. <name> stands as it is if it matches
// [A-Za-z0-9_-]{1,128}, else as "~" and its base64url without padding; see
// [Subject]. <prefix> is "loop" by default. No stream may capture these
// subjects. Several processes that serve one tool must subscribe in one queue
// group, or each of them runs each call.
//
//	<prefix>.tool.<name>          runs a call
//	<prefix>.tool.<name>.inspect  says what became of one; optional, read-only
//	<prefix>.tool.<name>.cancel   asks to give one up; optional, no reply
//
// A call is one JSON object. The header Loop-Invocation-Id carries its
// invocation_id, which is the idempotency key: the same id is the same call,
// and a server that has seen it answers with what it answered then. arguments
// are the model's own bytes.
//
//	{"version":1, "session_id":"…", "invocation_id":"…", "tool_call_id":"…",
//	 "tool":"lookup", "arguments":{"city":"Turin"}}
//
// A reply is one of
//
//	{"result": …}       it ran; a string is the text for the model, any other
//	                    value goes to it as JSON
//	{"error": …}        it failed, the same way
//	anything else       the whole payload is the result, as plain text (UTF-8)
//	header Loop-Pending: true
//	                    not a reply yet: still at work. Any number of these may
//	                    come before the reply; they keep the caller from asking
//
// The error headers of NATS micro services (Nats-Service-Error) count as an
// error too. A reply may come as late as it likes.
//
// An inspection and a cancellation carry
//
//	{"version":1, "session_id":"…", "invocation_id":"…"}
//
// and an inspection is answered with
//
//	{"observed":"complete", "result":…}  or with "error" instead of "result"
//	{"observed":"pending"}   still at work; its reply will come
//	{"observed":"missing"}   no such call ever arrived
//
// # Invariants
//
//  1. Only what is certain is a failure: a call that nobody received (no
//     responders, no connection, too large) was certainly not run. Once a
//     request may have left, anything but a reply is Lost.
//  2. A request is published once. What is asked after that, asks for its fate:
//     Config.Silence after the last sign of life, and after a reconnect, which
//     may have swallowed the reply.
//  3. After a reconnect, a call whose tool does not say within
//     Config.LookupWait that it is complete or pending is Lost.
//  4. An inspection runs nothing.
//
// A call is cancelled at the tool when its context ends for a reason: a
// time-out, a cancelled job, a generation that is over. A plain
// [context.Canceled] says nothing about the work, as the owner goes away and
// the next one will look the call up: nothing is cancelled then.
package nats
