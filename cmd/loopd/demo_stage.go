package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/provider/recorded"
)

// demoStage is what the demo plays on: the log, the model server, the owner's
// process, and how far the log was told. One goroutine plays and tells, so the
// timeline is the same each time.
type demoStage struct {
	io       stdio
	began    time.Time
	place    *place
	answers  []recorded.Answer
	server   *recorded.Server
	web      *http.Server
	baseURL  string
	owner    *child
	owners   int
	events   chan event.Event
	follow   chan error // why the following of the log ended
	told     []event.Event
	promises promises
}

// demoPace is the pause before each chunk of an answer: slow enough to watch;
// a long recording is over within demoLongest.
const (
	demoPace    = 60 * time.Millisecond
	demoLongest = time.Second
)

func openStage(ctx context.Context, dir string, answers []recorded.Answer, io stdio) (*demoStage, error) {
	c := defaultConfig()
	c.Data, c.Listen = dir, "127.0.0.1:0"
	where, err := c.own(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s := &demoStage{
		io: io, began: time.Now(), place: where, answers: answers,
		events: make(chan event.Event), follow: make(chan error, 1),
	}
	pace := demoPace
	for _, a := range answers {
		pace = min(pace, demoLongest/time.Duration(len(a.Frames)))
	}
	s.server = recorded.New(recorded.Config{Answers: answers, Pace: pace, Hold: func(n int) int {
		if n == 1 || n == 3 {
			return s.answer(n).Middle()
		}
		return -1
	}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		where.close()
		return nil, err
	}
	s.baseURL = "http://" + listener.Addr().String() + "/v1"
	s.web = &http.Server{Handler: s.server, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.web.Serve(listener) }() // ends with close
	go s.tail(ctx)
	s.note("loopd", "NATS server in this process on "+where.url+", data in "+dir)
	s.note("model", "server on "+s.baseURL+", plays an answer in the recorded wire format")
	return s, nil
}

// answer is what the model server plays for the n-th request.
func (s *demoStage) answer(n int) recorded.Answer { return s.answers[min(n, len(s.answers))-1] }

func (s *demoStage) close() {
	if s.owner != nil {
		s.owner.stop()
	}
	s.server.Close()
	_ = s.web.Close()
	s.place.close()
}

// tail hands the log's events over, in order.
func (s *demoStage) tail(ctx context.Context) {
	for e, err := range host.New(s.place.log).Events(ctx, demoSession, 1) {
		if err != nil {
			s.follow <- err
			return
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// until tells the log up to the next event that is wanted.
func (s *demoStage) until(ctx context.Context, want func(event.Event) bool) (event.Event, error) {
	var died <-chan struct{}
	if s.owner != nil {
		died = s.owner.gone
	}
	for {
		select {
		case e := <-s.events:
			s.told = append(s.told, e)
			s.tellEvent(e)
			if want(e) {
				return e, nil
			}
		case err := <-s.follow:
			return event.Event{}, err
		case <-died:
			return event.Event{}, fmt.Errorf("the owner's process ended: %s", s.owner.talk())
		case <-ctx.Done():
			return event.Event{}, fmt.Errorf("the log does not go on: %w", ctx.Err())
		}
	}
}

func (s *demoStage) submit(ctx context.Context, in event.Input) error {
	verb := "sends"
	if in.Kind == event.KindSteer {
		verb = "corrects, while the answer streams:"
	}
	s.note("host", fmt.Sprintf("%s %s %q", verb, in.InputID, in.Text))
	_, err := host.New(s.place.log).Submit(ctx, demoSession, in)
	return err
}

// half waits until the owner has the first half of the n-th answer, and shows
// it.
func (s *demoStage) half(ctx context.Context, dispatched event.Event, n int) error {
	want := s.answer(n).TextOf(s.answer(n).Middle())
	operation := dispatched.Payload.(event.OperationDispatched).OperationID
	var body []byte
	err := s.place.log.FollowFrames(ctx, demoSession, operation, func(r event.Record) error {
		frame, err := event.DecodeFrame(r.Data)
		if err != nil {
			return err
		}
		if frame.Type == event.FrameProvider {
			body = append(body, frame.Data...)
		}
		text, err := recorded.Text(body)
		if err == nil && len(text) >= len(want) {
			err = errHalf
		}
		return err
	})
	if !errors.Is(err, errHalf) {
		return err
	}
	s.note("model", fmt.Sprintf("streams %q … (provisional: it answers nothing yet)", cut(want, 60)))
	return nil
}

var errHalf = errors.New("half of the answer is here")

// startOwner runs loopd serve as a process of its own, until it serves.
func (s *demoStage) startOwner(ctx context.Context) error {
	s.owners++
	name := fmt.Sprintf("owner-%d", s.owners)
	c, err := startChild(ctx, []string{"LOOPD_DEMO_KEY=demo"}, "serve", "--until-stdin-ends", "--nats", s.place.url, "--owner", name,
		"--base-url", s.baseURL, "--profile", "openai", "--model", "demo", "--store", "--api-key-env", "LOOPD_DEMO_KEY", "--log-level", "error")
	if err != nil {
		return err
	}
	s.owner = c
	s.note("loopd", fmt.Sprintf("%s starts: process %d, loopd serve --profile openai --store", name, c.cmd.Process.Pid))
	return nil
}

// killOwner kills the owner's process as a machine does: no code of it runs.
func (s *demoStage) killOwner() error {
	s.note("demo", fmt.Sprintf("kill -9 %d", s.owner.cmd.Process.Pid))
	err := s.owner.kill()
	s.owner = nil
	return err
}
