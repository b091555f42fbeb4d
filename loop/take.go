package loop

import (
	"errors"
	"fmt"

	"github.com/loopd/loopd/event"
)

// ErrAcknowledged is Decide's answer to a Take that changes nothing: the same
// content was taken, or refused, before (contract, section 3: identity).
var ErrAcknowledged = errors.New("loop: the same input was answered before")

// Take admits or refuses an input as it lies in the inbox. Prior is what the
// past knows of its id; Flaw is what the schema of its kind says against it, ""
// if nothing.
type Take struct {
	Delivery event.Delivery
	Prior    InputPast
	Flaw     string
}

func (c Take) decide(s State) (Fact, error) {
	d := c.Delivery
	digest := event.InputDigest(d.Data)
	if c.Prior.knows(digest) {
		return Fact{}, ErrAcknowledged
	}
	in, reason, hint := s.examine(c, digest)
	if reason != "" {
		return Fact{Payload: event.InputRejected{
			InputID: d.InputID, Digest: digest, Reason: reason, InboxSeq: d.InboxSeq, Hint: hint,
		}, Cause: d.InputID}, nil
	}
	accepted := event.InputAccepted{
		InputID: in.InputID, Kind: in.Kind, Source: in.EffectiveSource(), Target: in.Target,
		Digest: digest, Input: event.RawJSON(d.Data), InboxSeq: d.InboxSeq,
	}
	if g := s.Generation; g != nil && !s.closing() {
		accepted.GenerationID = g.ID
	}
	return Fact{Payload: accepted, Cause: d.InputID}, nil
}

// knows reports whether this very content was answered before.
func (p InputPast) knows(digest string) bool {
	if p.Accepted && p.Digest == digest {
		return true
	}
	for _, r := range p.Refused {
		if r == digest {
			return true
		}
	}
	return false
}

// examine says why an input is refused ("" = it is not), in the order of
// precedence: identity, the end of the session, its form, its anchor, room.
func (s *State) examine(c Take, digest string) (in event.Input, reason, hint string) {
	if c.Prior.Accepted || len(c.Prior.Refused) > 0 {
		return in, event.RejectIdentityConflict, "this input_id was used before with other content; choose a new one"
	}
	if s.Stop != nil || s.Phase == PhaseClosed {
		return in, event.RejectSessionClosed, "the session was stopped; open a new one"
	}
	if err := event.CheckDepth(c.Delivery.Data, s.Config.Limits.Limits); err != nil {
		refusal, _ := event.AsInvalid(err)
		return in, refusal.Reason, refusal.Hint
	}
	in, err := event.ParseInput(c.Delivery.Data)
	if err != nil {
		return in, event.RejectInvalid, bounded("not an input: " + err.Error())
	}
	if in.InputID != c.Delivery.InputID {
		return in, event.RejectInvalid, bounded(fmt.Sprintf("input_id %q does not match the subject it was published on", in.InputID))
	}
	if s.isResult(in, digest) {
		return in, "", ""
	}
	if err := in.Check(s.Config.Limits.Limits); err != nil {
		if refusal, ok := event.AsInvalid(err); ok {
			return in, refusal.Reason, bounded(refusal.Hint)
		}
		return in, event.RejectInvalid, bounded(err.Error())
	}
	if c.Flaw != "" {
		return in, event.RejectInvalid, bounded(c.Flaw)
	}
	if reason, hint := s.examineAnchor(in); reason != "" {
		return in, reason, hint
	}
	if in.Kind.Content() && len(s.pendingInputs())+s.initials() >= s.Config.Limits.Pending {
		return in, event.RejectQueueFull, fmt.Sprintf("%d inputs are pending; wait until some are delivered, and use a new input_id", s.Config.Limits.Pending)
	}
	return in, "", ""
}

// initials counts the initial input that is not delivered yet.
func (s *State) initials() int {
	if s.Generation != nil && s.Generation.Initial != nil {
		return 1
	}
	return 0
}

func (s *State) examineAnchor(in event.Input) (reason, hint string) {
	if in.TargetGenerationID == "" {
		return "", ""
	}
	g := s.Generation
	if g == nil || g.ID != in.TargetGenerationID {
		return event.RejectStaleGeneration, "that generation is not active; send it without target_generation_id to reach the next one"
	}
	if in.Kind != event.KindSteer {
		return "", ""
	}
	if s.Config.Steering == event.SteeringModeNative {
		return event.RejectAnchoringUnavailable, "this session steers natively; send it without target_generation_id"
	}
	if s.closing() {
		return event.RejectGenerationClosing, "that generation is ending; send it without target_generation_id to reach the next one"
	}
	return "", ""
}

// hintLimit bounds what an event tells of an error, in bytes.
const hintLimit = 512

func bounded(s string) string {
	if len(s) <= hintLimit {
		return s
	}
	cut := hintLimit
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}

// RefuseInput refuses an input that the log cannot hold.
type RefuseInput struct {
	Delivery event.Delivery
	Hint     string
}

func (c RefuseInput) decide(State) (Fact, error) {
	return Fact{Payload: event.InputRejected{
		InputID: c.Delivery.InputID, Digest: event.InputDigest(c.Delivery.Data), Reason: event.RejectInvalid,
		InboxSeq: c.Delivery.InboxSeq, Hint: bounded(c.Hint),
	}, Cause: c.Delivery.InputID}, nil
}
