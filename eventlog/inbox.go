package eventlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/event"
)

// Submit publishes an input unless one with this id is already there (contract,
// section 3). The same content again is a success and stores nothing; other
// content is a *[ConflictError]. After [ErrUnknownOutcome] submit it again.
func (l *Log) Submit(ctx context.Context, session, inputID string, body []byte) error {
	object := fmt.Sprintf("session %q input %q", session, inputID)
	subject, err := l.subjects.item(familyInbox, session, inputID)
	if err != nil {
		return failed("submit", object, err)
	}
	m := message(subject, "", 0, body)
	inbox := l.streams.inbox
	if err := l.checkSize(m, inbox); err != nil {
		return failed("submit", object, err)
	}
	_, err = l.deliver(ctx, m, inbox, func(ctx context.Context, _ uint64) (uint64, bool, error) {
		there, err := l.getLast(ctx, inbox, subject)
		if err != nil || there.Sequence == 0 {
			return 0, false, err
		}
		stored, sent := event.InputDigest(there.Data), event.InputDigest(body)
		if stored != sent {
			return 0, false, &ConflictError{Session: session, InputID: inputID, InboxSeq: there.Sequence, Stored: stored, Sent: sent}
		}
		return there.Sequence, true, nil
	})
	if err == nil {
		err = l.settled(ctx)
	}
	if err != nil {
		return failed("submit", object, err)
	}
	return nil
}

// SubmitPlain publishes an input without asking whether its id is taken, as a
// host may: the owner checks again. It gives the input's place in the inbox.
// After [ErrUnknownOutcome] a second call may store it twice; the owner then
// acknowledges the second.
func (l *Log) SubmitPlain(ctx context.Context, session, inputID string, body []byte) (inboxSeq uint64, err error) {
	object := fmt.Sprintf("session %q input %q", session, inputID)
	subject, err := l.subjects.item(familyInbox, session, inputID)
	if err != nil {
		return 0, failed("submit", object, err)
	}
	seq, err := l.once(ctx, subject, body, l.streams.inbox)
	if err != nil {
		return 0, failed("submit", object, err)
	}
	return seq, nil
}

// once publishes without an expectation: it is sent again only while nobody
// can have got it.
func (l *Log) once(ctx context.Context, subject string, data []byte, stream jetstream.Stream) (uint64, error) {
	m := message(subject, "", -1, data)
	if err := l.checkSize(m, stream); err != nil {
		return 0, err
	}
	seq, err := l.deliver(ctx, m, stream, neverKnown)
	if err != nil {
		return 0, err
	}
	return seq, l.settled(ctx)
}

// NextInput is the first input of a session's inbox behind a sequence; false
// if there is none now.
func (l *Log) NextInput(ctx context.Context, session string, after uint64) (event.Delivery, bool, error) {
	object := fmt.Sprintf("session %q", session)
	filter, err := l.subjects.ofSession(familyInbox, session)
	if err != nil {
		return event.Delivery{}, false, failed("next input", object, err)
	}
	var m *jetstream.RawStreamMsg
	err = l.again(ctx, func() (err error) {
		m, err = l.get(ctx, l.streams.inbox, after+1, jetstream.WithGetMsgSubject(filter))
		return err
	})
	if err != nil {
		return event.Delivery{}, false, failed("next input", object, err)
	}
	if m.Sequence == 0 {
		return event.Delivery{}, false, nil
	}
	return event.Delivery{InboxSeq: m.Sequence, InputID: l.subjects.input(m.Subject), Data: m.Data}, true, nil
}

// WatchInputs calls notify for each input that is or will be in any inbox, in
// its order, until ctx ends; the error is then ctx's. It outlives lost
// connections. It only hints: NextInput has the truth. A hole in the inbox is
// told to the Logger as an error: an input may have been acknowledged and lost.
func (l *Log) WatchInputs(ctx context.Context, notify func(session string, inboxSeq uint64)) error {
	s := l.source(l.streams.inbox, 1, 0, nil)
	s.follow, s.headers, s.allowGaps = true, true, true // inputs may expire
	last := uint64(0)
	return l.run(ctx, s, "watch inputs", func(r event.Record) error {
		if last > 0 && r.StreamSeq > last+1 {
			l.cfg.Logger.Error("the inbox has a hole: inputs are missing that were expired, erased or damaged on disk; "+
				"a host that still waits for one must submit it again", "from", last+1, "to", r.StreamSeq-1)
		}
		last = max(last, r.StreamSeq)
		if session, _, ok := l.subjects.session(familyInbox, r.Subject); ok {
			notify(session, r.StreamSeq)
		}
		return nil
	})
}
