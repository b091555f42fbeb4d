package event

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// ErrMalformed is what Decode's errors wrap: the bytes are not an event.
var ErrMalformed = errors.New("malformed event")

// ErrUnencodable is what Encode's errors wrap: no event can carry the payload.
var ErrUnencodable = errors.New("no event can carry it")

const timeLayout = "2006-01-02T15:04:05.000000Z"

// header is the envelope as it stands in the log, before the payload's fields.
type header struct {
	Version   int    `json:"version"`
	ID        string `json:"id"`
	Type      Type   `json:"type"`
	SessionID string `json:"session_id"`
	Sequence  Seq    `json:"sequence"`
	Epoch     Epoch  `json:"epoch"`
	Time      string `json:"time"`
	Prev      string `json:"prev"`
	Cause     string `json:"cause,omitzero"`
}

// Encode gives the event its stored bytes: one flat JSON object, the envelope
// first. An event that already has stored bytes is returned as it is, byte for
// byte. Type follows from the payload; Version defaults to 1.
func Encode(e Event) (Event, error) {
	if e.stored != nil {
		return e, nil
	}
	if e.Payload == nil {
		return e, fmt.Errorf("event: encode %s: no payload", e.ID)
	}
	if _, unknown := e.Payload.(Unknown); unknown {
		return e, fmt.Errorf("event: encode %s: a type unknown to this version can be kept, not made", e.Payload.Type())
	}
	e.Type = e.Payload.Type()
	if e.Version == 0 {
		e.Version = Version
	}
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	head, err := e.envelope()
	if err != nil {
		return e, fmt.Errorf("event: encode %s: %w: %w", e.Type, ErrUnencodable, err)
	}
	body, err := json.Marshal(e.Payload)
	if err != nil {
		return e, fmt.Errorf("event: encode %s: %w: %w", e.Type, ErrUnencodable, err)
	}
	if len(body) > 2 {
		head = append(head[:len(head)-1], ',')
		head = append(head, body[1:]...)
	}
	e.stored = head
	return e, nil
}

// envelope is the header as JSON: written by hand, since an append spends most
// of its own time here.
func (e Event) envelope() ([]byte, error) {
	b := make([]byte, 0, 1024)
	b = strconv.AppendInt(append(b, `{"version":`...), int64(e.Version), 10)
	var err error
	quote := func(name, value string) {
		if err == nil {
			b, err = jsontext.AppendQuote(append(b, name...), value)
		}
	}
	quote(`,"id":`, e.ID)
	quote(`,"type":`, string(e.Type))
	quote(`,"session_id":`, e.SessionID)
	b = strconv.AppendUint(append(b, `,"sequence":`...), uint64(e.Sequence), 10)
	b = strconv.AppendUint(append(b, `,"epoch":`...), uint64(e.Epoch), 10)
	b = append(e.Time.AppendFormat(append(b, `,"time":"`...), timeLayout), '"')
	quote(`,"prev":`, e.Prev)
	if e.Cause != "" {
		quote(`,"cause":`, e.Cause)
	}
	return append(b, '}'), err
}

// Decode reads one stored event and keeps b (which the caller must not change
// afterwards). A type that this version does not know decodes to [Unknown]; a
// field that it does not know is ignored and kept in Stored. The error wraps
// [ErrMalformed] and says what is wrong.
func Decode(b []byte) (Event, error) {
	var h header
	if err := json.Unmarshal(b, &h); err != nil {
		return Event{}, fmt.Errorf("event: decode: %w: %w", ErrMalformed, err)
	}
	e := Event{
		Version: h.Version, ID: h.ID, Type: h.Type, SessionID: h.SessionID, Sequence: h.Sequence,
		Epoch: h.Epoch, Prev: h.Prev, Cause: h.Cause, stored: b,
	}
	if err := h.check(); err != nil {
		return Event{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, h.Time)
	if err != nil {
		return Event{}, fmt.Errorf("event: decode %s %d: %w: time %q is not RFC 3339", h.Type, h.Sequence, ErrMalformed, h.Time)
	}
	e.Time = t.UTC()
	decode, known := catalogue[h.Type]
	if !known || h.Version > Version {
		e.Payload = Unknown{Name: h.Type}
		return e, nil
	}
	if e.Payload, err = decode(b); err != nil {
		return Event{}, fmt.Errorf("event: decode %s %d: %w: %w", h.Type, h.Sequence, ErrMalformed, err)
	}
	return e, nil
}

func (h header) check() error {
	switch {
	case h.Version < 1:
		return fmt.Errorf("event: decode %s: %w: version %d, want 1 or more", h.Type, ErrMalformed, h.Version)
	case h.Type == "":
		return fmt.Errorf("event: decode: %w: no type", ErrMalformed)
	case h.SessionID == "" || h.Sequence == 0 || h.Epoch == 0:
		return fmt.Errorf("event: decode %s: %w: session_id, sequence and epoch are required", h.Type, ErrMalformed)
	}
	if _, err := ulid.ParseStrict(h.ID); err != nil {
		return fmt.Errorf("event: decode %s %d: %w: id %q is not a ULID", h.Type, h.Sequence, ErrMalformed, h.ID)
	}
	return nil
}

func decodeAs[P Payload](b []byte) (Payload, error) {
	var p P
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	return p, nil
}

// Canonical returns b in the canonical form of RFC 8785 (JCS). An error means
// that b is not one JSON value with unique names and valid UTF-8.
func Canonical(b []byte) ([]byte, error) {
	v := jsontext.Value(slices.Clone(b))
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("event: canonical JSON: %w", err)
	}
	return v, nil
}

// ArgumentsDigest is the digest of a tool call's arguments: of their canonical
// JSON, with whole numbers kept to the last digit (a double would make two
// large numbers equal, and an approval must not cover both). Arguments that
// are not one JSON object have no digest: the error says so.
func ArgumentsDigest(arguments string) (string, error) {
	v := jsontext.Value(arguments).Clone()
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return "", fmt.Errorf("event: arguments: %w", err)
	}
	if v.Kind() != '{' {
		return "", errors.New("event: arguments: not a JSON object")
	}
	return Digest(v), nil
}
