package replay

import (
	"slices"

	"github.com/loopd/loopd/event"
)

// input returns the ledger's entry of an input, adopting one that the log
// speaks of without having taken it.
func (s *session) input(id string) *input {
	in := s.inputs[id]
	if in == nil {
		s.order++
		in = &input{id: id, adopted: true, accepted: true, order: s.order}
		s.inputs[id] = in
	}
	return in
}

// foldInput takes in what is said of inputs.
func (s *session) foldInput(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.InputAccepted:
		s.accept(e, p)
	case event.InputRejected:
		s.inbox = taken{seq: max(p.InboxSeq, s.inbox.seq), id: p.InputID, digest: p.Digest}
		if p.Reason == event.RejectIdentityConflict {
			return
		}
		if s.inputs[p.InputID] == nil {
			s.inputs[p.InputID] = &input{id: p.InputID, digest: p.Digest}
		}
		s.inputs[p.InputID].rejected = true
	case event.InputQueued:
		in := s.input(p.InputID)
		in.queued = true
		in.refused = in.refused || in.sent && !in.owned // its refusal is missing
	case event.InputDelivered:
		s.deliver(p)
	case event.InputHeld:
		in := s.input(p.InputID)
		in.held = true
		s.settle(in)
	case event.InputWithdrawn:
		in := s.input(p.InputID)
		in.withdrawn = true
		s.settle(in)
		s.input(p.By).settled = true
	case event.InputUnknown:
		in := s.input(p.InputID)
		in.unknown = true
		in.unknownNative = p.Route == event.DeliveryNative
		s.settle(in)
	case event.CommandRejected:
		in := s.input(p.InputID)
		in.settled, in.refusedCommand = true, true
	}
}

func (s *session) accept(e *event.Event, p event.InputAccepted) {
	s.inbox = taken{seq: max(p.InboxSeq, s.inbox.seq), id: p.InputID, digest: p.Digest, wasAccepted: true}
	if in := s.inputs[p.InputID]; in != nil && in.accepted && !in.adopted {
		return // the first one stands
	}
	in := s.input(p.InputID)
	in.adopted, in.accepted = false, true
	in.kind, in.source, in.target, in.digest, in.sequence = p.Kind, p.Source, p.Target, p.Digest, e.Sequence
	if body, err := event.ParseInput(p.Input); err == nil {
		in.kind, in.source, in.target = body.Kind, body.EffectiveSource(), body.Target // what was sent counts
		in.anchor, in.verdict, in.argsDigest = body.TargetGenerationID, body.Verdict, body.InputDigest
		in.attachments = len(body.Attachments) > 0
	}
	switch {
	case in.kind.Content():
		s.pending = append(s.pending, in)
		return
	case in.kind.Command():
		s.commands[e.ID] = in
	}
	if in.kind == event.KindStop && !s.fenced {
		s.fenced = true
		s.stopped = stopped{active: s.open != nil && !s.idle || in.target == event.TargetCancel, pending: s.firstPending() != nil}
	}
	if g := s.open; g != nil && (in.kind == event.KindStop || in.kind == event.KindInterrupt && (in.anchor == "" || in.anchor == g.id)) {
		g.fences = append(g.fences, in)
	}
}

func (s *session) firstPending() *input {
	for _, in := range s.pending {
		if in.isDue() {
			return in
		}
	}
	return nil
}

// forget marks pending inputs that an event has just passed over.
func (s *session) forget(which func(*input) bool) {
	for _, in := range s.pending {
		if in.isPending() && which(in) {
			in.forgotten = true
		}
	}
}

func (s *session) deliver(p event.InputDelivered) {
	in := s.input(p.InputID)
	in.delivered = true
	if p.Delivery == event.DeliveryRequestBoundary {
		s.boundary = max(s.boundary, in.order)
		if s.barrier == 0 || in.order < s.barrier {
			s.barrier = in.order
		}
	}
	if g := s.openOr(p.GenerationID); g != nil {
		g.deliveries++
		g.join(in.id)
	}
	s.settle(in)
}

// settle ends an input's wait and takes it off its generation's accepted list.
func (s *session) settle(in *input) {
	s.pending = slices.DeleteFunc(s.pending, func(other *input) bool { return other == in })
	if g := s.generations[in.steered]; g != nil {
		g.accepted = remove(g.accepted, in.id)
	}
}

func (s *session) foldSteering(p event.Payload) {
	switch p := p.(type) {
	case event.SteeringSent:
		in := s.input(p.InputID)
		s.forget(func(other *input) bool { return other.order < in.order && other.waits() })
		in.sent = true
	case event.SteeringRefused:
		in := s.input(p.InputID)
		in.refused = !in.owned // the first answer stands
	case event.SteeringAccepted:
		in := s.input(p.InputID)
		if p.Delivery == event.DeliveryNative {
			in.owned = true
			in.sent = true // the word of the log: the provider has it
		} else {
			in.anchored = true
		}
		in.steered = p.TargetGenerationID
		if g := s.generations[p.TargetGenerationID]; g != nil && !slices.Contains(g.inputs, in.id) && !in.final() {
			s.listAccepted(g, in)
		}
	case event.SteeringApplied:
		in := s.input(p.InputID)
		in.applied = true
		g := s.generations[p.TargetGenerationID]
		if g == nil {
			g = s.open
		}
		if g != nil {
			g.join(in.id)
		}
		s.settle(in)
	case event.SteeringHeld:
		in := s.input(p.InputID)
		in.held = true
		s.settle(in)
	case event.SteeringUnknown:
		in := s.input(p.InputID)
		in.unknown = true
		in.unknownNative = in.sent
		s.settle(in)
	}
}

// listAccepted puts an input on the accepted list, in order of acceptance (5.6).
func (s *session) listAccepted(g *generation, in *input) {
	if slices.Contains(g.accepted, in.id) {
		return
	}
	at := len(g.accepted)
	for at > 0 && s.inputs[g.accepted[at-1]] != nil && s.inputs[g.accepted[at-1]].order > in.order {
		at--
	}
	g.accepted = slices.Insert(g.accepted, at, in.id)
}

func (g *generation) join(id string) {
	if !slices.Contains(g.inputs, id) {
		g.inputs = append(g.inputs, id)
	}
}
