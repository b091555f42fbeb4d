package event

// Finish is the normalised end of an operation (contract, section 4).
type Finish string

// The values of Finish. Only FinishOutputBudget opens the cutoff path of
// contract 6.1, and only FinishToolCalls authorises calls (6.3).
const (
	FinishStop          Finish = "stop"
	FinishToolCalls     Finish = "tool_calls"
	FinishOutputBudget  Finish = "output_budget"
	FinishContextWindow Finish = "context_window"
	FinishContentFilter Finish = "content_filter"
	FinishRefusal       Finish = "refusal"
	FinishPaused        Finish = "paused"
	FinishSteered       Finish = "steered"
	FinishError         Finish = "error"
	FinishUnrecognised  Finish = "unrecognised"
)

// Observed is what a read-only look-up of an original says.
type Observed string

// The values of Observed. Only ObservedComplete carries a result; only
// ObservedPending is worth another look.
const (
	ObservedComplete    Observed = "complete"
	ObservedPending     Observed = "pending"
	ObservedMissing     Observed = "missing"
	ObservedUnsupported Observed = "unsupported"
	ObservedExpired     Observed = "expired"
	ObservedError       Observed = "error"
)

// Kind is what an input asks (contract, section 3).
type Kind string

// The values of Kind. The first three are content, the others commands.
const (
	KindUser      Kind = "user"
	KindSteer     Kind = "steer"
	KindService   Kind = "service"
	KindDecision  Kind = "decision"
	KindWithdraw  Kind = "withdraw"
	KindCancelJob Kind = "cancel_job"
	KindInterrupt Kind = "interrupt"
	KindStop      Kind = "stop"
)

// Content reports whether inputs of this kind enter the context.
func (k Kind) Content() bool {
	return k == KindUser || k == KindSteer || k == KindService
}

// Command reports whether inputs of this kind ask for an effect.
func (k Kind) Command() bool {
	switch k {
	case KindDecision, KindWithdraw, KindCancelJob, KindInterrupt, KindStop:
		return true
	}
	return false
}

// Routes and deliveries.
const (
	DeliveryNewTurn         = "new_turn"
	DeliveryRequestBoundary = "request_boundary"
	DeliveryNative          = "native"
)

// Reasons of input.rejected.
const (
	RejectIdentityConflict     = "identity_conflict"
	RejectInvalid              = "invalid"
	RejectQueueFull            = "queue_full"
	RejectSessionClosed        = "session_closed"
	RejectStaleGeneration      = "stale_generation"
	RejectGenerationClosing    = "generation_closing"
	RejectAnchoringUnavailable = "anchoring_unavailable"
	RejectUnauthorizedSource   = "unauthorized_source"
)

// Reasons of command.rejected.
const (
	RefuseNoActiveJob            = "no_active_job"
	RefuseNoActiveGeneration     = "no_active_generation"
	RefuseUnknownTarget          = "unknown_target"
	RefuseAlreadyDecided         = "already_decided"
	RefuseAlreadyDelivered       = "already_delivered"
	RefuseArgsMismatch           = "args_mismatch"
	RefuseGenerationEnded        = "generation_ended"
	RefuseReconciliationRequired = "reconciliation_required"
)

// Verdicts of a decision.
const (
	VerdictApprove      = "approve"
	VerdictDeny         = "deny"
	VerdictContinue     = "continue"
	VerdictAbandon      = "abandon"
	VerdictReconciled   = "reconciled"
	VerdictStillUnknown = "still_unknown"
)

// Effects of a tool.
const (
	EffectRead       = "read"
	EffectIdempotent = "idempotent"
	EffectWrite      = "write"
)

// Approval of a tool.
const (
	ApprovalNone     = "none"
	ApprovalRequired = "required"
)

// Reasons of invocation.withheld.
const (
	WithheldTruncated           = "truncated"
	WithheldFiltered            = "filtered"
	WithheldNotAuthorised       = "not_authorised"
	WithheldVetoed              = "vetoed"
	WithheldUnrecognised        = "unrecognised"
	WithheldNoTerminal          = "no_terminal"
	WithheldError               = "error"
	WithheldIncompleteArguments = "incomplete_arguments"
	WithheldUnknownTool         = "unknown_tool"
)

// Reasons of continuation.stopped (contract 6.2).
const (
	StopSegmentsExhausted      = "segments_exhausted"
	StopTokensExhausted        = "tokens_exhausted"
	StopTimeExhausted          = "time_exhausted"
	StopCostExhausted          = "cost_exhausted"
	StopNoProgress             = "no_progress"
	StopCancelled              = "cancelled"
	StopAuthorityEnded         = "authority_ended"
	StopOperationUncertain     = "operation_uncertain"
	StopReconciliationRequired = "reconciliation_required"
	StopResponseExpired        = "response_expired"
	StopContextWindow          = "context_window"
)

// Kinds of checkpoint.
const (
	CheckpointCutoff = "cutoff"
	CheckpointFinal  = "final"
)

// Values of operation.failed's dispatch.
const (
	DispatchNotDispatched = "not_dispatched"
	DispatchRejected      = "rejected"
	DispatchRan           = "ran"
)

// Reasons of operation.unknown.
const (
	UnknownTransport  = "transport"
	UnknownNoTerminal = "no_terminal"
	UnknownTimeout    = "timeout"
	UnknownCancelled  = "cancelled"
	UnknownOwnerLost  = "owner_lost"
)

// Reasons of generation.detached.
const (
	DetachedStopped            = "stopped"
	DetachedInterrupted        = "interrupted"
	DetachedOwnerLost          = "owner_lost"
	DetachedOperationUncertain = "operation_uncertain"
)

// Fixed values that the contract spells out.
const (
	DispositionFinished      = "manager_turn_finished"
	CancellationUnconfirmed  = "unconfirmed"
	EffectsNotRolledBack     = "not_rolled_back"
	ActionInspectOriginal    = "inspect_original"
	ActionReconcile          = "reconciliation_required"
	OutcomeToolReport        = "tool_report"
	OutcomeFailed            = "failed"
	OutcomeCancelled         = "cancelled"
	OutcomeCancelRequested   = "cancel_requested"
	OutcomeSavedEvidence     = "saved_evidence"
	StatusCompleted          = "completed"
	StatusCancelled          = "cancelled"
	StatusReturned           = "returned"
	StatusFailed             = "failed"
	StatusUnknown            = "unknown"
	SteeringModeRequest      = "request_boundary"
	SteeringModeNative       = "native"
	ContinuationStateStopped = "stopped"
	SourceUser               = "user"
	TargetCancel             = "cancel"
	SessionModeLoop          = "loop"
)
