package responses

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// converse is Generate over a WebSocket.
//
//  1. A connection: a new one, or the one on which the response before stopped
//     for the results that this request brings.
//  2. One response.create. From here on the operation may have run.
//  3. Messages, each saved before it is read, until the response ended and no
//     steering waits for its successor.
//  4. Steering that nobody answered is unknown. If the response stopped for
//     its tools' results, with steering behind it, the connection is kept.
func (a *Adapter) converse(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	opening, err := a.opening(req)
	if err != nil {
		return notBuilt(err)
	}
	s := opening.socket
	if s == nil {
		var failed loop.Outcome
		if s, failed = a.dial(ctx, out); failed != nil {
			return failed
		}
	}
	op := newOperation(s)
	op.steers = opening.steers
	a.live.begin(req.OperationID, op)
	defer a.live.end(req.OperationID)

	fold := NewFold(a.profile, req.OutputBudget, out)
	fold.steers = op
	if err := s.write(ctx, opening.frame); err != nil {
		op.close()
		s.close()
		return explain(httpwire.Uncertain(endOf(ctx), "the request may have been sent"), httpwire.Result{Err: err})
	}
	end, err := a.listen(ctx, s, fold, out)
	outcome := explain(fold.End(end), httpwire.Result{Err: err}) // while what is open is still open
	op.close()
	if !a.keep(req, op, outcome) {
		s.close()
	}
	return outcome
}

// listen reads messages until the fold has all it waits for.
func (a *Adapter) listen(ctx context.Context, s *socket, fold *Fold, out loop.Stream) (httpwire.End, error) {
	for !fold.Done() {
		patience := a.cfg.Socket.IdleTimeout
		if fold.Settling() || fold.answer.err != nil {
			patience = min(patience, a.cfg.Socket.SettleTimeout)
		}
		message, end, err := s.next(ctx, patience)
		if err != nil {
			return end, err
		}
		message = append(message, '\n')
		if fold.size+int64(len(message)) > a.cfg.Socket.MaxBytes {
			return httpwire.EndTooLarge, nil
		}
		if err := out.Raw(message); err != nil {
			return httpwire.EndJournal, err
		}
		fold.Message(message)
	}
	return httpwire.EndClean, nil
}

// opening is how an operation begins.
type opening struct {
	socket *socket // nil = a new one
	steers []*steer
	frame  []byte
}

// opening goes on with the stopped response, if the request brings exactly
// what it waits for; otherwise it begins anew, with the whole context, and the
// steering that waited ends with its connection.
func (a *Adapter) opening(req loop.Request) (opening, error) {
	if k := a.live.take(req.SessionID); k != nil {
		input := k.goesOn(req)
		if input != nil && !k.dead() {
			frame, err := a.cfg.frame(a.profile, req, k.response, input)
			if err == nil {
				return opening{k.socket, k.steers, frame}, nil
			}
		}
		k.socket.close()
	}
	input, err := Input(req.Messages)
	if err != nil {
		return opening{}, err
	}
	frame, err := a.cfg.frame(a.profile, req, "", input)
	return opening{frame: frame}, err
}

// kept is a connection whose response stopped for its tools' results.
type kept struct {
	socket    *socket
	operation string // whose answer made the calls
	response  string
	required  []requiredInput
	steers    []*steer // that wait, in the order of submission
	drop      *time.Timer
}

// keep keeps the connection of an operation that stopped with steering behind
// it; false = there is nothing to keep.
func (a *Adapter) keep(req loop.Request, op *operation, outcome loop.Outcome) bool {
	stopped, required, steers := op.waiting()
	_, ended := outcome.(loop.Completion)
	left := a.cfg.Socket.MaxAge - time.Since(op.socket.born)
	if !ended || len(steers) == 0 || left <= 0 {
		return false
	}
	k := &kept{socket: op.socket, operation: req.OperationID, response: stopped, required: required, steers: steers}
	a.live.keep(req.SessionID, k, left, a.cfg.Socket.MaxKept)
	return true
}

// goesOn is the input that the stopped response waits for, and what the
// context has gained since; nil if the request brings anything else.
func (k *kept) goesOn(req loop.Request) jsontext.Value {
	at := len(req.Messages) - 1
	for at >= 0 && req.Messages[at].Role != loop.RoleAssistant {
		at--
	}
	if at < 0 || req.Messages[at].OperationID != k.operation || len(req.Messages[at].ToolCalls) == 0 {
		return nil
	}
	answers := answersTo(req.Messages, at)
	if len(answers) != len(k.required) {
		return nil
	}
	for _, a := range answers {
		if !slices.Contains(k.required, requiredInput{Type: "function_call_output", CallID: a.ToolCallID}) {
			return nil
		}
	}
	var w writer
	w.results(answers)
	for _, m := range req.Messages[at+1+len(answers):] {
		content, err := userContent(m)
		if err != nil || m.Role != loop.RoleUser {
			return nil
		}
		w.say("user", content)
	}
	input, err := w.array()
	if err != nil {
		return nil
	}
	return input
}

// dead reports whether the connection ended, or brought something that nobody
// waited for.
func (k *kept) dead() bool {
	select {
	case <-k.socket.inbox:
		return true
	default:
		return false
	}
}

// live is what an adapter knows of operations that run, and of connections
// that are kept for their sessions.
type live struct {
	mu         *sync.Mutex
	operations map[string]*operation
	kept       map[string]*kept // by session
}

func newLive() live {
	return live{mu: &sync.Mutex{}, operations: map[string]*operation{}, kept: map[string]*kept{}}
}

func (l live) begin(id string, op *operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.operations[id] = op
}

func (l live) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.operations, id)
}

func (l live) operation(id string) *operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.operations[id]
}

// keep keeps a connection for a while; the oldest makes room.
func (l live) keep(session string, k *kept, while time.Duration, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(session)
	for len(l.kept) >= most {
		oldest := ""
		for name, other := range l.kept {
			if oldest == "" || other.socket.born.Before(l.kept[oldest].socket.born) {
				oldest = name
			}
		}
		l.remove(oldest)
	}
	k.drop = time.AfterFunc(while, func() { l.discard(session, k) })
	l.kept[session] = k
}

// remove closes a session's kept connection; the lock is held.
func (l live) remove(session string) {
	if k := l.kept[session]; k != nil {
		k.drop.Stop()
		k.socket.close()
		delete(l.kept, session)
	}
}

func (l live) discard(session string, k *kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept[session] == k {
		l.remove(session)
	}
}

// take is a session's kept connection, nil if there is none.
func (l live) take(session string) *kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kept[session]
	if k != nil {
		k.drop.Stop()
		delete(l.kept, session)
	}
	return k
}

// Close ends the connections that are kept; operations that run are not
// touched.
func (a *Adapter) Close() error {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	for session := range a.live.kept {
		a.live.remove(session)
	}
	return nil
}
