package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streams are the handles of the three streams. Their cached configuration has
// AllowDirect off, so that every single read is a STREAM.MSG.GET answered by
// the leader: a direct get may be stale.
type streams struct {
	inbox  jetstream.Stream
	events jetstream.Stream
	frames jetstream.Stream
}

// openStreams checks the shape of each stream before it changes any, then
// creates or updates them.
func (l *Log) openStreams(ctx context.Context) error {
	wanted := []struct {
		config jetstream.StreamConfig
		stream *jetstream.Stream
	}{
		{l.streamConfig(familyInbox), &l.streams.inbox},
		{l.streamConfig(familyEvents), &l.streams.events},
		{l.streamConfig(familyFrames), &l.streams.frames},
	}
	for _, w := range wanted {
		var there bool
		err := l.again(ctx, func() (err error) {
			there, err = l.checkShape(ctx, w.config)
			return err
		})
		if err != nil {
			return failed("open", "stream "+w.config.Name, err)
		}
		if l.cfg.Existing && !there {
			return failed("open", "stream "+w.config.Name, ErrNoStream)
		}
	}
	for _, w := range wanted {
		if err := l.again(ctx, func() error { return l.openStream(ctx, w.config, w.stream) }); err != nil {
			return failed("open", "stream "+w.config.Name, err)
		}
	}
	return nil
}

func (l *Log) openStream(ctx context.Context, want jetstream.StreamConfig, stream *jetstream.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, max(l.cfg.RequestTimeout, 5*time.Second))
	defer cancel()
	var err error
	if l.cfg.Existing {
		*stream, err = l.js.Stream(ctx, want.Name)
	} else {
		*stream, err = l.js.CreateOrUpdateStream(ctx, want)
	}
	return classify(err)
}

func (l *Log) streamConfig(family string) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:              l.subjects.stream(family),
		Subjects:          []string{l.subjects.all(family)},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew, // a full stream refuses, it drops nothing
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		MaxBytes:          -1,
		Replicas:          l.cfg.Replicas,
		Storage:           jetstream.FileStorage,
	}
	if l.cfg.MaxStreamBytes > 0 {
		c.MaxBytes = l.cfg.MaxStreamBytes
	}
	if l.cfg.Storage == StorageMemory {
		c.Storage = jetstream.MemoryStorage
	}
	switch family {
	case familyInbox:
		c.Description = "inputs of sessions, published by hosts"
		c.MaxAge = l.cfg.InboxMaxAge
	case familyEvents:
		c.Description = "events of sessions: the log; only owners publish, fenced"
	case familyFrames:
		c.Description = "raw provider bytes of operations, while they stream"
		c.MaxAge = l.cfg.FramesMaxAge
	}
	return c
}

// checkShape says whether the stream is there; a *[ShapeError] says that it is
// not one of ours.
func (l *Log) checkShape(ctx context.Context, want jetstream.StreamConfig) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RequestTimeout)
	defer cancel()
	stream, err := l.js.Stream(ctx, want.Name)
	if err = classify(err); errors.Is(err, ErrNoStream) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	have := stream.CachedInfo().Config
	if l.cfg.Existing { // an administrator's storage is as good as ours
		want.Storage = have.Storage
	}
	if found := foreign(have, want); len(found) > 0 {
		return true, &ShapeError{Stream: want.Name, Found: found}
	}
	return true, nil
}

// foreign lists what in a stream's configuration breaks our invariants or
// cannot be changed in place. Age, size and replicas may differ: they are
// updated.
func foreign(have, want jetstream.StreamConfig) []string {
	checks := []struct {
		bad  bool
		what string
	}{
		{!slices.Equal(have.Subjects, want.Subjects), "subjects " + strings.Join(have.Subjects, " ") + ", want " + strings.Join(want.Subjects, " ")},
		{have.Retention != want.Retention, "retention is not by limits"},
		{have.Storage != want.Storage, fmt.Sprintf("storage is %v, want %v", have.Storage, want.Storage)},
		{have.Discard != want.Discard && have.MaxBytes > 0, "it drops old messages when it is full"},
		{have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0, "it limits the number of messages"},
		{have.MaxAge > 0 && want.MaxAge == 0 && strings.HasSuffix(want.Name, "_EVENTS"), "its messages expire"},
		{have.AllowRollup, "roll-up is allowed"},
		{have.AllowMsgSchedules, "schedules are allowed"},
		{have.AllowMsgTTL, "a TTL for each message is allowed"},
		{have.AllowMsgCounter, "it is a counter"},
		{have.AllowAtomicPublish || have.AllowBatchPublish, "batches are allowed"},
		{have.Mirror != nil || len(have.Sources) > 0, "it copies another stream"},
		{have.SubjectTransform != nil, "it renames subjects"},
		{have.RePublish != nil, "it republishes its messages"},
		{have.NoAck, "it acknowledges nothing"},
		{have.Sealed, "it is sealed"},
		{have.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes"},
	}
	var found []string
	for _, c := range checks {
		if c.bad {
			found = append(found, c.what)
		}
	}
	return found
}
