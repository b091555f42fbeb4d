package event

import "github.com/go-json-experiment/json/jsontext"

// Unknown is the payload of a type that this version does not know: kept,
// shown, never fatal (contract, section 2). Its fields live in Event.Stored.
type Unknown struct{ Name Type }

// Correlation says whose turn it is (contract 5.6): GenerationID, InputIDs (in
// order, the inputs delivered in, or confirmed as applied to, the generation)
// and AcceptedInputIDs (accepted for it, not yet in InputIDs).
type Correlation struct {
	GenerationID     string   `json:"generation_id"`
	InputIDs         []string `json:"input_ids"`
	AcceptedInputIDs []string `json:"accepted_input_ids"`
}

// Sessions.

// SessionOpened is the first event of a session.
type SessionOpened struct {
	Mode     string   `json:"mode"`     // "loop": events decide, one owner at a time
	Steering string   `json:"steering"` // "request_boundary" or "native"
	Provider string   `json:"provider"` // service id of the provider
	Tools    []string `json:"tools"`    // names of the tools, sorted
}

// SessionClaimed begins an owner's epoch.
type SessionClaimed struct {
	Owner       string `json:"owner"`
	ResumedFrom Seq    `json:"resumed_from"` // the last sequence folded before the claim
}

// SessionIdle says that nothing is active and nothing pending.
type SessionIdle struct {
	Text string `json:"text"` // of the last finished generation, "" if none
}

// SessionClosed ends a session after a stop.
type SessionClosed struct {
	Status string `json:"status"` // "completed" or "cancelled"
}

// Inputs.

// InputAccepted admits an input; from here the log alone is enough.
type InputAccepted struct {
	InputID      string         `json:"input_id"`
	Kind         Kind           `json:"kind"`
	Source       string         `json:"source"` // "user" where the input names none
	Target       string         `json:"target,omitzero"`
	Digest       string         `json:"digest"`
	Input        jsontext.Value `json:"input"` // the whole input, as sent
	InboxSeq     uint64         `json:"inbox_seq"`
	GenerationID string         `json:"generation_id,omitzero"` // the open generation, if any
}

// InputRejected refuses an input; the refusal is final.
type InputRejected struct {
	InputID  string `json:"input_id"`
	Digest   string `json:"digest"`
	Reason   string `json:"reason"`
	InboxSeq uint64 `json:"inbox_seq"`
	Hint     string `json:"hint,omitzero"` // what is wrong and how to fix it
}

// InputQueued says that an input waits for a boundary.
type InputQueued struct {
	InputID      string `json:"input_id"`
	Delivery     string `json:"delivery"` // "request_boundary"
	Source       string `json:"source"`
	GenerationID string `json:"generation_id,omitzero"`
}

// InputDelivered says that an input is now in the context.
type InputDelivered struct {
	InputID      string `json:"input_id"`
	Delivery     string `json:"delivery"` // "new_turn" or "request_boundary"
	Source       string `json:"source"`
	GenerationID string `json:"generation_id"`
}

// InputHeld says that an input was never delivered and never will be.
type InputHeld struct {
	InputID      string `json:"input_id"`
	Reason       string `json:"reason"`
	GenerationID string `json:"generation_id,omitzero"`
}

// InputWithdrawn says that an input was taken back before it was delivered.
type InputWithdrawn struct {
	InputID string `json:"input_id"`
	By      string `json:"by"` // input id of the withdraw command
}

// InputUnknown says that a delivery's effect cannot be confirmed.
type InputUnknown struct {
	InputID      string `json:"input_id"`
	Route        string `json:"route"` // "native" or "request_boundary"
	GenerationID string `json:"generation_id"`
}

// CommandRejected says that an accepted command had no effect.
type CommandRejected struct {
	InputID string `json:"input_id"`
	Reason  string `json:"reason"`
}

// ObservationReceived says that a service input was taken up.
type ObservationReceived struct {
	InputID string `json:"input_id"`
	Source  string `json:"source"`
	Text    string `json:"text"`
}

// Steering.

// SteeringSent says that an input is being handed to the provider.
type SteeringSent struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
	Route              string `json:"route"` // "native"
}

// SteeringAccepted says who owns the input now; it proves nothing about use.
type SteeringAccepted struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
	Delivery           string `json:"delivery"` // "native" or "request_boundary"
}

// SteeringApplied confirms the input in the successor request or context.
type SteeringApplied struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
	Delivery           string `json:"delivery"` // "native" or "request_boundary"
}

