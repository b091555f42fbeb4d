package replay

import (
	"slices"
	"time"

	"github.com/loopd/loopd/event"
)

// session is the ledger of one session: what its log has said so far. Only
// fold changes it; rules only read it.
type session struct {
	id   string
	told int // findings of this session

	// Chain and ownership (E1, E3, E4).
	next    event.Seq // the sequence that is due
	back    event.Seq // after a step back: the sequence due if the writer counts on from there, else 0
	prev    string    // digest of the last stored bytes
	hole    bool      // events are missing
	epoch   event.Epoch
	claimed bool // the epoch began with session.claimed
	opened  bool
	closed  bool
	idle    bool // session.idle was the last word on its work

	// Inputs.
	inputs   map[string]*input
	pending  []*input          // accepted content without a final word, in order of acceptance
	order    int               // inputs accepted so far
	inbox    taken             // the last input taken from the inbox
	commands map[string]*input // by the id of their input.accepted, until they are settled
	fenced   bool              // a stop was accepted
	stopped  stopped
	boundary int // highest order of acceptance that a boundary delivered
	barrier  int // lowest order of the batch that a boundary delivered and no operation.admitted followed; 0 = none

	// Work.
	generations   map[string]*generation
	open          *generation
	operations    map[string]*operation
	flight        *operation // dispatched, not ended
	checkpoints   map[string]*checkpoint
	continuations map[string]event.ContinuationStarted // by operation id, until it is admitted
	invocations   map[string]*invocation
	proposals     int
	tasks         map[string]*task
	jobs          map[string]*job
	openJobs      []string
	late          map[string]bool // ids of events that are late evidence
}

// taken is one input.accepted or input.rejected.
type taken struct {
	seq         uint64
	id, digest  string
	wasAccepted bool
}

// stopped is how the session stood when its stop was accepted (P11).
type stopped struct {
	active  bool // a generation was open, or the stop's target was cancel
	pending bool // content was pending
}

// input is what the log said of one input. An input that the log speaks of
// without having taken it is adopted: accepted, of a kind nobody knows.
type input struct {
	id, digest, source          string
	kind                        event.Kind
	target, anchor              string
	verdict, argsDigest         string
	attachments                 bool
	order                       int
	sequence                    event.Seq // of input.accepted
	adopted, accepted, rejected bool      // rejected: for another reason than identity_conflict
	queued                      bool
	sent, refused, owned        bool   // native: steering.sent, refused, accepted
	anchored                    bool   // steering.accepted (request_boundary)
	steered                     string // the generation of steering.accepted
	delivered, applied          bool
	held, withdrawn, unknown    bool
	listed                      bool // an event's input_ids claim its delivery, which is missing
	forgotten                   bool // a finding said that it was left pending: once is enough
	unknownNative               bool
	settled                     bool // a command: it had its effect or its command.rejected
	refusedCommand              bool // a command: command.rejected
	counted                     bool // a decision: it decided
}

// isPending is the contract's word (section 1): accepted content without a
// final word, not sent to or owned by a provider.
func (in *input) isPending() bool {
	return in.accepted && in.kind.Content() && !in.final() && !in.delivered && !in.applied && !in.listed && !in.withProvider()
}

// isDue is isPending, for the rules that say what may not happen meanwhile.
func (in *input) isDue() bool { return in.isPending() && !in.forgotten }

func (in *input) final() bool { return in.held || in.withdrawn || in.unknown }

func (in *input) withProvider() bool { return in.sent && !in.refused }

// waits reports that it waits for a boundary (5.1, the barrier).
func (in *input) waits() bool {
	return in.isDue() && (in.queued || in.refused || in.anchored)
}

func (in *input) lastWord() string {
	switch {
	case in.held:
		return "held"
	case in.withdrawn:
		return "withdrawn"
	case in.unknown:
		return "unknown"
	case in.rejected && !in.accepted:
		return "rejected"
	}
	return ""
}

// generation is one manager turn.
type generation struct {
	id, task, initial string
	bounds            event.Bounds
	grant             *checkpoint // a decision granted this checkpoint's continuation
	inputs            []string    // contract 5.6: input_ids
	accepted          []string    // contract 5.6: accepted_input_ids
	deliveries        int
	operations        []*operation
	fences            []*input // stops and interrupts of it
	final             bool     // a final checkpoint, and no operation since
	finalOperation    string
	finalOrder        int // inputs accepted before that checkpoint
	ended             bool
	lost              bool // ended for the ledger only: the log never said so
}

func (g *generation) last() *operation {
	if len(g.operations) == 0 {
		return nil
	}
	return g.operations[len(g.operations)-1]
}

// ending is how an operation ended.
type ending int

const (
	running ending = iota
	completed
	failed
	uncertain
	cancelled
)

