// Package delegate is a tool that hands work to another session: what the model
// asks becomes the first message of a child session, and the child's answer is
// the result.
//
// Invariants
//
//  1. An invocation has one child: the child's id derives from the invocation's,
//     and so does the id of the input that it begins with. The same invocation
//     again finds the same child, and asks nothing twice.
//  2. The child's log alone says what became of it. A generation that failed or
//     was detached is a failure with its reason, never an answer.
//  3. Work that is given up (a cancelled job, a time-out) stops its child. An
//     owner that goes away gives nothing up: a plain [context.Canceled] leaves
//     the child at work, and a look-up finds it.
//  4. A child may delegate, at most Config.MaxDepth deep.
//
// It runs no session itself: whoever owns the log's sessions takes the child up
// like any other. A job whose owner was lost while its child was at work is
// recovered as unknown (contract 6.4); the child's answer stays in its log.
package delegate
