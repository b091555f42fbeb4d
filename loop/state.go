package loop

import (
	"slices"
	"time"

	"github.com/loopd/loopd/event"
)

// Phase is where a session stands.
type Phase int

// The phases of a session; the zero value is a session without events.
const (
	PhaseNew Phase = iota
	PhaseUnclaimed
	PhaseOpen
	PhaseClosed
	PhaseBroken
)

func (p Phase) String() string {
	return [...]string{"new", "unclaimed", "open", "closed", "broken"}[p]
}

// State is what is open in one session: the fold of its events, and the Config
// it runs by.
type State struct {
	Config    Config
	SessionID string
	Seq       event.Seq   // of the last event folded
	Epoch     event.Epoch // the last one claimed
	Prev      string      // event.Digest of the last event's stored bytes
	Phase     Phase
	Broken    string // PhaseBroken: which fact was impossible
	InboxSeq  uint64 // the last input taken from the inbox

	Inputs     []Input      // content that is open, in the order of acceptance
	Commands   []Input      // accepted commands without effect yet, in that order
	Stop       *Input       // the accepted stop
	StopActive bool         // a generation was active when it was accepted
	Generation *Generation  // the open generation, nil = none
	Jobs       []Job        // open jobs, in the order of job.queued
	Tasks      []Task       // of the open generation, of stopped chains, and those hosts named
	Stopped    []Stopped    // chains that a decision may continue
	Strays     []Operation  // unknown operations of ended generations: inspected on demand only
	Loose      []Invocation // uncertain invocations of ended generations
	Busy       bool         // something happened since the last session.idle
	LastText   string       // of the last finished generation
}

// InputPhase is how far an open content input has come.
type InputPhase int

// The phases of an open content input. The first three are pending (contract,
// section 1).
const (
	InputWaiting  InputPhase = iota // accepted, no route yet
	InputAnchored                   // steering.accepted (request_boundary)
	InputQueued                     // waits for a boundary
	InputSent                       // steering.sent, unanswered
	InputOwned                      // steering.accepted (native)
	InputUnknown                    // its native attempt is unknown; the provider may still apply it
)

// Input is an accepted input that is still open.
type Input struct {
	event.Input
	Phase        InputPhase
	Seq          event.Seq   // of its input.accepted
	GenerationID string      // InputSent, InputOwned, InputUnknown: the target
	Epoch        event.Epoch // InputSent: whose attempt
	Refused      bool        // the provider said no: it takes the boundary queue, once
}

// Pending reports whether the input waits to enter a context.
func (i Input) Pending() bool { return i.Phase <= InputQueued }

// Anchored reports whether the input names its generation (contract 5.3).
func (i Input) Anchored() bool { return i.TargetGenerationID != "" }

// steers reports whether the input counts for the yield of contract 5.4 (3).
func (i Input) steers() bool { return i.Kind == event.KindUser || i.Kind == event.KindSteer }

// Generation is the open manager turn.
type Generation struct {
	ID             string
	InitialInputID string
	TaskID         string
	Bounds         event.Bounds
	InputIDs       []string // contract 5.6
	AcceptedIDs    []string // contract 5.6
	OperationIDs   []string
	LeadID         string // id of the event that the next operation follows from

	Initial     *Input   // the initial input until it is delivered
	Taken       bool     // the batch of the coming boundary is fixed
	Batch       []string // inputs of that batch, not delivered yet
	Fresh       bool     // user or steer content was delivered since the last operation
	Observation *Input   // a delivered service input whose observation.received is due
	Applied     string   // a delivered anchored input whose steering.applied is due

	Operation   *Operation   // the current or last one
	Chain       Chain        // the text of its chain
	Invocations []Invocation // of the last operation that proposed any
	Cutoff      *Checkpoint  // saved after the last operation
	Final       string       // id of the final checkpoint after the last operation
	Claim       *Claim       // continuation.started, its operation not admitted yet
	Halt        *event.Continuation
	Interrupt   string // input id of the interrupt that ends it
	Abandon     string // input id of the decision that gives its unknown operation up
}

