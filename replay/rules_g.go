package replay

import (
	"slices"

	"github.com/loopd/loopd/event"
)

var terminals = []event.Type{event.TypeGenerationFinished, event.TypeGenerationFailed, event.TypeGenerationDetached}

// Generations.
var rulesG = []Rule{
	{ID: "G1", Sentence: "one open generation a session; started once; exactly one terminal", judge: judgeG1},
	{ID: "G2", Sentence: "every event that names a generation lies inside it; late evidence aside; `input.accepted`, `input.queued`, `steering.accepted` may name one that has not ended; `steering.applied` (`native`) may follow its terminal", judge: judgeG2},
	{ID: "G3", Sentence: "`input_ids`, `accepted_input_ids` equal 5.6 at that point", judge: judgeG3,
		types: append([]event.Type{event.TypeAssistantMessage}, terminals...)},
	{ID: "G4", Sentence: "`finished.text` equals the final ordinary assistant text of its last operation (merged over its segments); never another's", judge: judgeG4,
		types: []event.Type{event.TypeGenerationFinished}},
	{ID: "G5", Sentence: "`finished` has its `disposition`; `active_job_ids` equals the jobs open at that point", judge: judgeG5,
		types: []event.Type{event.TypeGenerationFinished}},
	{ID: "G6", Sentence: "no `finished` after a stop or an interrupt of that generation, nor while one of its operations is unknown (one completed by inspection no longer is)", judge: judgeG6,
		types: []event.Type{event.TypeGenerationFinished}},
	{ID: "G7", Sentence: "no `finished` while a `user` or `steer` input that 5.4 (3) counts, accepted before its final checkpoint, is pending", judge: judgeG7,
		types: []event.Type{event.TypeGenerationFinished}},
}

func judgeG1(l *look) {
	switch p := l.e.Payload.(type) {
	case event.GenerationStarted:
		if l.s.generations[p.GenerationID] != nil {
			l.say("generation %s was started before", p.GenerationID)
		} else if l.s.open != nil {
			l.sayMissing("generation %s starts while %s is open, without a terminal event", p.GenerationID, l.s.open.id)
		}
	case event.SessionClosed:
		if l.s.open != nil {
			l.sayMissing("generation %s has no terminal event", l.s.open.id)
		}
	case event.GenerationFinished:
		judgeTerminal(l, p.GenerationID)
	case event.GenerationFailed:
		judgeTerminal(l, p.GenerationID)
	case event.GenerationDetached:
		judgeTerminal(l, p.GenerationID)
	default:
		if id := generationNamed(p); id != "" && l.s.generations[id] == nil && l.s.open == nil {
			l.sayMissing("generation %q was never started", id)
		}
	}
}

func judgeTerminal(l *look, id string) {
	g := l.s.generations[id]
	switch {
	case g == nil:
		l.sayMissing("generation %q was never started", id)
	case g.ended && !g.lost:
		l.say("generation %s has had its terminal event", id)
	}
}

// generationNamed is the generation that an event inside of one names, ""
// if none. The start and the end of one are G1's.
func generationNamed(p event.Payload) string {
	switch p := p.(type) {
	case event.InputAccepted:
		return p.GenerationID
	case event.InputQueued:
		return p.GenerationID
	case event.InputDelivered:
		return p.GenerationID
	case event.InputHeld:
		return p.GenerationID
	case event.InputUnknown:
		return p.GenerationID
	case event.SteeringSent:
		return p.TargetGenerationID
	case event.SteeringAccepted:
		return p.TargetGenerationID
	case event.SteeringApplied:
		return p.TargetGenerationID
	case event.SteeringRefused:
		return p.TargetGenerationID
	case event.SteeringHeld:
		return p.TargetGenerationID
	case event.SteeringUnknown:
		return p.TargetGenerationID
	case event.AssistantMessage:
		return p.GenerationID
	case event.OperationAdmitted:
		return p.GenerationID
	case event.CheckpointSaved:
		return p.GenerationID
	case event.InvocationProposed:
		return p.GenerationID
	case event.JobQueued:
		return p.GenerationID
	}
	return ""
}

func judgeG2(l *look) {
	judgeLateEnding(l)
	id := generationNamed(l.e.Payload)
	if id == "" || l.s.isOpen(id) {
		return
	}
	switch p := l.e.Payload.(type) {
	case event.SteeringApplied:
		if p.Delivery == event.DeliveryNative && l.s.generations[id] != nil {
			return
		}
	}
	switch g := l.s.generations[id]; {
	case g != nil && g.lost:
		// Its terminal event is what is missing; G1 said so.
	case g != nil:
		l.say("it names generation %s, which has ended", id)
	case l.s.open != nil:
		l.sayMissing("it names generation %q, which never started; %s is open", id, l.s.open.id)
	}
}