// SteeringRefused is the provider's definite no.
type SteeringRefused struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
}

// SteeringHeld says that an anchored input was not applied and never will be.
type SteeringHeld struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
	Reason             string `json:"reason"`
}

// SteeringUnknown says that the effect of a steering input cannot be confirmed.
type SteeringUnknown struct {
	InputID            string `json:"input_id"`
	TargetGenerationID string `json:"target_generation_id"`
	Reason             string `json:"reason"`
}

// Generations.

// Bounds are the limits of a task in force for a generation (contract 6.2);
// 0 is none.
type Bounds struct {
	MaxSegments  int     `json:"max_segments"`
	MaxTokens    int64   `json:"max_tokens"`
	MaxCost      float64 `json:"max_cost"`
	MaxElapsedMS int64   `json:"max_elapsed_ms"`
	NoProgress   int     `json:"no_progress"`
	ExpiresAt    string  `json:"expires_at,omitzero"` // RFC 3339, UTC
}

// GenerationStarted opens a generation.
type GenerationStarted struct {
	GenerationID   string `json:"generation_id"`
	InitialInputID string `json:"initial_input_id"`
	CallID         string `json:"call_id,omitzero"`
	TaskID         string `json:"task_id"`
	Bounds         Bounds `json:"bounds"`
}

// AssistantMessage is a content block that ended: provisional, it resolves
// nothing.
type AssistantMessage struct {
	Correlation
	OperationID string `json:"operation_id"`
	Text        string `json:"text"`
}

// Continuation says why a generation's continuation stopped.
type Continuation struct {
	State        string `json:"state"` // "stopped"
	Reason       string `json:"reason"`
	Action       string `json:"action"`
	CheckpointID string `json:"checkpoint_id,omitzero"`
}

// GenerationFinished ends a manager turn with its answer.
type GenerationFinished struct {
	Correlation
	Text         string        `json:"text"`
	ActiveJobIDs []string      `json:"active_job_ids"`
	Disposition  string        `json:"disposition"` // "manager_turn_finished"
	OperationIDs []string      `json:"operation_ids"`
	Continuation *Continuation `json:"continuation,omitzero"`
}

// GenerationFailed ends a generation without an answer.
type GenerationFailed struct {
	Correlation
	ErrorType   string `json:"error_type"`
	Stage       string `json:"stage"` // "admission", "provider_request" or "manager_turn"
	OperationID string `json:"operation_id,omitzero"`
	NextAction  string `json:"next_action,omitzero"`
}

// GenerationDetached ends a generation without knowing what the provider
// still does.
type GenerationDetached struct {
	Correlation
	Cancellation string `json:"cancellation"` // "unconfirmed"
	Reason       string `json:"reason"`       // "stopped", "interrupted", "owner_lost" or "operation_uncertain"
	OperationID  string `json:"operation_id,omitzero"`
}

// Operations.

// OperationAdmitted stands before any byte of a request leaves.
type OperationAdmitted struct {
	OperationID        string `json:"operation_id"`
	GenerationID       string `json:"generation_id"`
	Segment            int    `json:"segment"`
	ParentOperationID  string `json:"parent_operation_id,omitzero"`
	CheckpointID       string `json:"checkpoint_id,omitzero"`
	ServiceID          string `json:"service_id"`
	DescriptorRevision string `json:"descriptor_revision"`
	RequestDigest      string `json:"request_digest"`
	OutputBudget       int64  `json:"output_budget,omitzero"` // tokens
}

// OperationDispatched stands right before the first byte may leave; at most
// once for an id, ever.
type OperationDispatched struct {
	OperationID string `json:"operation_id"`
}

// Usage is what the provider says it used, in tokens; Cost in the provider's
// currency where it tells one.
type Usage struct {
	Input     int64   `json:"input"`
	Output    int64   `json:"output"`
	Reasoning int64   `json:"reasoning"`
	Cost      float64 `json:"cost,omitzero"`
}

// ToolCall is one call of a response, as far as it came.
type ToolCall struct {
	ID        string `json:"id"`        // the provider's, opaque, may be ""
	Name      string `json:"name"`      // the tool
	Arguments string `json:"arguments"` // the exact bytes, never repaired
	Closed    bool   `json:"closed"`    // the protocol closed the call
}

