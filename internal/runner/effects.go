package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// task is an effect that runs beside the session, or has run: it stays known
// while the state asks for it, so that nothing is dispatched twice.
type task struct {
	cancel    context.CancelCauseFunc
	cancelled bool
	asked     bool // it runs to its end, wanted or not: a person asked, or its receipt is evidence
	done      bool
}

// Why a task's context ends, where it matters to its outcome.
var (
	errTimeout   = errors.New("time-out")
	errUnwanted  = errors.New("no longer wanted")
	errCancelJob = errors.New("the job was asked to end")
)

// move does what the plan asks for; moved tells that Next must be asked again.
func (s *session) move(plan loop.Plan, t loop.Tick) (moved bool, err error) {
	if plan.Record {
		if s.r.draining.Load() && s.beginsTools(loop.Advance{Tick: t}) {
			return false, nil
		}
		return true, s.record(loop.Advance{Tick: t})
	}
	if len(plan.Effects) == 1 {
		switch e := plan.Effects[0].(type) {
		case loop.Carry:
			return true, s.record(loop.CarryOut{
				Tick: t, InputID: e.InputID, Input: s.past.Input(e.Target), Target: s.past.Target(e.Target),
			})
		case loop.Admit:
			if s.r.draining.Load() {
				return false, nil
			}
			if summary, needed := s.past.Summary(s.state.Config); needed {
				return true, s.record(loop.Summarize{Tick: t, ContextSummarized: summary})
			}
			return true, s.record(loop.AdmitRequest{Tick: t, OperationID: e.OperationID, RequestDigest: s.request(e.OperationID).Digest()})
		case loop.Dispatch:
			if s.r.draining.Load() {
				return false, nil
			}
			return true, s.record(loop.DispatchRequest{Tick: t, OperationID: e.OperationID, RequestDigest: s.request(e.OperationID).Digest()})
		case loop.Submit:
			return s.submit(e)
		}
	}
	s.reconcile(plan)
	return false, nil
}

// beginsTools reports whether a step would dispatch the first of a response's
// calls; what follows a first one belongs to it.
func (s *session) beginsTools(step loop.Advance) bool {
	fact, err := loop.Decide(s.state, step)
	if _, dispatches := fact.Payload.(event.InvocationDispatched); err != nil || !dispatches {
		return false
	}
	for _, inv := range s.state.Generation.Invocations {
		if inv.Phase == loop.InvocationDispatched {
			return false
		}
	}
	return true
}

// request is the one that the operation asks, or would ask if it were admitted
// now.
func (s *session) request(operation string) loop.Request {
	return s.state.Request(s.past, operation)
}

// submit brings a job's result back through the one door for inputs.
func (s *session) submit(e loop.Submit) (moved bool, err error) {
	if err := s.r.cfg.Log.Submit(s.ctx, s.id, e.InputID, e.Body); err != nil {
		s.log.Warn("a job's result could not be submitted; trying again", "job", e.JobID, "err", err)
		if err := s.rest(time.Second); err != nil {
			return false, err
		}
	}
	took, err := s.take(true)
	if err == nil && !took {
		return false, s.patience("submit a job's result", errors.New("the inbox does not hold it yet"))
	}
	return took, err
}

// reconcile starts wanted effects that do not run, and ends those that run and
// are no longer wanted.
func (s *session) reconcile(plan loop.Plan) {
	wanted := map[string]bool{}
	for _, e := range plan.Effects {
		wanted[e.Key()] = true
		switch t := s.running[e.Key()]; {
		case t == nil:
			s.start(e)
		case t.cancelled:
		default:
			if job, ok := e.(loop.RunJob); ok && job.Cancel {
				t.cancelled = true
				t.cancel(errCancelJob)
			}
		}
	}
	for key, t := range s.running {
		if !wanted[key] && (!t.asked || t.done) {
			t.cancel(errUnwanted)
			delete(s.running, key)
		}
	}
	s.wake()
	s.wake = func() {}
	if !plan.WakeAt.IsZero() {
		s.wake = s.r.cfg.Clock.AfterFunc(plan.WakeAt.Sub(s.r.cfg.Clock.Now()), s.nudge)
	}
}