// Chain is the merged text of an operation and those it continues.
type Chain struct {
	Text     string
	Segment  int    // of its last operation
	Base     int    // the segment after which the bounds in force count (a decision grants a further set)
	Stagnant int    // consecutive segments that added nothing
	before   string // Text before its last operation
}

// Checkpoint is a saved cutoff.
type Checkpoint struct {
	ID      string
	EventID string
}

// Claim is the one continuation of a checkpoint.
type Claim struct {
	CheckpointID, ParentID, OperationID string
	Segment                             int
}

// Stopped is a chain that ended at a bound and may be continued by a decision,
// once.
type Stopped struct {
	CheckpointID, OperationID, TaskID string
	ServiceID, Revision               string
	Segment                           int
	Text                              string
	Bounds                            event.Bounds
}

// OperationPhase is how far an operation has come.
type OperationPhase int

// The phases of an operation.
const (
	OperationAdmitted OperationPhase = iota
	OperationDispatched
	OperationCompleted
	OperationFailed
	OperationUnknown
	OperationCancelled
)

// Operation is one model request.
type Operation struct {
	ID            string
	GenerationID  string
	Segment       int
	ParentID      string
	CheckpointID  string
	ServiceID     string
	Revision      string
	RequestDigest string
	Phase         OperationPhase
	Epoch         event.Epoch // of its dispatch
	Reason        string      // OperationUnknown: why
	EndID         string      // id of the event that ended it
	Completed     event.OperationCompleted
	Failed        event.OperationFailed
	Handled       int // calls proposed or withheld
	Proposed      int // calls proposed
	Look          Look
}

// Look is the last look-up of an original.
type Look struct {
	Observed event.Observed // "" = none in this epoch
	Times    int            // consecutive pending ones
	At       time.Time
}

// inFlight reports whether the operation was dispatched and has not ended.
func (o *Operation) inFlight() bool { return o != nil && o.Phase == OperationDispatched }

// InvocationPhase is how far a proposed call has come.
type InvocationPhase int

// The phases of an invocation.
const (
	InvocationProposed InvocationPhase = iota
	InvocationAwaiting
	InvocationApproved
	InvocationDispatched
	InvocationUncertain
	InvocationCompleted
	InvocationFailed
	InvocationDenied
	InvocationReconciled
	InvocationWithdrawn
)

// Invocation is one proposed tool call.
type Invocation struct {
	event.InvocationProposed
	Phase InvocationPhase
	Epoch event.Epoch // of its last dispatch
	JobID string
	Look  Look
}

// Settled reports whether the model can be given its result.
func (i Invocation) Settled() bool { return i.Phase >= InvocationCompleted }

// open reports whether it was neither dispatched nor ended.
func (i Invocation) open() bool { return i.Phase <= InvocationApproved }

// JobPhase is how far a job has come.
type JobPhase int

// The phases of a job that is still kept.
const (
	JobRunning JobPhase = iota
	JobCancelRequested
	JobReported // it ended with a result whose service input is not accepted yet
)

// Job is delegated work.
type Job struct {
	event.JobQueued
	Arguments string
	Phase     JobPhase
	Epoch     event.Epoch
	Result    string
	Failed    bool
	EndID     string
	CancelBy  string // input id of the cancel_job that was carried out
}

// running reports whether the job counts as active.
func (j Job) running() bool { return j.Phase != JobReported }

// Task is what bounds count over (contract 6.2).
type Task struct {
	ID        string
	Named     bool // a host gave the id
	Started   time.Time
	Granted   Granted // where the bounds in force begin to count
	Tokens    int64
	Cost      float64
	Bounds    event.Bounds // the narrowest that any of its inputs asked for
	Completed []string     // its invocation.completed, in order
	Writes    []Write
}

// Granted is what a task had used when a decision granted it one further set
// of bounds; zero before.
type Granted struct {
	At     time.Time
	Tokens int64
	Cost   float64
}

