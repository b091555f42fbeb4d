package bailing

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/sse"
	"github.com/loopd/loopd/loop"
)

const streamSchema = "bailing.model-stream.v1"

// maxFrame bounds one frame of the stream, in bytes: the whole answer of the
// hub is at most that.
const maxFrame = 32 << 20

// fold reads the body of one stream and judges it. It needs no HTTP: write the
// bytes, then end. The outcome does not depend on how the bytes were cut.
//
// The stream is, with the sequence 1, 2, 3 … and nothing after the operation:
//
//	started, (provider | delta)*, operation      a request that ran now
//	operation                                    the same id asked again: no dispatch
//
// A provider frame carries a piece of the provider's body, cut anywhere; put
// together, the pieces must be the body of the operation's response. A delta
// is a copy for people who watch and is not read. Whatever departs from this
// is a flaw: from there on nothing is read, and the outcome is uncertain.
type fold struct {
	want   original
	parser sse.Parser
	inner  *chat.Fold // reads the provider's body as it comes

	seq     int64
	header  header // of the first piece
	body    []byte // the pieces so far
	receipt *operation
	flaw    string // the first one; "" = none
	size    int64  // bytes of the stream
}

// streamFrame is one frame of the stream.
type streamFrame struct {
	Schema      string          `json:"schema"`
	OperationID string          `json:"operation_id"`
	Seq         int64           `json:"seq"`
	Type        string          `json:"type"`
	Provider    *piece          `json:"provider"`
	Operation   *jsontext.Value `json:"operation"`
}

// piece is a part of the provider's body.
type piece struct {
	header `json:",inline"`
	Data   *string `json:"data"`
}

// newFold begins a stream; out may be nil.
func newFold(want original, out chat.Sink) *fold {
	return &fold{want: want, parser: sse.Parser{Limit: maxFrame}, inner: chat.NewFold(want.profile, want.budget, out)}
}

// done reports whether the hub's receipt came.
func (f *fold) done() bool { return f.receipt != nil }

func (f *fold) write(b []byte) {
	f.size += int64(len(b))
	if err := f.parser.Write(b, f.event); err != nil {
		f.flawed("a frame is too long")
	}
}

func (f *fold) flawed(what string) {
	if f.flaw == "" {
		f.flaw = what
	}
}

func (f *fold) event(e sse.Event) {
	if f.flaw != "" {
		return
	}
	var frame streamFrame
	switch err := json.Unmarshal(e.Data, &frame); {
	case f.receipt != nil:
		f.flawed("a frame follows the operation")
	case err != nil:
		f.flawed("a frame is not readable")
	case frame.Schema != streamSchema:
		f.flawed("a frame has another schema")
	case frame.OperationID != f.want.operationID:
		f.flawed("a frame is of another operation")
	case frame.Seq != f.seq+1:
		f.flawed(fmt.Sprintf("frame %d follows frame %d", frame.Seq, f.seq))
	default:
		f.seq++
		f.frame(frame)
	}
}

// frame takes a frame that stands in its place.
func (f *fold) frame(frame streamFrame) {
	first := frame.Seq == 1
	switch {
	case frame.Type == "started" && first && frame.Provider == nil && frame.Operation == nil:
	case frame.Type == "provider" && !first && frame.Provider != nil && frame.Operation == nil:
		f.piece(*frame.Provider)
	case frame.Type == "delta" && !first && frame.Provider == nil && frame.Operation == nil:
	case frame.Type == "operation" && frame.Provider == nil && frame.Operation != nil:
		f.operation(*frame.Operation, first)
	default:
		f.flawed("a frame has the wrong type for its place")
	}
}

func (f *fold) piece(p piece) {
	switch err := p.check(); {
	case err != nil:
		f.flawed(err.Error())
	case p.Data == nil:
		f.flawed("a piece without data")
	case f.header != (header{}) && f.header != p.header:
		f.flawed("the pieces are of two answers")
	case int64(len(f.body)+len(*p.Data)) > f.want.maxBytes:
		f.flawed("the provider's body passes MaxAnswerBytes")
	default:
		f.header = p.header
		f.body = append(f.body, *p.Data...)
		f.inner.Write([]byte(*p.Data))
	}
}

// operation takes the receipt; replayed says that it stands alone.
func (f *fold) operation(data jsontext.Value, replayed bool) {
	o, err := f.want.read(data)
	if err != nil {
		f.flawed(err.Error())
		return
	}
	switch {
	case o.Response == nil:
	case replayed:
		f.inner.Write([]byte(*o.Response.Body))
	case f.header != (header{}) && f.header != o.Response.header, string(f.body) != *o.Response.Body:
		f.flawed("the pieces that came are not the body that was saved")
		return
	}
	f.receipt = &o
}

// end says how the exchange ended and judges the answer.
func (f *fold) end(end httpwire.End) loop.Outcome {
	if end == httpwire.EndJournal {
		return httpwire.Uncertain(end, "the raw bytes could not be saved")
	}
	if _, more := f.parser.Tail(); more && f.receipt != nil {
		f.flawed("something follows the operation")
	}
	where := fmt.Sprintf("end %s after %d bytes and frame %d", end, f.size, f.seq)
	switch {
	case f.flaw != "":
		return loop.Uncertain{Reason: event.UnknownNoTerminal, Detail: f.flaw + ": " + where}
	case f.receipt == nil:
		return httpwire.Uncertain(end, "no operation frame came: "+where)
	}
	return f.receipt.outcome(f.inner)
}
