package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/event"
)

// ReadOption narrows or relaxes a read.
type ReadOption func(*source)

// OnlySession reads the events of one session alone.
func OnlySession(id string) ReadOption {
	return func(s *source) { s.session, s.bySession = id, true }
}

// AllowGaps reads on over missing sequences, for a log out of which an
// operator has removed messages on purpose.
func AllowGaps() ReadOption {
	return func(s *source) { s.allowGaps = true }
}

// Events are the stored events of one session, from the first to the head
// known when the feed is begun. It is finite; each run over it reads anew.
func (l *Log) Events(ctx context.Context, session string) event.Feed {
	return l.ReadAll(ctx, 1, 0, OnlySession(session))
}

// ReadAll are the stored events of all sessions whose stream sequences lie in
// from..to, both included; to = 0 means the head known when the feed is begun.
// A missing sequence ends it with a *[GapError], and so does a from that lies
// more than one beyond the head: the log lost its end.
func (l *Log) ReadAll(ctx context.Context, from, to uint64, opts ...ReadOption) event.Feed {
	return l.feed(ctx, l.source(l.streams.events, max(from, 1), to, opts))
}

// Follow calls fn for each event from a stream sequence on, those to come
// included, until ctx ends, fn returns an error, or the log is damaged or gone.
// It outlives lost connections. The error is never nil.
func (l *Log) Follow(ctx context.Context, from uint64, fn func(event.Record) error, opts ...ReadOption) error {
	s := l.source(l.streams.events, max(from, 1), 0, opts)
	s.follow = true
	return l.run(ctx, s, "follow", fn)
}

// source is what one reader reads.
type source struct {
	stream    jetstream.Stream
	name      string // of the stream
	filter    string // subjects; "" = all: then every sequence is expected
	from, to  uint64 // both included; to is unknown (0) while follow
	follow    bool   // go on after the head
	session   string // with bySession: its events alone
	bySession bool
	allowGaps bool
	newest    bool // only the last message of each subject
	headers   bool // no bodies
}

func (l *Log) source(stream jetstream.Stream, from, to uint64, opts []ReadOption) source {
	s := source{stream: stream, name: stream.CachedInfo().Config.Name, from: from, to: to}
	for _, o := range opts {
		o(&s)
	}
	return s
}

var errStop = errors.New("the reader has enough")

