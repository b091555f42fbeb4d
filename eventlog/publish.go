package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// verdict is what became of one publish.
type verdict int

const (
	verdictUnknown verdict = iota // no answer: it may be stored
	verdictStored                 // acknowledged; answer.seq is its sequence
	verdictStale                  // 10071: the expectation is wrong; answer.seq is the right one
	verdictBusy                   // 10164: another one is in flight; not stored
	verdictUnsent                 // nobody got it; not stored; worth another try
	verdictRefused                // not stored, and never will be as it is
)

type answer struct {
	verdict verdict
	seq     uint64
	err     error
}

// The server's error codes that decide here.
const (
	codeWrongLast  jetstream.ErrorCode = 10071
	codeInFlight   jetstream.ErrorCode = 10164
	codeTooLarge   jetstream.ErrorCode = 10054
	codeNoHeaders  jetstream.ErrorCode = 10097 // headers too large
	codeNoResource jetstream.ErrorCode = 10023
	codeNoStorage  jetstream.ErrorCode = 10047
	codeNoMemory   jetstream.ErrorCode = 10028
	codeQuota      jetstream.ErrorCode = 10002
	codeNoPeers    jetstream.ErrorCode = 10005 // a cluster has too few servers, or has not seen them yet
	codeNotStored  jetstream.ErrorCode = 10077 // the store said no: maximum bytes, an IO error
)

func isFull(code jetstream.ErrorCode) bool {
	switch code {
	case codeNoResource, codeNoStorage, codeNoMemory, codeQuota, codeNotStored:
		return true
	}
	return false
}

// message is a publish to one of the streams; expect < 0 means without a fence.
func message(subject, filter string, expect int64, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if expect >= 0 {
		m.Header = nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatInt(expect, 10)}}
		if filter != "" {
			m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{filter}
		}
	}
	return m
}

// publish sends once and waits at most RequestTimeout for the answer.
func (l *Log) publish(ctx context.Context, m *nats.Msg, stream string) answer {
	if err := ctx.Err(); err != nil {
		return answer{verdict: verdictRefused, err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RequestTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err == nil {
		if ack.Stream != stream {
			return answer{verdict: verdictRefused, err: &ShapeError{Stream: stream, Found: []string{"stream " + ack.Stream + " captured its subject"}}}
		}
		return answer{verdict: verdictStored, seq: ack.Sequence}
	}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return apiAnswer(api, m)
	case errors.Is(err, nats.ErrMaxPayload):
		return answer{verdict: verdictRefused, err: &TooLargeError{Bytes: m.Size(), Limit: int(l.nc.MaxPayload())}}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrReconnectBufExceeded):
		return answer{verdict: verdictUnsent, err: err}
	}
	return answer{verdict: verdictUnknown, err: err}
}

func apiAnswer(api *jetstream.APIError, m *nats.Msg) answer {
	switch {
	case api.ErrorCode == codeWrongLast:
		var seq uint64 // stays 0 if the server words it differently: the last one is read then
		_, _ = fmt.Sscanf(api.Description, "wrong last sequence: %d", &seq)
		return answer{verdict: verdictStale, seq: seq, err: api}
	case api.ErrorCode == codeInFlight:
		return answer{verdict: verdictBusy, err: api}
	case api.ErrorCode == codeTooLarge, api.ErrorCode == codeNoHeaders:
		return answer{verdict: verdictRefused, err: &TooLargeError{Bytes: m.Size()}}
	case isFull(api.ErrorCode):
		return answer{verdict: verdictRefused, err: fmt.Errorf("%w: %w", ErrFull, api)}
	case api.Code == 503, api.Code == 429:
		return answer{verdict: verdictUnsent, err: api}
	}
	return answer{verdict: verdictRefused, err: api}
}

// look finds out by reading whether a message is stored: at hint, if that is
// not 0. found = it is, at seq. An error that is not decided means that it could
// not find out.
type look func(ctx context.Context, hint uint64) (seq uint64, found bool, err error)

