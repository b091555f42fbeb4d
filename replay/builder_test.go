package replay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
)

// script is one session's log as a test tells it: facts, in order. The chain,
// the sequences and the ids are made when it is stored, so that facts can be
// dropped, repeated and changed, and the log is still well chained.
type script struct {
	session string
	facts   []fact
	epoch   event.Epoch
	inbox   uint64
	clock   time.Time
}

type fact struct {
	label   string // for tests to find it: its type, or type/id
	epoch   event.Epoch
	cause   string // "@n" = the id of fact n
	at      time.Time
	payload event.Payload
	raw     []byte // stored as they are, if set
}

// newScript is a session that is opened and claimed.
func newScript() *script {
	s := &script{session: "s", epoch: 1, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return s.add(event.SessionOpened{Mode: "loop", Steering: "native", Provider: "p", Tools: []string{}},
		event.SessionClaimed{Owner: "a"})
}

// add appends facts.
func (s *script) add(payloads ...event.Payload) *script {
	for _, p := range payloads {
		s.clock = s.clock.Add(time.Millisecond)
		s.facts = append(s.facts, fact{label: string(p.Type()), epoch: s.epoch, at: s.clock, payload: p})
	}
	return s
}

// because appends one fact with a cause.
func (s *script) because(cause string, p event.Payload) *script {
	s.add(p)
	s.facts[len(s.facts)-1].cause = cause
	return s
}

// claim begins a new epoch.
func (s *script) claim() *script {
	s.epoch++
	return s.add(event.SessionClaimed{Owner: "b", ResumedFrom: event.Seq(len(s.facts))})
}

// body is an input as a host sends it: pairs of names and values.
func body(pairs ...string) []byte {
	fields := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	b, err := json.Marshal(fields, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// accept takes an input: pairs of fields beside input_id and kind.
func (s *script) accept(id, kind string, pairs ...string) *script {
	return s.add(s.accepted(id, kind, pairs...))
}

func (s *script) accepted(id, kind string, pairs ...string) event.InputAccepted {
	s.inbox++
	if slices.Contains([]string{"user", "steer", "service"}, kind) && !slices.Contains(pairs, "text") {
		pairs = append(pairs, "text", "text of "+id)
	}
	b := body(append([]string{"input_id", id, "kind", kind}, pairs...)...)
	in, err := event.ParseInput(b)
	if err != nil {
		panic(err)
	}
	return event.InputAccepted{InputID: id, Kind: in.Kind, Source: in.EffectiveSource(), Target: in.Target,
		Digest: event.InputDigest(b), Input: b, InboxSeq: s.inbox}
}

func (s *script) reject(id, reason string, pairs ...string) *script {
	s.inbox++
	b := body(append([]string{"input_id", id, "kind", "user"}, pairs...)...)
	return s.add(event.InputRejected{InputID: id, Digest: event.InputDigest(b), Reason: reason, InboxSeq: s.inbox})
}

// turn begins generation g with input id: accepted, started, delivered.
func (s *script) turn(g, id string) *script {
	return s.accept(id, "user").start(g, id)
}

func (s *script) start(g, id string) *script {
	return s.add(started(g, id), delivered(id, "new_turn", g))
}

func started(g, id string) event.GenerationStarted {
	return event.GenerationStarted{GenerationID: g, InitialInputID: id, TaskID: "t", Bounds: event.Bounds{MaxSegments: 3, NoProgress: 2}}
}

func delivered(id, how, g string) event.InputDelivered {
	return event.InputDelivered{InputID: id, Delivery: how, Source: "user", GenerationID: g}
}

func queued(id, g string) event.InputQueued {
	return event.InputQueued{InputID: id, Delivery: "request_boundary", Source: "user", GenerationID: g}
}

// ask admits and dispatches operation o of generation g.
func (s *script) ask(o, g string) *script {
	return s.add(admittedFact(o, g), event.OperationDispatched{OperationID: o})
}

func admittedFact(o, g string) event.OperationAdmitted {
	return event.OperationAdmitted{OperationID: o, GenerationID: g, Segment: 1, ServiceID: "p", DescriptorRevision: "1", RequestDigest: "r"}
}

// answer completes operation o.
func (s *script) answer(o string, finish event.Finish, text string, calls ...event.ToolCall) *script {
	return s.add(answered(o, finish, text, calls...))
}

func answered(o string, finish event.Finish, text string, calls ...event.ToolCall) event.OperationCompleted {
	return event.OperationCompleted{OperationID: o, FinishReason: string(finish), Finish: finish, Text: text, ToolCalls: calls, ResponseDigest: "d"}
}

// save saves a checkpoint that measures text.
func (s *script) save(id, kind, g, o string, segment int, text string, invocations ...string) *script {
	finish := event.FinishStop
	if kind == event.CheckpointCutoff {
		finish = event.FinishOutputBudget
	}
	return s.add(event.CheckpointSaved{CheckpointID: id, Kind: kind, GenerationID: g, TaskID: "t", OperationID: o, ServiceID: "p",
		DescriptorRevision: "1", Finish: finish, Segment: segment, Invocations: invocations,
		Delivered: event.Delivered{Bytes: int64(len(text)), Digest: event.Digest([]byte(text))}})
}

// finish saves the final checkpoint of generation g and ends it.
func (s *script) finish(g, o, text string, inputs ...string) *script {
	return s.save("final-"+g+"-"+o, event.CheckpointFinal, g, o, 1, text).add(finished(g, text, inputs...))
}

func finished(g, text string, inputs ...string) event.GenerationFinished {
	return event.GenerationFinished{Correlation: lists(g, inputs...), Text: text, Disposition: "manager_turn_finished",
		ActiveJobIDs: []string{}, OperationIDs: []string{}}
}

func lists(g string, inputs ...string) event.Correlation {
	return event.Correlation{GenerationID: g, InputIDs: inputs, AcceptedInputIDs: []string{}}
}

func failedGeneration(g string, inputs ...string) event.GenerationFailed {
	return event.GenerationFailed{Correlation: lists(g, inputs...), ErrorType: "provider", Stage: "provider_request"}
}

func detached(g, reason string, inputs ...string) event.GenerationDetached {
	return event.GenerationDetached{Correlation: lists(g, inputs...), Cancellation: "unconfirmed", Reason: reason}
}

// simple is one whole turn.
func simple() *script {
	return newScript().turn("g1", "in-1").ask("o1", "g1").answer("o1", "stop", "Hello.").finish("g1", "o1", "Hello.", "in-1")
}

// stop closes an idle session.
func (s *script) stopIdle() *script {
	return s.accept("stop-1", "stop").because("stop-1", event.SessionClosed{Status: "completed"})
}

func toolCall(id, tool, arguments string) event.ToolCall {
	return event.ToolCall{ID: id, Name: tool, Arguments: arguments, Closed: true}
}

func argsDigest(arguments string) string {
	d, err := event.ArgumentsDigest(arguments)
	if err != nil {
		panic(err)
	}
	return d
}

func proposed(v, call, o, g, tool, arguments, effect, approval string) event.InvocationProposed {
	return event.InvocationProposed{InvocationID: v, ToolCallID: call, OperationID: o, GenerationID: g, Tool: tool,
		InputDigest: argsDigest(arguments), Arguments: arguments, Effect: effect, Approval: approval}
}

// records are the stored log, well chained.
func (s *script) records() []event.Record {
	var all []event.Record
	prev := ""
	for i, f := range s.facts {
		data := f.raw
		if data == nil {
			data = s.encode(i, f, prev)
		}
		prev = event.Digest(data)
		all = append(all, event.Record{StreamSeq: uint64(i + 1), Subject: "loop.ev." + s.session + "." + f.label, Data: data})
	}
	return all
}

func (s *script) encode(i int, f fact, prev string) []byte {
	cause := f.cause
	if n, ok := strings.CutPrefix(cause, "@"); ok {
		var at int
		if _, err := fmt.Sscan(n, &at); err != nil {
			panic(err)
		}
		cause = eventID(at)
	}
	e, err := event.Encode(event.Event{ID: eventID(i), SessionID: s.session, Sequence: event.Seq(i + 1), Epoch: f.epoch,
		Time: f.at, Prev: prev, Cause: cause, Payload: f.payload})
	if err != nil {
		panic(err)
	}
	return e.Stored()
}

// eventID is the id of the i-th fact.
func eventID(i int) string {
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := []byte("01KE0000000000000000000000")
	n := binary.BigEndian.Uint64(binary.BigEndian.AppendUint64(nil, uint64(i)))
	for at := len(id) - 1; n > 0; at-- {
		id[at] = crockford[n%32]
		n /= 32
	}
	return string(id)
}

// clone is a copy that can be changed.
func (s *script) clone() *script {
	c := *s
	c.facts = slices.Clone(s.facts)
	return &c
}

// index finds the n-th fact of a type (from 0).
func (s *script) index(typ event.Type, n int) int {
	for i, f := range s.facts {
		if f.payload != nil && f.payload.Type() == typ {
			if n == 0 {
				return i
			}
			n--
		}
	}
	panic(fmt.Sprintf("no such fact: %s %d", typ, n))
}

func (s *script) drop(typ event.Type, n int) *script {
	i := s.index(typ, n)
	s.facts = slices.Delete(s.facts, i, i+1)
	return s
}

func (s *script) repeat(typ event.Type, n int) *script {
	i := s.index(typ, n)
	s.facts = slices.Insert(s.facts, i+1, s.facts[i])
	return s
}

// insert puts facts right before the n-th fact of a type.
func (s *script) insert(typ event.Type, n int, payloads ...event.Payload) *script {
	i := s.index(typ, n)
	for j, p := range payloads {
		s.facts = slices.Insert(s.facts, i+j, fact{label: string(p.Type()), epoch: s.facts[max(i-1, 0)].epoch, at: s.facts[i].at, payload: p})
	}
	return s
}

// swap exchanges two facts.
func (s *script) swap(a event.Type, an int, b event.Type, bn int) *script {
	i, j := s.index(a, an), s.index(b, bn)
	s.facts[i], s.facts[j] = s.facts[j], s.facts[i]
	return s
}

// edit changes the n-th fact of a payload type.
func edit[P event.Payload](s *script, n int, change func(*P)) *script {
	var zero P
	i := s.index(zero.Type(), n)
	p := s.facts[i].payload.(P)
	change(&p)
	s.facts[i].payload = p
	return s
}

// audit is what the auditor says of a log.
func audit(t *testing.T, s *script) []Finding {
	t.Helper()
	return auditRecords(t, s.records())
}

func auditRecords(t *testing.T, records []event.Record) []Finding {
	t.Helper()
	var all []Finding
	for f, err := range Audit(feed(records), Config{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func feed(records []event.Record) event.Feed {
	return func(yield func(event.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// keeps: a log that no rule has anything to say about.
func keeps(t *testing.T, name string, s *script) {
	t.Helper()
	for _, f := range audit(t, s) {
		t.Errorf("%s: false alarm: %s at %d: %s", name, f.Rule, f.Sequence, f.Message)
	}
}

// breaks: a log in which the rule is found once, and beside it only the
// others named (which the same fault breaks too; the rule itself among them
// means that the fault breaks it in several places).
func breaks(t *testing.T, rule, name string, s *script, others ...string) {
	t.Helper()
	findings := audit(t, s)
	n := 0
	for _, f := range findings {
		switch {
		case f.Rule == rule:
			n++
		case !slices.Contains(others, f.Rule):
			t.Errorf("%s %s: also %s at %d: %s", rule, name, f.Rule, f.Sequence, f.Message)
		}
	}
	if n != 1 && !(n > 1 && slices.Contains(others, rule)) {
		t.Errorf("%s %s: found %d times, want once; all: %v", rule, name, n, rulesOf(findings))
	}
}

func rulesOf(findings []Finding) []string {
	var ids []string
	for _, f := range findings {
		ids = append(ids, f.Rule)
	}
	return ids
}
