package scenario

import (
	"time"

	"github.com/loopd/loopd/event"
	providerscript "github.com/loopd/loopd/internal/provider/scripted"
	toolscript "github.com/loopd/loopd/internal/tool/scripted"
	"github.com/loopd/loopd/loop"
)

// A Scenario is one file, read and checked; every part keeps its line.
type Scenario struct {
	File    string
	About   string
	Session string // default "s"
	Loop    loop.Config
	Host    []Step

	Provider     []providerscript.Entry
	Requests     []Request // what each provider entry expects, same index
	ProviderLine int       // where the list of entries stands
	Tools        map[string][]toolscript.Entry
	ToolLines    map[string]int // where each tool's list stands

	Expect     []Pattern
	Never      []Pattern
	Count      []Count
	Effects    []Effect
	Asked      *Asked // requests: how often the provider was really asked
	Projection []Row

	inputs map[string]bool // the ids that the host submits
}

// A Step is one act of the host.
type Step struct {
	Line int
	Do   Act
}

// Act is what a step does.
type Act interface{ act() }

type (
	// Submit publishes an input and waits for the log's ack.
	Submit struct {
		Fields []Field
		Repeat int // > 0: so many, the ids numbered from 1
	}
	// Await waits for the next matching event after the last one awaited.
	Await struct {
		All     []Pattern // each of them, in any order
		Any     []Pattern // the first of them; exactly one of the two is set
		Timeout time.Duration
	}
	// Open opens a gate for good.
	Open struct{ Gate string }
	// Crash kills an owner now, or (with At) whoever passes that point next.
	Crash struct {
		Owner string
		At    *Point
	}
	// Start runs an owner on the same log.
	Start struct {
		Owner string
		Claim bool
	}
	// Claim makes an owner take the session over.
	Claim struct{ Owner string }
	// Hold stops the next owner that passes a point until a gate opens.
	Hold struct {
		At    Point
		Until string
	}
	// Inspect asks for a look-up of an operation now.
	Inspect struct{ Operation any }
	// Advance moves the clock.
	Advance struct{ By time.Duration }
	// Rebuild drops the projections, folds the log again, and compares.
	Rebuild struct{}
)

func (Submit) act()  {}
func (Await) act()   {}
func (Open) act()    {}
func (Crash) act()   {}
func (Start) act()   {}
func (Claim) act()   {}
func (Hold) act()    {}
func (Inspect) act() {}
func (Advance) act() {}
func (Rebuild) act() {}

// A Field is one field of an input, in the order of the file.
type Field struct {
	Key   string
	Value any
}

// A Point is a place around an append: before:TYPE, after:TYPE, stored:TYPE.
type Point struct {
	When string
	Type event.Type
}

// The places of a point. After and stored differ in what the server said to
// the owner: an ack, or nothing.
const (
	Before = "before"
	After  = "after"
	Stored = "stored"
)

func (p Point) String() string { return p.When + ":" + string(p.Type) }

// A Pattern is a map that an event matches when each given key matches.
type Pattern struct {
	Line   int
	Fields map[string]any
	source string
}

func (p Pattern) String() string { return p.source }

// A Count is a pattern and how many events match it.
type Count struct {
	Pattern
	N int
}

// An Effect says how often a tool really ran.
type Effect struct {
	Line int
	Tool string
	N    int
}

// Asked says how often the provider was really asked.
type Asked struct {
	Line int
	N    int
}

// A Row is what a projection's row holds in the end.
type Row struct {
	Pattern
	Kind string // session, input, generation, operation, invocation, job or checkpoint
	ID   any    // a string, or a $name
}

// A Request is what a provider entry expects of the context.
type Request struct {
	Line        int
	Contains    []string
	NotContains []string
	Roles       []loop.Role
}

// awaitTimeout bounds an await that names no timeout, in real time.
const awaitTimeout = 10 * time.Second