// Write is a proposed write of a task, for contract 6.3 (repeats).
type Write struct {
	InvocationID, Tool, Digest string
	Dispatched                 bool
	Phase                      InvocationPhase
}

// New is the state of a session without events.
func New(session string, config Config) State {
	return State{SessionID: session, Config: config.withDefaults()}
}

// clone copies what Evolve may change.
func (s State) clone() State {
	s.Inputs = slices.Clone(s.Inputs)
	s.Commands = slices.Clone(s.Commands)
	s.Jobs = slices.Clone(s.Jobs)
	s.Tasks = slices.Clone(s.Tasks)
	s.Stopped = slices.Clone(s.Stopped)
	s.Strays = slices.Clone(s.Strays)
	s.Loose = slices.Clone(s.Loose)
	if s.Generation == nil {
		return s
	}
	g := *s.Generation
	g.InputIDs = slices.Clone(g.InputIDs)
	g.AcceptedIDs = slices.Clone(g.AcceptedIDs)
	g.OperationIDs = slices.Clone(g.OperationIDs)
	g.Batch = slices.Clone(g.Batch)
	g.Invocations = slices.Clone(g.Invocations)
	if g.Operation != nil {
		op := *g.Operation
		g.Operation = &op
	}
	s.Generation = &g
	return s
}

func (s *State) input(id string) *Input {
	for i := range s.Inputs {
		if s.Inputs[i].InputID == id {
			return &s.Inputs[i]
		}
	}
	return nil
}

func (s *State) dropInput(id string) {
	s.Inputs = slices.DeleteFunc(s.Inputs, func(in Input) bool { return in.InputID == id })
}

func (s *State) dropCommand(id string) {
	s.Commands = slices.DeleteFunc(s.Commands, func(in Input) bool { return in.InputID == id })
}

func (s *State) job(id string) *Job {
	for i := range s.Jobs {
		if s.Jobs[i].JobID == id {
			return &s.Jobs[i]
		}
	}
	return nil
}

func (s *State) dropJob(id string) {
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j Job) bool { return j.JobID == id })
}

func (s *State) task(id string) *Task {
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	return nil
}

func (s *State) stopped(checkpoint string) *Stopped {
	for i := range s.Stopped {
		if s.Stopped[i].CheckpointID == checkpoint {
			return &s.Stopped[i]
		}
	}
	return nil
}

// invocation finds an open invocation: of the open generation, or uncertain
// and left over from an ended one.
func (s *State) invocation(id string) *Invocation {
	if g := s.Generation; g != nil {
		for i := range g.Invocations {
			if g.Invocations[i].InvocationID == id {
				return &g.Invocations[i]
			}
		}
	}
	for i := range s.Loose {
		if s.Loose[i].InvocationID == id {
			return &s.Loose[i]
		}
	}
	return nil
}

// operation finds the open generation's operation, or a stray.
func (s *State) operation(id string) *Operation {
	if g := s.Generation; g != nil && g.Operation != nil && g.Operation.ID == id {
		return g.Operation
	}
	for i := range s.Strays {
		if s.Strays[i].ID == id {
			return &s.Strays[i]
		}
	}
	return nil
}

// activeJobs are the ids of the jobs still running.
func (s *State) activeJobs() []string {
	ids := []string{}
	for _, j := range s.Jobs {
		if j.running() {
			ids = append(ids, j.JobID)
		}
	}
	return ids
}

// pendingInputs are the content inputs that wait to enter a context.
func (s *State) pendingInputs() []Input {
	var pending []Input
	for _, in := range s.Inputs {
		if in.Pending() {
			pending = append(pending, in)
		}
	}
	return pending
}

// correlation is contract 5.6 at this point.
func (g *Generation) correlation() event.Correlation {
	return event.Correlation{GenerationID: g.ID, InputIDs: slices.Clone(g.InputIDs), AcceptedInputIDs: slices.Clone(g.AcceptedIDs)}
}
