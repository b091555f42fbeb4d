package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/replay"
	"github.com/loopd/loopd/schemas"
)

// demoSession is the session of the demo.
const demoSession = "demo"

// show plays both acts, then says what held.
func (s *demoStage) show(ctx context.Context) error {
	s.title("1  A correction that arrives while the answer streams")
	if err := s.steer(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	s.title("2  The owner is killed in the middle of an answer")
	if err := s.crash(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	s.title("What was promised")
	if err := s.judge(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	held := s.promises.tell(s.io.out)
	s.farewell()
	if !held {
		return notHeld("demo: something that was promised did not hold")
	}
	return nil
}

// steer: a host corrects a request that runs. The correction waits for the
// boundary, and one generation answers both inputs.
func (s *demoStage) steer(ctx context.Context) error {
	if err := s.startOwner(ctx); err != nil {
		return err
	}
	if err := s.submit(ctx, event.Input{InputID: "in-1", Kind: event.KindUser, Text: "Write the notice about the harbor lights."}); err != nil {
		return err
	}
	dispatched, err := s.until(ctx, isDispatched)
	if err != nil {
		return err
	}
	if err := s.half(ctx, dispatched, 1); err != nil {
		return err
	}
	if err := s.submit(ctx, event.Input{InputID: "in-2", Kind: event.KindSteer, Text: "British spelling, please."}); err != nil {
		return err
	}
	if _, err := s.until(ctx, isType(event.TypeInputQueued)); err != nil {
		return err
	}
	s.note("model", "goes on with the answer")
	s.server.Release(1)
	finished, err := s.until(ctx, isType(event.TypeGenerationFinished))
	if err != nil {
		return err
	}
	fact := finished.Payload.(event.GenerationFinished)
	s.note("host", fmt.Sprintf("has the answer to %v: %q", fact.InputIDs, fact.Text))
	s.promises.add(slices.Equal(fact.InputIDs, []string{"in-1", "in-2"}) && fact.Text == s.answer(2).Text(),
		"one generation answered both inputs, and only its end counted, not the first draft")
	return s.awaitIdle(ctx)
}

// crash: the owner is killed while an answer streams; a new one finds the
// answer where it was generated.
func (s *demoStage) crash(ctx context.Context) error {
	if err := s.submit(ctx, event.Input{InputID: "in-3", Kind: event.KindUser, Text: "And one line for the skippers."}); err != nil {
		return err
	}
	dispatched, err := s.until(ctx, isDispatched)
	if err != nil {
		return err
	}
	if err := s.half(ctx, dispatched, 3); err != nil {
		return err
	}
	if err := s.killOwner(); err != nil {
		return err
	}
	s.server.Release(3)
	select {
	case <-s.server.Kept(3):
		s.note("model", "finished the answer all the same, and keeps it; nobody has it")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.startOwner(ctx); err != nil {
		return err
	}
	finished, err := s.until(ctx, isType(event.TypeGenerationFinished))
	if err != nil {
		return err
	}
	fact := finished.Payload.(event.GenerationFinished)
	s.note("host", fmt.Sprintf("has the answer to %v: %q", fact.InputIDs, fact.Text))
	s.promises.add(finished.Epoch == 2 && slices.Equal(fact.InputIDs, []string{"in-3"}) && fact.Text == s.answer(3).Text(),
		"the new owner (epoch 2) went on inside the generation that the killed one had begun")
	s.promises.add(s.recovered(dispatched), "it looked the original up and recovered the whole answer, of which the killed owner had half")
	return s.awaitIdle(ctx)
}

func (s *demoStage) awaitIdle(ctx context.Context) error {
	_, err := s.until(ctx, isType(event.TypeSessionIdle))
	return err
}

func isType(t event.Type) func(event.Event) bool {
	return func(e event.Event) bool { return e.Type == t }
}

func isDispatched(e event.Event) bool { return e.Type == event.TypeOperationDispatched }

// recovered reports whether the log says that the operation's answer was
// recovered.
func (s *demoStage) recovered(dispatched event.Event) bool {
	operation := dispatched.Payload.(event.OperationDispatched).OperationID
	return slices.ContainsFunc(s.told, func(e event.Event) bool {
		p, ok := e.Payload.(event.OperationCompleted)
		return ok && p.OperationID == operation && p.Recovered
	})
}

// judge counts the requests at the model server, and has the log audited.
func (s *demoStage) judge(ctx context.Context) error {
	requests := s.server.Requests()
	asked := map[string]int{}
	for _, r := range requests {
		asked[r.OperationID]++
	}
	dispatched := 0
	for _, e := range s.told {
		if isDispatched(e) {
			dispatched++
		}
	}
	s.promises.add(len(requests) == 3 && len(asked) == 3 && dispatched == 3,
		fmt.Sprintf("the model server counted %d requests for %d operations, none twice, and %d read-only look-up(s)", len(requests), len(asked), s.server.Lookups()))
	h := host.New(s.place.log)
	again, err := h.Submit(ctx, demoSession, event.Input{InputID: "in-1", Kind: event.KindUser, Text: "Write the notice about the harbor lights."})
	if err != nil {
		return err
	}
	result, err := h.Await(ctx, demoSession, again.InputID)
	if err != nil {
		return err
	}
	finished, ok := result.(host.Finished)
	s.promises.add(ok && finished.Fact.Text == s.answer(2).Text(), "in-1 submitted again changes nothing: the log has its answer")
	return s.audit(ctx)
}

func (s *demoStage) audit(ctx context.Context) error {
	set, err := schemas.Load()
	if err != nil {
		return err
	}
	findings, events := 0, 0
	a := replay.New(replay.Config{Validate: set.Event})
	tell := func(found []replay.Finding) {
		for _, f := range found {
			findings++
			s.note("audit", fmt.Sprintf("%s at event %d: %s", f.Rule, f.Sequence, f.Message))
		}
	}
	for rec, err := range s.place.log.Events(ctx, demoSession) {
		if err != nil {
			return err
		}
		events++
		tell(a.Observe(rec))
	}
	tell(a.Close())
	s.promises.add(findings == 0, fmt.Sprintf("an audit of all %d events against every rule of the contract found %d violations", events, findings))
	return nil
}

func (s *demoStage) farewell() {
	fmt.Fprintf(s.io.out, "\nThe log lies in %s (%.1f s); it stays until you remove it. Look at it:\n", s.place.dir, time.Since(s.began).Seconds())
	fmt.Fprintf(s.io.out, "  loopd events --data %s --session %s\n  loopd doctor --data %s\n", s.place.dir, demoSession, s.place.dir)
}