// deliver sends m until its outcome is certain. Where the server does not
// answer, it asks look before it sends again; the same expectation makes sure
// that two copies cannot both be stored.
//
// An error that is [ErrUnknownOutcome] is the only one after which m may be
// stored.
func (l *Log) deliver(ctx context.Context, m *nats.Msg, stream jetstream.Stream, look look) (uint64, error) {
	name := stream.CachedInfo().Config.Name
	busy, doubt := 0, false
	var last error
	for attempt := 1; attempt <= l.cfg.Attempts; {
		a := l.publish(ctx, m, name)
		last = a.err
		switch a.verdict {
		case verdictStored:
			return a.seq, nil
		case verdictRefused:
			if doubt {
				return 0, unknown(a.err)
			}
			return 0, a.err
		case verdictBusy:
			if busy++; busy > l.cfg.BusyAttempts {
				return 0, orUnknown(doubt, fmt.Errorf("%w: %w", ErrUnavailable, a.err))
			}
			if err := pause(ctx, 300*time.Microsecond+rand.N(700*time.Microsecond)); err != nil {
				return 0, orUnknown(doubt, err)
			}
			continue
		case verdictUnsent:
			if err := l.missing(ctx, stream); err != nil {
				return 0, orUnknown(doubt, err)
			}
		case verdictStale, verdictUnknown:
			doubt = doubt || a.verdict == verdictUnknown
			seq, found, err := look(ctx, a.seq)
			if found || decided(err) {
				return seq, err
			}
			if err != nil {
				doubt, last = true, err
			}
		}
		if attempt < l.cfg.Attempts {
			if err := l.recover(ctx, attempt); err != nil {
				return 0, orUnknown(doubt, err)
			}
		}
		attempt++
	}
	return 0, orUnknown(doubt, fmt.Errorf("%w: %w", ErrUnavailable, last))
}

// again repeats a request while the server is not available, at most Attempts
// times.
func (l *Log) again(ctx context.Context, request func() error) error {
	for attempt := 1; ; attempt++ {
		err := request()
		if !errors.Is(err, ErrUnavailable) || attempt >= l.cfg.Attempts {
			return err
		}
		if err := l.recover(ctx, attempt); err != nil {
			return err
		}
	}
}

// missing is an error if the stream does not exist; nil says nothing.
func (l *Log) missing(ctx context.Context, stream jetstream.Stream) error {
	if !l.nc.IsConnected() {
		return nil
	}
	if _, err := l.state(ctx, stream); errors.Is(err, ErrNoStream) {
		return err
	}
	return nil
}

// recover waits after the n-th attempt failed: 50 ms, doubling to 2 s, and for
// the connection.
func (l *Log) recover(ctx context.Context, n int) error {
	wait := min(50*time.Millisecond<<min(n-1, 10), 2*time.Second)
	if err := pause(ctx, wait); err != nil {
		return err
	}
	return l.awaitConnected(ctx, l.cfg.RequestTimeout)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// neverKnown is the look of what carries no expectation: a second copy could
// be stored beside the first.
func neverKnown(context.Context, uint64) (uint64, bool, error) {
	return 0, false, ErrUnknownOutcome
}

// decided reports whether an error of a look is an answer.
func decided(err error) bool {
	var stored *StoredError
	var conflict *ConflictError
	return errors.Is(err, ErrFenced) || errors.As(err, &stored) || errors.As(err, &conflict) || err == ErrUnknownOutcome
}

func unknown(err error) error {
	if errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

func orUnknown(doubt bool, err error) error {
	if doubt {
		return unknown(err)
	}
	return err
}

// checkSize refuses before anything is sent what the server would not take.
func (l *Log) checkSize(m *nats.Msg, stream jetstream.Stream) error {
	size := m.Size()
	limit := int(l.nc.MaxPayload())
	if most := int(stream.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	if size > limit {
		return &TooLargeError{Bytes: size, Limit: limit}
	}
	return nil
}

// settled waits for the barrier after an acknowledgement.
func (l *Log) settled(ctx context.Context) error {
	if l.cfg.Barrier == nil {
		return nil
	}
	if err := l.cfg.Barrier(ctx); err != nil {
		return fmt.Errorf("%w: stored, but not known to be on disk: %w", ErrUnknownOutcome, err)
	}
	return nil
}

// redact removes passwords and tokens (a user without a password) from URLs
// before they stand in an error.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			parts[i] = "(not a URL)"
			continue
		}
		if _, both := u.User.Password(); u.User != nil && !both {
			u.User = url.User("xxxxx")
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, ",")
}