// start runs an effect beside the session. Its outcome comes back by mail.
func (s *session) start(e loop.Effect) {
	timeouts := s.state.Config.Timeouts
	switch e := e.(type) {
	case loop.Call:
		s.call(e.Key(), s.request(e.OperationID), timeouts.Operation)
	case loop.Inspect:
		s.look(e.Key(), s.request(e.OperationID), e.By, timeouts.Inspect)
	case loop.Steer:
		s.steer(e, timeouts.Steer)
	case loop.Invoke:
		s.spawn(e.Key(), timeouts.Tool, func(ctx context.Context) func() error {
			out := s.invoke(ctx, e.Request)
			if !out.Lost {
				s.post(func() { s.finish(s.record(loop.EndInvocation{InvocationID: e.Request.InvocationID, Outcome: out})) })
				return nil // told although nobody may want it any more: late evidence
			}
			// ctx may be at its time-out: the look-up has one of its own.
			look, cancel := s.within(timeouts.Inspect)
			defer cancel(nil)
			return s.sawInvocation(e.Request, s.inspectTool(look, e.Request))
		}).asked = true
	case loop.InspectInvocation:
		s.spawn(e.Key(), timeouts.Inspect, func(ctx context.Context) func() error {
			found := s.inspectTool(ctx, e.Request)
			return s.again(e.Key(), s.sawInvocation(e.Request, found))
		})
	case loop.RunJob:
		s.spawn(e.Key(), 0, func(ctx context.Context) func() error {
			out := s.invoke(ctx, e.Request)
			cancelled := errors.Is(context.Cause(ctx), errCancelJob) && out.Lost
			if out.Lost && !cancelled && ctx.Err() == nil {
				if found := s.inspectTool(ctx, e.Request); found.Observed == event.ObservedComplete {
					out = found.Outcome
				}
			}
			return s.tells(loop.FinishJob{JobID: e.JobID, Outcome: out, Cancelled: cancelled})
		})
	case loop.InspectJob:
		s.spawn(e.Key(), timeouts.Inspect, func(ctx context.Context) func() error {
			return s.tells(loop.RecoverJob{JobID: e.JobID, Found: s.inspectTool(ctx, e.Request)})
		})
	}
}

// spawn runs work beside the session, with a time-out on the session's clock
// (0 = none), and posts what it returns.
func (s *session) spawn(key string, timeout time.Duration, work func(context.Context) func() error) *task {
	ctx, cancel := s.within(timeout)
	t := &task{cancel: cancel}
	s.running[key] = t
	s.outside.Add(1)
	s.r.wg.Go(func() {
		defer s.outside.Add(-1)
		defer cancel(nil)
		if done := work(ctx); done != nil && !errors.Is(context.Cause(ctx), errUnwanted) {
			s.post(func() {
				t.done = true
				s.finish(done())
			})
		}
	})
	return t
}