// OperationCompleted says that the exchange was saved.
type OperationCompleted struct {
	OperationID    string     `json:"operation_id"`
	FinishReason   string     `json:"finish_reason"` // native
	Finish         Finish     `json:"finish"`        // normalised
	Text           string     `json:"text"`
	ToolCalls      []ToolCall `json:"tool_calls"`
	Usage          *Usage     `json:"usage,omitzero"`
	ResponseDigest string     `json:"response_digest"`
	ResponseBytes  int64      `json:"response_bytes"`
	Recovered      bool       `json:"recovered"`
	Late           bool       `json:"late"`
	Veto           string     `json:"veto,omitzero"` // why the calls may not run although Finish is tool_calls
}

// OperationFailed says that the operation certainly did not run, or ran and
// the provider reports its failure.
type OperationFailed struct {
	OperationID string `json:"operation_id"`
	Dispatch    string `json:"dispatch"` // "not_dispatched", "rejected" or "ran"
	Code        string `json:"code"`
	HTTPStatus  int    `json:"http_status,omitzero"`
	NextAction  string `json:"next_action"`
	Late        bool   `json:"late,omitzero"`
}

// OperationUnknown says that the operation may have run.
type OperationUnknown struct {
	OperationID string `json:"operation_id"`
	Reason      string `json:"reason"`      // "transport", "no_terminal", "timeout", "cancelled" or "owner_lost"
	NextAction  string `json:"next_action"` // "inspect_original"
}

// OperationCancelled says that it was cancelled before any byte left.
type OperationCancelled struct {
	OperationID string `json:"operation_id"`
	Dispatch    string `json:"dispatch"` // "not_dispatched"
}

// OperationInspected is a read-only look-up of the original.
type OperationInspected struct {
	OperationID string   `json:"operation_id"`
	Observed    Observed `json:"observed"`
}

// Continuation of work.

// Delivered measures the merged text of a chain: UTF-8 bytes and Digest.
type Delivered struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

// Spent is what a task has used since the bounds in force began to count: its
// beginning, or the decision that granted a further set.
type Spent struct {
	Segments  int     `json:"segments"`
	Tokens    int64   `json:"tokens"`
	ElapsedMS int64   `json:"elapsed_ms"`
	Cost      float64 `json:"cost,omitzero"`
}

// CheckpointSaved is the place from which exactly one continuation may go on.
type CheckpointSaved struct {
	CheckpointID       string    `json:"checkpoint_id"`
	Kind               string    `json:"kind"` // "cutoff" or "final"
	GenerationID       string    `json:"generation_id"`
	TaskID             string    `json:"task_id"`
	OperationID        string    `json:"operation_id"`
	ServiceID          string    `json:"service_id"`
	DescriptorRevision string    `json:"descriptor_revision"`
	Finish             Finish    `json:"finish"`
	Delivered          Delivered `json:"delivered"`
	Invocations        []string  `json:"invocations"` // the task's completed invocations, in order
	CompletedSteps     []string  `json:"completed_steps"`
	RemainingSteps     []string  `json:"remaining_steps"`
	Segment            int       `json:"segment"`
	Spent              Spent     `json:"spent"`
}

// ContinuationStarted claims a checkpoint: at most one, ever.
type ContinuationStarted struct {
	CheckpointID      string `json:"checkpoint_id"`
	ParentOperationID string `json:"parent_operation_id"`
	OperationID       string `json:"operation_id"`
	Segment           int    `json:"segment"`
}

// ContinuationStopped says why a chain does not go on, and what a person can
// do.
type ContinuationStopped struct {
	CheckpointID string `json:"checkpoint_id,omitzero"`
	OperationID  string `json:"operation_id,omitzero"`
	Reason       string `json:"reason"`
	Action       string `json:"action"`
}

// Kept names what a summary must not lose.
type Kept struct {
	Invocations []string `json:"invocations"`
	Approvals   []string `json:"approvals"`
	Operations  []string `json:"operations"`
}

// ContextSummarized replaces old context by a summary near the window.
type ContextSummarized struct {
	ThroughSequence Seq    `json:"through_sequence"`
	Text            string `json:"text"`
	Kept            Kept   `json:"kept"`
}

// Invocations.

// InvocationProposed is a tool call that the model made and may be run.
type InvocationProposed struct {
	InvocationID string `json:"invocation_id"`
	ToolCallID   string `json:"tool_call_id"`
	OperationID  string `json:"operation_id"`
	GenerationID string `json:"generation_id"`
	Tool         string `json:"tool"`
	InputDigest  string `json:"input_digest"` // ArgumentsDigest of Arguments
	Arguments    string `json:"arguments"`    // one JSON object, the exact bytes
	Effect       string `json:"effect"`       // "read", "idempotent" or "write"
	Approval     string `json:"approval"`     // "none" or "required"
	Repeats      string `json:"repeats,omitzero"`
}