func (l *Log) feed(ctx context.Context, s source) event.Feed {
	return func(yield func(event.Record, error) bool) {
		err := l.run(ctx, s, "read", func(r event.Record) error {
			if !yield(r, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(event.Record{}, err)
		}
	}
}

// run reads a source to its end.
func (l *Log) run(ctx context.Context, s source, op string, fn func(event.Record) error) error {
	object := "stream " + s.name
	if s.bySession {
		object = fmt.Sprintf("session %q", s.session)
		filter, err := l.subjects.ofSession(familyEvents, s.session)
		if err != nil {
			return failed(op, object, err)
		}
		s.filter = filter
	}
	var own error // fn's error passes as it is
	err := l.read(ctx, s, func(r event.Record) error {
		own = fn(r)
		return own
	})
	if err != nil && own == nil {
		return failed(op, object, err)
	}
	return err
}

// read begins again while the server is not available: a finite read at most
// Attempts times, one that follows for ever.
func (l *Log) read(ctx context.Context, s source, fn func(event.Record) error) error {
	for attempt := 1; ; attempt++ {
		bounded := s
		empty, err := l.bound(ctx, &bounded)
		var r *reader
		if err == nil && !empty {
			r = &reader{log: l, source: bounded, next: s.from, fn: fn, queue: newQueue(l.readBuffer())}
			err = r.consume(ctx)
		}
		switch {
		case empty:
			return nil
		case err == nil:
			return r.run(ctx)
		case !errors.Is(err, ErrUnavailable), !s.follow && attempt >= l.cfg.Attempts:
			return err
		}
		if err := l.recover(ctx, attempt); err != nil {
			return err
		}
	}
}

// bound sets the end of a finite source, and checks that its beginning lies in
// the log. empty = there is nothing to read.
func (l *Log) bound(ctx context.Context, s *source) (empty bool, err error) {
	if s.filter != "" && !s.follow {
		end, err := l.getLast(ctx, s.stream, s.filter)
		if err != nil {
			return false, err
		}
		if s.to == 0 || s.to > end.Sequence {
			s.to = end.Sequence
		}
		return s.to < s.from, nil
	}
	state, err := l.state(ctx, s.stream)
	if err != nil {
		return false, err
	}
	if s.from > state.LastSeq+1 && !s.allowGaps {
		return false, &GapError{Stream: s.name, From: state.LastSeq + 1, To: s.from - 1}
	}
	if !s.follow && (s.to == 0 || s.to > state.LastSeq) {
		s.to = state.LastSeq
	}
	return !s.follow && s.to < s.from, nil
}

// readBuffer is the bytes of one pull. Half of it is asked for at a time, and
// must hold the largest message with its subject and headers.
func (l *Log) readBuffer() int {
	return max(l.cfg.ReadBuffer, 2*(int(l.nc.MaxPayload())+64<<10))
}

// reader moves messages from an ordered consumer to fn. The consumer's handler
// fills the queue and waits while it is full; the server then has no further
// pull request to serve: that is the backpressure.
type reader struct {
	log    *Log
	source source
	next   uint64 // the lowest sequence not read yet
	stalls int    // checks in a row that found nothing new
	fn     func(event.Record) error
	queue  *queue
	alarm  chan struct{} // the consumer met an error: check now
	stop   func()        // ends the consumer
}

// maxStalls is how many silent RequestTimeouts a finite reader bears while
// messages are known to be there.
const maxStalls = 5

func (r *reader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.stop()
	defer context.AfterFunc(ctx, r.queue.close)()
	defer r.queue.close()
	for {
		batch := r.queue.take(r.alarm, r.log.cfg.RequestTimeout)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if len(batch) == 0 {
			if err := r.check(ctx); err != nil {
				return err
			}
			continue
		}
		r.stalls = 0
		for _, rec := range batch {
			done, err := r.take(rec)
			if done || err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// take hands one record on; done = the source's end is reached.
func (r *reader) take(rec event.Record) (done bool, err error) {
	s := r.source
	finite := !s.follow
	if s.filter == "" && !s.allowGaps && rec.StreamSeq > r.next {
		return false, &GapError{Stream: s.name, From: r.next, To: rec.StreamSeq - 1}
	}
	if finite && rec.StreamSeq > s.to {
		return true, nil
	}
	r.next = rec.StreamSeq + 1
	if err := r.fn(rec); err != nil {
		return false, err
	}
	return finite && rec.StreamSeq == s.to, nil
}

// check runs when nothing came for a while: is the stream there, is there
// anything left to come?
func (r *reader) check(ctx context.Context) error {
	state, err := r.log.state(ctx, r.source.stream)
	switch {
	case errors.Is(err, ErrNoStream):
		return err
	case err != nil && r.source.follow:
		return nil
	case err == nil && state.LastSeq+1 < r.next && !r.source.allowGaps:
		return &GapError{Stream: r.source.name, From: state.LastSeq + 1, To: r.next - 1}
	case r.source.follow:
		return nil
	}
	if r.stalls++; r.stalls >= maxStalls {
		return fmt.Errorf("%w: nothing came for %v at sequence %d of %d", ErrUnavailable, time.Duration(r.stalls)*r.log.cfg.RequestTimeout, r.next, r.source.to)
	}
	if err != nil {
		return nil
	}
	return r.checkEnd(ctx)
}

// checkEnd tells a slow server from an end that was there and cannot be read.
func (r *reader) checkEnd(ctx context.Context) error {
	filter := r.source.filter
	if filter == "" {
		filter = ">"
	}
	m, err := r.log.get(ctx, r.source.stream, r.next, jetstream.WithGetMsgSubject(filter))
	if err != nil {
		return nil // the next check sees it
	}
	if m.Sequence == 0 || m.Sequence > r.source.to {
		if r.source.allowGaps {
			r.source.to = r.next - 1
			r.queue.close()
			return errStop
		}
		return &GapError{Stream: r.source.name, From: r.next, To: r.source.to}
	}
	return nil
}

// pullHeaders is how many messages without bodies one pull asks for.
const pullHeaders = 10_000

// consume begins the ordered consumer; r.stop ends it, and has the server
// forget it.
func (r *reader) consume(ctx context.Context) error {
	s, l := r.source, r.log
	r.alarm = make(chan struct{}, 1)
	config := jetstream.OrderedConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       s.from,
		HeadersOnly:       s.headers,
		InactiveThreshold: time.Minute,
	}
	if s.newest {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	if s.filter != "" {
		config.FilterSubjects = []string{s.filter}
	}
	start, cancel := context.WithTimeout(ctx, max(l.cfg.RequestTimeout, 5*time.Second))
	defer cancel()
	consumer, err := l.bulkJS.OrderedConsumer(start, s.name, config)
	if err != nil {
		return classify(err)
	}
	pull := jetstream.PullConsumeOpt(jetstream.PullMaxBytes(l.readBuffer()))
	if s.newest {
		// With a byte limit the server (2.15) loses, at the end of each pull,
		// the message that did not fit; without bodies a count bounds it too.
		pull = jetstream.PullMaxMessages(pullHeaders)
	}
	running, err := consumer.Consume(r.receive, pull,
		jetstream.ConsumeErrHandler(func(jetstream.ConsumeContext, error) {
			select {
			case r.alarm <- struct{}{}:
			default:
			}
		}))
	if err != nil {
		return classify(err)
	}
	r.stop = func() { go l.forget(consumer, running, s.name) }
	return nil
}

// forget ends a consumer. It may wait for the library's own retries, so it
// runs beside the reader that is done.
func (l *Log) forget(consumer jetstream.Consumer, running jetstream.ConsumeContext, stream string) {
	running.Stop()
	info := consumer.CachedInfo()
	if info == nil || l.bulk.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.RequestTimeout)
	defer cancel()
	_ = l.bulkJS.DeleteConsumer(ctx, stream, info.Name) // else it ends by its InactiveThreshold
}

func (r *reader) receive(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return // not a message of a stream
	}
	r.queue.put(event.Record{StreamSeq: meta.Sequence.Stream, Subject: m.Subject(), Data: m.Data()})
}