// within is a context of the session's with a time-out on its clock (0 =
// none); cancel also stops the timer.
func (s *session) within(timeout time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	if timeout == 0 {
		return ctx, cancel
	}
	stop := s.r.cfg.Clock.AfterFunc(timeout, func() { cancel(errTimeout) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// finish looks at what recording an outcome said: a late one is no fault.
func (s *session) finish(err error) {
	var rejected *loop.RejectedError
	switch {
	case err == nil:
	case errors.As(err, &rejected):
		s.log.Debug("an outcome came late", "why", rejected.Reason)
	default:
		s.fail(err)
		s.cancel()
	}
}

// tells records one command when the mail is read.
func (s *session) tells(cmd loop.Command) func() error {
	return func() error { return s.record(cmd) }
}

// again lets the same effect run once more if the state still asks for it.
func (s *session) again(key string, done func() error) func() error {
	return func() error {
		delete(s.running, key)
		return done()
	}
}

func (s *session) sawInvocation(req loop.ToolRequest, found loop.ToolInspection) func() error {
	return func() error {
		if err := s.record(loop.SawInvocation{InvocationID: req.InvocationID, Observed: found.Observed}); err != nil {
			return err
		}
		if found.Observed != event.ObservedComplete {
			return nil
		}
		return s.record(loop.EndInvocation{InvocationID: req.InvocationID, Outcome: found.Outcome})
	}
}

// inspect looks an operation's original up at somebody's wish.
func (s *session) inspect(operation string) {
	key := loop.Inspect{OperationID: operation}.Key()
	if s.running[key] == nil {
		s.look(key, s.request(operation), "", s.state.Config.Timeouts.Inspect).asked = true
	}
}

func (s *session) look(key string, req loop.Request, by string, timeout time.Duration) *task {
	return s.spawn(key, timeout, func(ctx context.Context) func() error {
		found := s.inspectOriginal(ctx, req)
		return s.again(key, func() error {
			if err := s.record(loop.SawOperation{OperationID: req.OperationID, Observed: found.Observed, By: by}); err != nil {
				return err
			}
			if found.Observed != event.ObservedComplete {
				return nil
			}
			if found.Completion != nil && !s.fits(req.OperationID, *found.Completion) {
				found.Completion, found.Failure = nil, &tooLarge
			}
			_, f, err := s.r.saved(s.ctx, s.id, req.OperationID)
			if err != nil {
				s.log.Debug("an operation's frames cannot be read", "operation", req.OperationID, "err", err)
			}
			return s.end(f, loop.RecoverOperation{OperationID: req.OperationID, Found: found},
				loop.RecoverOperation{OperationID: req.OperationID, Found: loop.Inspection{Observed: event.ObservedComplete, Failure: &tooLarge}})
		})
	})
}

// tooLarge is the failure of an operation whose answer does not fit the log;
// its raw bytes are in the frames.
var tooLarge = loop.Failure{
	Dispatch: event.DispatchRan, Code: "response_too_large",
	NextAction: "set a smaller output budget, or a larger message limit of the log; the raw answer is kept in the frames",
}

// end records an operation's end, or the other one where the log does not take
// the first, then tells it to who watches its frames.
func (s *session) end(f *frames, cmd, other loop.Command) error {
	fact, err := s.recorded(cmd)
	var large interface{ TooLarge() bool }
	if errors.As(err, &large) && large.TooLarge() {
		fact, err = s.recorded(other)
	}
	if err == nil && f != nil {
		s.endFrame(f, fact)
	}
	return err
}

func (s *session) steer(e loop.Steer, timeout time.Duration) {
	steerer, ok := s.r.cfg.Provider.(Steerer)
	s.spawn(e.Key(), timeout, func(ctx context.Context) func() error {
		answer := loop.SteerRefused
		if ok {
			answer = s.steerLive(ctx, steerer, e)
		}
		return s.tells(loop.AnswerSteering{InputID: e.Input.InputID, Answer: answer})
	})
}

// steerLive asks; whatever is not a definite answer in time is unknown
// (contract 5.2). An adapter that does not heed its context is left behind.
func (s *session) steerLive(ctx context.Context, p Steerer, e loop.Steer) loop.SteerAnswer {
	got := make(chan loop.SteerAnswer, 1)
	go func() {
		answer := loop.SteerUnknown
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("steer_live panicked", "input", e.Input.InputID, "panic", r)
				answer = loop.SteerUnknown
			}
			got <- answer
		}()
		answer = p.Steer(ctx, e.OperationID, e.Input)
	}()
	select {
	case answer := <-got:
		return answer
	case <-ctx.Done():
		return loop.SteerUnknown
	}
}

// call sends a dispatched operation's request and reads its answer.
func (s *session) call(key string, req loop.Request, quiet time.Duration) {
	s.spawn(key, 0, func(ctx context.Context) func() error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		st := newStream(ctx, s, req.OperationID, quiet, func() { cancel(errTimeout) })
		defer st.stop()
		out := s.begin(ctx, req, st)
		if u, ok := out.(loop.Uncertain); ok {
			if errors.Is(context.Cause(ctx), errTimeout) {
				u = loop.Uncertain{Reason: event.UnknownTimeout, Detail: fmt.Sprintf("no frame for %s", quiet)}
				out = u
			}
			s.log.Warn("the outcome of an operation is unknown", "operation", req.OperationID, "reason", u.Reason, "detail", u.Detail)
		}
		return func() error {
			if c, ok := out.(loop.Completion); ok && !s.fits(req.OperationID, c) {
				out = tooLarge
			}
			return s.end(st.frames, loop.EndOperation{OperationID: req.OperationID, Outcome: out},
				loop.EndOperation{OperationID: req.OperationID, Outcome: tooLarge})
		}
	})
}

// begin opens the operation's frames before anything leaves; while the log
// does not answer, it tries again.
func (s *session) begin(ctx context.Context, req loop.Request, st *stream) loop.Outcome {
	began, wait := time.Now(), 20*time.Millisecond
	for {
		err := st.frames.add(ctx, event.Frame{Type: event.FrameStarted, GenerationID: req.GenerationID})
		if err == nil {
			return s.generate(ctx, req, st)
		}
		if ctx.Err() != nil || s.r.killed.Load() || errors.Is(err, event.ErrFenced) || time.Since(began) > s.r.cfg.Patience {
			s.log.Error("an operation's frames cannot be saved; its request is not sent", "operation", req.OperationID, "err", err)
			return loop.Failure{
				Dispatch: event.DispatchNotDispatched, Code: "frames_unavailable",
				NextAction: "the log does not take frames; see the process's log, then send the input again",
			}
		}
		s.log.Warn("the log does not take an operation's first frame; trying again", "operation", req.OperationID, "err", err)
		st.rewind()
		if s.rest(wait) != nil {
			continue // it ends above
		}
		wait = min(2*wait, 2*time.Second)
	}
}