func (e ending) String() string {
	return [...]string{"running", "completed", "failed", "unknown", "cancelled"}[e]
}

// operation is one model request.
type operation struct {
	id, generation, task string
	segment              int
	parent               *operation
	service, revision    string
	dispatched           bool
	state                ending
	inspected            bool // looked up since it became unknown
	finish               event.Finish
	veto                 string
	late                 bool // its answer is late evidence: no part of the work
	merged               string
	idle                 int // consecutive segments, this the last, that added nothing
	calls                []call
	resumable            bool // a cutoff checkpoint stands on it, not continued
	completedAt          event.Seq
	guessed              bool // its ending is missing: nobody knows its text
}

// authorises reports that its calls may be proposed.
func (o *operation) authorises() bool {
	return o.state == completed && o.finish == event.FinishToolCalls && o.veto == ""
}

// text is the merged text of its chain up to it (6.2); false if the log does
// not show it.
func (o *operation) text() (string, bool) {
	for o != nil && (o.state != completed || o.late) {
		o = o.parent
	}
	if o == nil {
		return "", true
	}
	return o.merged, !o.guessed
}

// guess ends an operation whose ending is missing.
func (o *operation) guess(finish event.Finish) {
	o.state, o.finish, o.guessed = completed, finish, true
}

// call is one tool call of a response.
type call struct {
	id, tool, arguments string
	proposed, withheld  bool
}

// find is the place of the call that a proposal or a withholding speaks of,
// -1 if the response has no such call. A provider may leave ids out.
func (o *operation) find(id, tool string) int {
	spare := -1
	for i, c := range o.calls {
		switch {
		case c.proposed || c.withheld || c.tool != tool:
		case c.id == id:
			return i
		case c.id == "" && spare < 0:
			spare = i
		}
	}
	return spare
}

// checkpoint is a saved place.
type checkpoint struct {
	id, kind, operation string
	segment             int
	spent               event.Spent
	at                  time.Time
	started, stopped    bool
}

// invocation is one tool call that was proposed.
type invocation struct {
	id, operation, generation, task string
	tool, digest, effect, repeats   string
	required                        bool // approval: required
	order, dispatchOrder            int
	decided, approved, denied       bool
	withdrawn                       bool
	dispatches                      int
	epoch                           event.Epoch // of its last dispatch
	completed, failed, uncertain    bool
	reconciled, abandoned           bool
}

func (v *invocation) ended() bool {
	return v.completed || v.failed || v.denied || v.withdrawn || v.uncertain || v.reconciled || v.abandoned
}

// task is the work that one or more generations do under one task id.
type task struct {
	completed  []string // invocation.completed, in order
	receipts   []receipt
	approvals  []approval
	writes     []*invocation
	operations []*operation
}

type receipt struct {
	invocation string
	at         event.Seq
}

type approval struct {
	invocation, decidedBy string
	at                    event.Seq
}

// job is delegated work.
type job struct {
	id        string
	ended     string // its ending, "" while it runs
	recovered bool
}

func newSession(id string) *session {
	return &session{
		id: id, next: 1,
		inputs: map[string]*input{}, commands: map[string]*input{},
		generations: map[string]*generation{}, operations: map[string]*operation{},
		checkpoints: map[string]*checkpoint{}, continuations: map[string]event.ContinuationStarted{},
		invocations: map[string]*invocation{}, tasks: map[string]*task{}, jobs: map[string]*job{},
		late: map[string]bool{},
	}
}

// isOpen reports that id is the open generation's.
func (s *session) isOpen(id string) bool { return s.open != nil && s.open.id == id }

// ended reports that the log has ended this generation.
func (s *session) ended(id string) bool {
	g := s.generations[id]
	return g != nil && g.ended && !g.lost
}

func (s *session) task(id string) *task {
	t := s.tasks[id]
	if t == nil {
		t = &task{}
		s.tasks[id] = t
	}
	return t
}

// equals are the writes of a task that a proposal repeats, oldest first.
func (s *session) equals(p event.InvocationProposed) []*invocation {
	g := s.generations[p.GenerationID]
	if g == nil || s.tasks[g.task] == nil {
		return nil
	}
	var found []*invocation
	for _, v := range s.tasks[g.task].writes {
		if v.id != p.InvocationID && v.tool == p.Tool && v.digest == p.InputDigest {
			found = append(found, v)
		}
	}
	return found
}

// unanswered is the steering.sent that waits for its answer, nil if none.
func (s *session) unanswered() *input {
	for _, in := range s.pending {
		if in.withProvider() && !in.owned {
			return in
		}
	}
	return nil
}

func remove(ids []string, id string) []string {
	if i := slices.Index(ids, id); i >= 0 {
		return slices.Delete(slices.Clone(ids), i, i+1)
	}
	return ids
}