// InvocationWithheld is a tool call that is shown and never run.
type InvocationWithheld struct {
	ToolCallID  string `json:"tool_call_id"`
	OperationID string `json:"operation_id"`
	Tool        string `json:"tool"`
	Arguments   string `json:"arguments"`
	Reason      string `json:"reason"`
}

// InvocationAwaitingApproval says that a person must decide.
type InvocationAwaitingApproval struct {
	InvocationID string `json:"invocation_id"`
	InputDigest  string `json:"input_digest"`
}

// InvocationApproved counts one decision for the very arguments.
type InvocationApproved struct {
	InvocationID string `json:"invocation_id"`
	DecidedBy    string `json:"decided_by"` // input id
	InputDigest  string `json:"input_digest"`
}

// InvocationDenied counts one decision against it.
type InvocationDenied struct {
	InvocationID string `json:"invocation_id"`
	DecidedBy    string `json:"decided_by"` // input id
	InputDigest  string `json:"input_digest"`
}

// InvocationWithdrawn says that its generation ended first.
type InvocationWithdrawn struct {
	InvocationID string `json:"invocation_id"`
	Reason       string `json:"reason"`
}

// InvocationDispatched stands before the first byte may leave.
type InvocationDispatched struct {
	InvocationID string `json:"invocation_id"`
}

// InvocationCompleted is the tool's receipt.
type InvocationCompleted struct {
	InvocationID string `json:"invocation_id"`
	Result       string `json:"result"`
	OK           bool   `json:"ok"` // true
	Late         bool   `json:"late,omitzero"`
}

// InvocationFailed is the tool's own failure.
type InvocationFailed struct {
	InvocationID string `json:"invocation_id"`
	Error        string `json:"error"`
	OK           bool   `json:"ok"` // false
	Late         bool   `json:"late,omitzero"`
}

// InvocationUncertain says that it was dispatched and no receipt came.
type InvocationUncertain struct {
	InvocationID string `json:"invocation_id"`
	Reason       string `json:"reason"`
	NextAction   string `json:"next_action"` // "reconciliation_required"
}

// InvocationInspected is a read-only look-up of a tool's receipt.
type InvocationInspected struct {
	InvocationID string   `json:"invocation_id"`
	Observed     Observed `json:"observed"`
}

// InvocationReconciled settles an uncertain invocation.
type InvocationReconciled struct {
	InvocationID string `json:"invocation_id"`
	Verdict      string `json:"verdict"` // "reconciled", "still_unknown" or "abandon"
	DecidedBy    string `json:"decided_by,omitzero"`
	Result       string `json:"result,omitzero"`
}

// Jobs.

// JobQueued is delegated work that outlives its call.
type JobQueued struct {
	JobID        string `json:"job_id"`
	CallID       string `json:"call_id"` // the model's tool_call_id
	Tool         string `json:"tool"`
	GenerationID string `json:"generation_id"`
	InvocationID string `json:"invocation_id"`
}

// JobReturned is a job's result.
type JobReturned struct {
	JobID   string `json:"job_id"`
	CallID  string `json:"call_id"`
	Outcome string `json:"outcome"` // "tool_report"
	Result  string `json:"result"`
	Effects string `json:"effects"` // "not_rolled_back"
}

// JobFailed is a job's own failure.
type JobFailed struct {
	JobID   string `json:"job_id"`
	CallID  string `json:"call_id"`
	Outcome string `json:"outcome"` // "failed"
	Result  string `json:"result,omitzero"`
	Effects string `json:"effects"`
}

// JobCancelled ends a job at somebody's wish; its effects stay.
type JobCancelled struct {
	JobID   string `json:"job_id"`
	CallID  string `json:"call_id"`
	Outcome string `json:"outcome"` // "cancelled"
	Effects string `json:"effects"`
}

// JobCancelRequested says that a cancel was asked for.
type JobCancelRequested struct {
	JobID   string `json:"job_id"`
	CallID  string `json:"call_id"`
	Outcome string `json:"outcome"` // "cancel_requested"
	Effects string `json:"effects"`
}

// JobRecovered is evidence after a restart, never a second dispatch.
type JobRecovered struct {
	JobID   string `json:"job_id"`
	CallID  string `json:"call_id"`
	Status  string `json:"status"`  // "returned", "failed" or "unknown"
	Outcome string `json:"outcome"` // "saved_evidence"
	Result  string `json:"result,omitzero"`
}
