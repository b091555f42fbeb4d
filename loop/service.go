package loop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/loopd/loopd/event"
)

// Role says who speaks in a message of a request's context.
type Role string

// The roles of a context.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a request's context. Assistant messages may carry
// the calls they made; each call is answered by one RoleTool message.
type Message struct {
	Role        Role             `json:"role"`
	Text        string           `json:"text"`
	InputIDs    []string         `json:"input_ids,omitempty"`    // the inputs that it carries
	Attachments []event.RawJSON  `json:"attachments,omitempty"`  // of those inputs, as they came
	ToolCalls   []event.ToolCall `json:"tool_calls,omitempty"`   // RoleAssistant: the calls that were proposed
	ToolCallID  string           `json:"tool_call_id,omitempty"` // RoleTool: which call this answers
	Tool        string           `json:"tool,omitempty"`         // RoleTool: its name
	OperationID string           `json:"operation_id,omitempty"` // RoleAssistant: whose answer it is
	Partial     bool             `json:"partial,omitempty"`      // RoleAssistant: cut off by the output budget; what follows continues it
}

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	Parameters  event.RawJSON `json:"parameters,omitempty"` // JSON Schema of the arguments; empty = any object
}

// Request is one model request, the same for every wire protocol.
type Request struct {
	SessionID    string     `json:"-"`
	GenerationID string     `json:"-"`
	OperationID  string     `json:"-"`
	Segment      int        `json:"segment"`
	Messages     []Message  `json:"messages"`
	Tools        []ToolSpec `json:"tools,omitempty"`
	OutputBudget int64      `json:"output_budget,omitempty"` // tokens, 0 = the provider's default
}

// Digest identifies what is asked: the owner that dispatches an operation that
// another one admitted checks that it sends the same request (contract 6.4).
func (r Request) Digest() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic("loop: a request is always JSON: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Service says which provider answers, and what it can do.
type Service struct {
	ID       string // operation.admitted's service_id: provider, protocol and model
	Revision string // descriptor_revision: changes when the adapter's settings do
	Native   bool   // it can take steering while an operation runs (contract 5.2)
}

// Outcome is how a model request ended: a [Completion], a [Failure] or
// [Uncertain].
type Outcome interface{ outcome() }

// Completion is an exchange that was saved whole: the protocol's terminal
// frame was there.
type Completion struct {
	FinishReason   string       // native
	Finish         event.Finish // normalised, by whitelist
	Text           string       // the text blocks after the last steering boundary, joined without a separator
	ToolCalls      []event.ToolCall
	Veto           string // why the calls may not run although Finish is tool_calls; "" = no veto
	Usage          *event.Usage
	ResponseDigest string // event.Digest of the raw body
	ResponseBytes  int64
}

// Failure is an operation that certainly did not run, or that ran and whose
// failure the provider reports (contract: operation.failed).
type Failure struct {
	Dispatch   string // event.DispatchNotDispatched, DispatchRejected or DispatchRan
	Code       string // the provider's code, or ours: short, no prose
	HTTPStatus int    // 0 = none
	NextAction string // for a person: what to do about it
}

// Uncertain is an operation that may have run (contract: operation.unknown).
type Uncertain struct {
	Reason string // event.UnknownTransport, UnknownNoTerminal, UnknownTimeout or UnknownCancelled
	Detail string // for the process's log only
}

func (Completion) outcome() {}
func (Failure) outcome()    {}
func (Uncertain) outcome()  {}

// Inspection is what a read-only look-up of an operation found. Completion is
// set if and only if Observed is complete, or the original failed: then
// Failure is.
type Inspection struct {
	Observed   event.Observed
	Completion *Completion
	Failure    *Failure // with ObservedComplete: the provider reports its failure
}

// Stream receives what a provider sends while an operation runs. Calls come
// one at a time, in the order of the wire.
type Stream interface {
	// Raw saves body bytes before anything is read from them. After an error
	// the adapter must stop and answer Uncertain.
	Raw(b []byte) error
	// Delta shows provisional text ("text" or "reasoning") to who watches.
	Delta(kind, text string)
	// Message says that a content block ended with this text.
	Message(text string)
	// Applied says that the successor boundary confirmed these inputs (5.2).
	Applied(inputIDs []string)
}

// SteerAnswer is what a provider said to a live steering input (contract 5.2).
type SteerAnswer int

// The answers; everything that is not a definite yes or no is SteerUnknown.
const (
	SteerUnknown SteerAnswer = iota
	SteerAccepted
	SteerRefused
)

// ToolRequest is one dispatch of an invocation. InvocationID is the
// idempotency key: the same id is the same call.
type ToolRequest struct {
	SessionID    string
	InvocationID string
	ToolCallID   string
	Tool         string
	Arguments    string // one JSON object, the exact bytes
}

// ToolOutcome is how a dispatch ended: a result, the tool's own failure, or no
// receipt at all (Lost).
type ToolOutcome struct {
	Result string
	Failed bool // Result is the tool's error
	Lost   bool // it may have run; no receipt came
}

// ToolInspection is what a read-only look-up of an invocation found; Outcome
// counts with ObservedComplete only.
type ToolInspection struct {
	Observed event.Observed
	Outcome  ToolOutcome
}
