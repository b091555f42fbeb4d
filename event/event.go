package event

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Version is the envelope version that this package writes.
const Version = 1

// Event is one fact of a session (contract, section 2): the envelope, and the
// payload that its type promises.
type Event struct {
	Version   int
	ID        string    // ULID
	Type      Type      // family.transition
	SessionID string    // the session it belongs to
	Sequence  Seq       // its place in the session: 1, 2, 3 … without a gap
	Epoch     Epoch     // the term of the owner that appended it
	Time      time.Time // UTC, microseconds; for people: nothing orders by it
	Prev      string    // Digest of the previous event's stored bytes, "" for the first
	Cause     string    // id of the event or input that led to this one, "" if none
	Payload   Payload

	stored []byte // the bytes in the log; nil until encoded or decoded
}

// Payload is one of the facts of this package (contract, section 4), or
// [Unknown] for a type that this version does not know.
type Payload interface {
	Type() Type
	sealed()
}

// Type is an event type: family.transition, for example generation.finished.
type Type string

// Family is the part of a type before its first dot.
func (t Type) Family() string {
	family, _, _ := strings.Cut(string(t), ".")
	return family
}

// Seq is the place of an event in its session, from 1.
type Seq uint64

func (s Seq) String() string { return strconv.FormatUint(uint64(s), 10) }

// ParseSeq reads what String wrote.
func ParseSeq(s string) (Seq, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("event: sequence %q: want a whole number from 1", s)
	}
	return Seq(n), nil
}

// Epoch is an owner's term in a session, from 1; a newer epoch fences every
// older one.
type Epoch uint64

func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// Stored returns the event's bytes as they are in the log, or nil for an event
// that was neither encoded nor decoded. The caller must not change them.
func (e Event) Stored() []byte { return e.stored }

// Digest is SHA-256 in base64url without padding: the one digest format of the
// log (contract, section 2: prev, digest, input_digest, response_digest).
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
