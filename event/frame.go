package event

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// FrameType says what a frame of an operation tells.
type FrameType string

// The frames of an operation, in this order: one started, then provider and
// delta frames as the wire brings them, then one operation frame; a look-up
// that finds the saved answer later adds another operation frame.
const (
	FrameStarted   FrameType = "started"   // the request is about to leave
	FrameProvider  FrameType = "provider"  // raw body bytes, before anything is read from them
	FrameDelta     FrameType = "delta"     // provisional text, for who watches
	FrameOperation FrameType = "operation" // how the operation ended
)

// Frame is one message of an operation's own subject: what a host that
// reconnects reads to go on with the tokens from where it was. Seq counts 1,
// 2, 3 … without a gap; a first frame that is not 1 means that earlier ones have
// expired (response_expired).
type Frame struct {
	Version      int       `json:"version"`
	SessionID    string    `json:"session_id"`
	OperationID  string    `json:"operation_id"`
	GenerationID string    `json:"generation_id,omitzero"` // started
	Seq          uint64    `json:"seq"`
	Type         FrameType `json:"type"`
	Kind         string    `json:"kind,omitzero"`   // delta: "text" or "reasoning"
	Text         string    `json:"text,omitzero"`   // delta
	Data         []byte    `json:"data,omitzero"`   // provider: base64
	State        string    `json:"state,omitzero"`  // operation: the event's transition, "completed", "failed", "unknown" …
	Finish       Finish    `json:"finish,omitzero"` // operation, when completed
}

// EncodeFrame gives a frame its stored bytes.
func EncodeFrame(f Frame) ([]byte, error) {
	f.Version = Version
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("event: frame %d of operation %s: %w", f.Seq, f.OperationID, err)
	}
	return b, nil
}

// DecodeFrame reads what EncodeFrame wrote.
func DecodeFrame(b []byte) (Frame, error) {
	var f Frame
	if err := json.Unmarshal(b, &f); err != nil {
		return Frame{}, fmt.Errorf("event: frame: %w: %w", ErrMalformed, err)
	}
	if f.Seq == 0 || f.Type == "" || f.OperationID == "" {
		return Frame{}, fmt.Errorf("event: frame: %w: seq, type and operation_id are required", ErrMalformed)
	}
	return f, nil
}