// judgeLateEnding: what is said of an operation or an invocation after the end
// of its generation is late evidence and says so.
func judgeLateEnding(l *look) {
	var operation, invocation string
	var late bool
	switch p := l.e.Payload.(type) {
	case event.OperationDispatched:
		operation = p.OperationID
	case event.OperationCompleted:
		operation, late = p.OperationID, p.Late
	case event.OperationFailed:
		operation, late = p.OperationID, p.Late
	case event.OperationUnknown:
		operation = p.OperationID
	case event.OperationCancelled:
		operation = p.OperationID
	case event.InvocationCompleted:
		invocation, late = p.InvocationID, p.Late
	case event.InvocationFailed:
		invocation, late = p.InvocationID, p.Late
	default:
		return
	}
	var generation string
	if o := l.s.operations[operation]; o != nil {
		generation = o.generation
	}
	if v := l.s.invocations[invocation]; v != nil {
		generation = v.generation
	}
	if !late && l.s.ended(generation) {
		l.say("generation %s has ended; what comes after it is late evidence, and marked so", generation)
	}
}

func judgeG3(l *look) {
	var c event.Correlation
	switch p := l.e.Payload.(type) {
	case event.AssistantMessage:
		c = p.Correlation
	case event.GenerationFinished:
		c = p.Correlation
	case event.GenerationFailed:
		c = p.Correlation
	case event.GenerationDetached:
		c = p.Correlation
	}
	if !l.s.isOpen(c.GenerationID) || l.s.hole {
		return
	}
	g := l.s.open
	if !slices.Equal(c.InputIDs, g.inputs) {
		l.say("input_ids %q, want %q: what was delivered in, or applied to, %s, in order", c.InputIDs, g.inputs, g.id)
	} else if !slices.Equal(c.AcceptedInputIDs, g.accepted) {
		l.say("accepted_input_ids %q, want %q: what was accepted for %s and is not settled", c.AcceptedInputIDs, g.accepted, g.id)
	}
}

func judgeG4(l *look) {
	p := l.e.Payload.(event.GenerationFinished)
	if !l.s.isOpen(p.GenerationID) || l.s.hole {
		return
	}
	last := l.s.open.last()
	if last != nil && last.state != completed && last.parent == nil && len(l.s.open.operations) > 1 {
		// The last one never ran: the answer is of the one before it, or none.
		if before, _ := l.s.open.operations[len(l.s.open.operations)-2].text(); p.Text == before {
			return
		}
	}
	if want, known := last.text(); known && p.Text != want {
		l.say("text %s, want the last operation's, %s", short(p.Text), short(want))
	}
}

func judgeG5(l *look) {
	p := l.e.Payload.(event.GenerationFinished)
	if p.Disposition != event.DispositionFinished {
		l.say("disposition %q, want %s", p.Disposition, event.DispositionFinished)
	}
	if l.s.hole {
		return
	}
	got, want := slices.Sorted(slices.Values(p.ActiveJobIDs)), slices.Sorted(slices.Values(l.s.openJobs))
	if !slices.Equal(got, want) {
		l.say("active_job_ids %q, want the jobs that run now, %q", got, want)
	}
}

func judgeG6(l *look) {
	p := l.e.Payload.(event.GenerationFinished)
	if !l.s.isOpen(p.GenerationID) {
		return
	}
	for _, in := range l.s.open.fences {
		if !in.refusedCommand {
			l.sayMissing("generation %s was ended by %s (%s): want generation.detached", p.GenerationID, in.id, in.kind)
			return
		}
	}
	for _, o := range l.s.open.operations {
		if o.state == uncertain {
			l.sayMissing("operation %s of generation %s is unknown: want generation.detached", o.id, p.GenerationID)
			return
		}
	}
}

func judgeG7(l *look) {
	p := l.e.Payload.(event.GenerationFinished)
	if !l.s.isOpen(p.GenerationID) || !l.s.open.final || p.Continuation != nil {
		return // a task at its bounds ends; what is pending starts the next generation
	}
	for _, in := range l.s.pending {
		counts := in.isDue() && in.kind != event.KindService && (in.anchor == "" || in.anchor == p.GenerationID)
		if counts && in.order <= l.s.open.finalOrder {
			l.sayMissing("input %s was accepted before the final checkpoint and is pending: generation %s goes on with it", in.id, p.GenerationID)
			return
		}
	}
}

// short quotes a text for a message, cut to its first code points.
func short(s string) string {
	const most = 60
	runes := []rune(s[:min(len(s), 4*most)])
	if len(runes) <= most && len(s) <= 4*most {
		return quote(s)
	}
	return quote(string(runes[:min(len(runes), most)])) + "…"
}
