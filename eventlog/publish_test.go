package eventlog

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAnswers: which of the server's errors leave nothing stored, and which
// are worth another try.
func TestAnswers(t *testing.T) {
	m := &nats.Msg{Subject: "loop.ev.s1.session.idle", Data: []byte("x")}
	var large *TooLargeError
	for _, test := range []struct {
		api  jetstream.APIError
		want verdict
		seq  uint64
		is   func(error) bool
	}{
		{jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 42"}, verdictStale, 42, nil},
		{jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "worded differently"}, verdictStale, 0, nil},
		{jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}, verdictBusy, 0, nil},
		{jetstream.APIError{Code: 400, ErrorCode: 10054}, verdictRefused, 0, func(err error) bool { return errors.As(err, &large) }},
		{jetstream.APIError{Code: 503, ErrorCode: 10023}, verdictRefused, 0, func(err error) bool { return errors.Is(err, ErrFull) }},
		{jetstream.APIError{Code: 500, ErrorCode: 10047}, verdictRefused, 0, func(err error) bool { return errors.Is(err, ErrFull) }},
		{jetstream.APIError{Code: 503, ErrorCode: 10077}, verdictRefused, 0, func(err error) bool { return errors.Is(err, ErrFull) }},
		{jetstream.APIError{Code: 503, ErrorCode: 10008}, verdictUnsent, 0, nil},
		{jetstream.APIError{Code: 429, ErrorCode: 10167}, verdictUnsent, 0, nil},
		{jetstream.APIError{Code: 400, ErrorCode: 10060}, verdictRefused, 0, nil},
	} {
		a := apiAnswer(&test.api, m)
		if a.verdict != test.want || a.seq != test.seq || a.err == nil || test.is != nil && !test.is(a.err) {
			t.Errorf("%+v: %+v", test.api, a)
		}
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"nats://h:4222":                  "nats://h:4222",
		"nats://u:secret@h:4222":         "nats://u:xxxxx@h:4222",
		"nats://a:1,nats://u:secret@b:2": "nats://a:1,nats://u:xxxxx@b:2",
		"nats://token@h:4222":            "nats://xxxxx@h:4222",
		"nats://u:%zz@h":                 "(not a URL)",
	} {
		if got := redact(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
