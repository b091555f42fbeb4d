package event

import (
	"errors"
	"iter"
)

// ErrFenced says that another owner has appended to the session: final for
// the writer that met it (contract 6.4, last sentence).
var ErrFenced = errors.New("fenced: another owner appends to this session now")

// RawJSON is a JSON value kept as the bytes it came in.
type RawJSON = Attachment

// Record is one stored message of a stream: its stream sequence, its subject,
// its bytes verbatim.
type Record struct {
	StreamSeq uint64
	Subject   string
	Data      []byte
}

// Feed is a finite run of records in stream order. It ends after the first
// error it yields.
type Feed = iter.Seq2[Record, error]

// Delivery is an input as it lies in the inbox: InboxSeq is its stream
// sequence there; InputID is what its subject says.
type Delivery struct {
	InboxSeq uint64
	InputID  string
	Data     []byte
}
