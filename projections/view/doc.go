// Package view holds the views: what has become of every session, input,
// generation, operation, invocation, job and checkpoint, what waits, what was
// said and what was used, as keyed folds of the log. It is pure: no clock, no randomness, no IO. Package projections keeps
// the rows in a store; [Model] keeps them in a map, slowly and plainly, to
// compare a store with.
//
// Invariants
//
//  1. A row is a function of the events that [Route] sends to its key, in the
//     order of the log, and of nothing else.
//  2. [Route] reads the event alone: which rows an event concerns never
//     depends on what was folded before.
//  3. [Row.Fold] is total and never changes the row it is given; a row that
//     was handed out stays as it is.
//  4. [Encode] is deterministic: equal rows are equal bytes, so two stores can
//     be compared byte by byte.
//  5. [Key] bytes are ordered as (view, session, id) and unique, whatever
//     characters an id has.
//
// A view tells what the log says. It judges nothing: an event that may not
// follow is folded in the plainest way, and package replay's audit finds it.
//
// The states of each view's rows, and the events that lead there:
//
//	session      open               session.opened; generation.started or a content input.accepted when idle
//	             idle               session.idle
//	             closed             session.closed; final
//	input        accepted           input.accepted; steering.refused (it waits again, refused = true)
//	(content)    queued             input.queued; steering.accepted (request_boundary: an anchored input)
//	             sent               steering.sent
//	             owned              steering.accepted (native): the provider has it
//	             applied            steering.applied (native)
//	             delivered          input.delivered; steering.applied (request_boundary); applied = true when both
//	             held               input.held, steering.held
//	             unknown            input.unknown, steering.unknown
//	             withdrawn          input.withdrawn; by = the withdraw command
//	             rejected           input.rejected; reason. Of an id that already has a row, an
//	                                identity_conflict counts in conflicts, and no rejection changes the state
//	input        accepted           input.accepted: not carried out yet
//	(command)    effected           an event whose cause, by, decided_by or initial_input_id it is; effect = the last such type
//	             rejected           command.rejected, input.rejected; final
//	generation   open               generation.started
//	             finished, failed, detached   the terminal event; final, later evidence changes nothing
//	operation    admitted, dispatched, completed, failed, unknown, cancelled   the event of that name;
//	                                operation.inspected sets observed only; late and recovered say how an answer came
//	invocation   proposed, awaiting_approval, approved, denied, withdrawn, dispatched, completed, failed, uncertain
//	                                the event of that name; after withdrawn or reconciled a late receipt sets late only
//	             reconciled         invocation.reconciled, but for the verdict still_unknown (the state stays)
//	job          queued, cancel_requested, returned, failed, cancelled   the event of that name
//	             recovered          job.recovered; after an ending it sets status and recovered only
//	checkpoint   saved              checkpoint.saved
//	             continued          continuation.started
//	             stopped            continuation.stopped; a decision may continue it later
//
//	wait         open               while it waits: For says what for, From whose turn it is. The row is gone
//	                                when it is over; see waitsOf. Of a closed session only what nobody can
//	                                end any more is left: a stopped continuation, an uncertain call
//	message      accepted           content input.accepted: not in the context yet; gone when it is held or
//	                                withdrawn before it came there
//	             unknown            input.unknown
//	             delivered          in the context: input.delivered, steering.applied, an answer's text, a
//	                                tool's result, a summary
//	usage        open               sums over a session's operation.completed and .failed
//
// generation_id of an input's row is the generation that the last event about
// it named: once it is delivered, the one it was delivered in. While a
// generation is open its input_ids and accepted_input_ids follow the events
// that name it (a withdrawal does not), and each event that carries the lists
// puts them right; from the terminal event on they are that event's.
package view
