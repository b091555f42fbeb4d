package replay

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// fold takes the event into the ledger, right or wrong: where it contradicts
// what was said before, the newer word stands, so that the audit can go on.
func (s *session) fold(e *event.Event) {
	s.chain(e.Sequence, event.Digest(e.Stored()))
	s.own(e)
	if in := s.commandOf(e); in != nil {
		in.settled = true
	}
	s.adoptGeneration(e.Payload)
	switch e.Type.Family() {
	case "generation", "operation", "checkpoint", "continuation", "invocation":
		s.idle = false
	}
	switch p := e.Payload.(type) {
	case event.SessionOpened:
		s.opened = true
	case event.SessionIdle:
		s.idle = true
		s.forget(func(*input) bool { return true })
	case event.SessionClosed:
		s.close()
	case event.OperationAdmitted, event.OperationDispatched, event.OperationCompleted, event.OperationFailed,
		event.OperationUnknown, event.OperationCancelled, event.OperationInspected:
		s.foldOperation(e)
	case event.CheckpointSaved, event.ContinuationStarted, event.ContinuationStopped:
		s.foldContinuation(e)
	case event.GenerationStarted, event.AssistantMessage, event.GenerationFinished, event.GenerationFailed, event.GenerationDetached:
		s.foldGeneration(e)
	case event.JobQueued, event.JobReturned, event.JobFailed, event.JobCancelled, event.JobCancelRequested, event.JobRecovered:
		s.foldJob(p)
	default:
		s.foldInput(e)
		s.foldSteering(p)
		s.foldInvocation(e)
	}
}

// chain counts one record of the session.
func (s *session) chain(seq event.Seq, digest string) {
	switch {
	case seq == s.next:
		s.next++
		s.back = 0
	case s.back != 0 && seq == s.back:
		s.next, s.back = seq+1, 0
	case seq > s.next:
		s.hole = true
		s.next, s.back = seq+1, 0
	case seq+1 == s.next:
		s.back = 0
	default:
		s.back = seq + 1
		s.next++
	}
	s.prev = digest
}

// again reports the very event before, once more.
func (s *session) again(e event.Event) bool {
	return e.Sequence+1 == s.next && e.Sequence > 0 && s.prev != "" && event.Digest(e.Stored()) == s.prev
}

// skip counts a record that does not decode; seq 0 is unknown.
func (s *session) skip(data []byte, seq event.Seq) {
	if seq == 0 {
		seq = s.next
	}
	s.chain(seq, event.Digest(data))
	s.hole = true
}

func (s *session) own(e *event.Event) {
	_, claim := e.Payload.(event.SessionClaimed)
	_, opening := e.Payload.(event.SessionOpened)
	if e.Epoch > s.epoch {
		s.epoch, s.claimed = e.Epoch, claim || !opening
		return
	}
	if !opening && e.Epoch == s.epoch {
		s.claimed = true
	}
}

// commandOf is the command that caused the event, nil if none did.
func (s *session) commandOf(e *event.Event) *input {
	if e.Cause == "" || e.Type == event.TypeInputAccepted || e.Type == event.TypeInputRejected {
		return nil
	}
	if in := s.commands[e.Cause]; in != nil {
		return in
	}
	if in := s.inputs[e.Cause]; in != nil && in.kind.Command() {
		return in
	}
	return nil
}

// close drops what a closed session no longer needs. Its identities stay.
func (s *session) close() {
	s.closed = true
	for _, in := range s.inputs {
		if in.kind == event.KindStop {
			in.settled = true
		}
	}
	for _, o := range s.operations {
		o.calls, o.merged = nil, ""
	}
}

// guessSession finds out whose record it is that does not decode: by the
// envelope, if it is JSON at all, else by the subject
// (loop.ev.<session>.<family>.<transition>).
func guessSession(rec event.Record, prefix string) (session string, seq event.Seq) {
	var head struct {
		SessionID jsontext.Value `json:"session_id"`
		Sequence  jsontext.Value `json:"sequence"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if json.Unmarshal(rec.Data, &head, lenient) == nil {
		_ = json.Unmarshal(head.SessionID, &session, lenient)
		_ = json.Unmarshal(head.Sequence, &seq)
	}
	if session != "" {
		return session, seq
	}
	rest, ok := strings.CutPrefix(rec.Subject, prefix+".ev.")
	if !ok {
		return "", 0
	}
	token, _, _ := strings.Cut(rest, ".")
	if encoded, ok := strings.CutPrefix(token, "~"); ok {
		b, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil {
			return "", 0
		}
		token = string(b)
	}
	return token, seq
}
