package event

// The event types of contract section 4, in its order.
const (
	TypeSessionOpened  Type = "session.opened"
	TypeSessionClaimed Type = "session.claimed"
	TypeSessionIdle    Type = "session.idle"
	TypeSessionClosed  Type = "session.closed"

	TypeInputAccepted       Type = "input.accepted"
	TypeInputRejected       Type = "input.rejected"
	TypeInputQueued         Type = "input.queued"
	TypeInputDelivered      Type = "input.delivered"
	TypeInputHeld           Type = "input.held"
	TypeInputWithdrawn      Type = "input.withdrawn"
	TypeInputUnknown        Type = "input.unknown"
	TypeCommandRejected     Type = "command.rejected"
	TypeObservationReceived Type = "observation.received"

	TypeSteeringSent     Type = "steering.sent"
	TypeSteeringAccepted Type = "steering.accepted"
	TypeSteeringApplied  Type = "steering.applied"
	TypeSteeringRefused  Type = "steering.refused"
	TypeSteeringHeld     Type = "steering.held"
	TypeSteeringUnknown  Type = "steering.unknown"

	TypeGenerationStarted  Type = "generation.started"
	TypeAssistantMessage   Type = "assistant.message"
	TypeGenerationFinished Type = "generation.finished"
	TypeGenerationFailed   Type = "generation.failed"
	TypeGenerationDetached Type = "generation.detached"

	TypeOperationAdmitted   Type = "operation.admitted"
	TypeOperationDispatched Type = "operation.dispatched"
	TypeOperationCompleted  Type = "operation.completed"
	TypeOperationFailed     Type = "operation.failed"
	TypeOperationUnknown    Type = "operation.unknown"
	TypeOperationCancelled  Type = "operation.cancelled"
	TypeOperationInspected  Type = "operation.inspected"

	TypeCheckpointSaved     Type = "checkpoint.saved"
	TypeContinuationStarted Type = "continuation.started"
	TypeContinuationStopped Type = "continuation.stopped"
	TypeContextSummarized   Type = "context.summarized"

	TypeInvocationProposed         Type = "invocation.proposed"
	TypeInvocationWithheld         Type = "invocation.withheld"
	TypeInvocationAwaitingApproval Type = "invocation.awaiting_approval"
	TypeInvocationApproved         Type = "invocation.approved"
	TypeInvocationDenied           Type = "invocation.denied"
	TypeInvocationWithdrawn        Type = "invocation.withdrawn"
	TypeInvocationDispatched       Type = "invocation.dispatched"
	TypeInvocationCompleted        Type = "invocation.completed"
	TypeInvocationFailed           Type = "invocation.failed"
	TypeInvocationUncertain        Type = "invocation.uncertain"
	TypeInvocationInspected        Type = "invocation.inspected"
	TypeInvocationReconciled       Type = "invocation.reconciled"

	TypeJobQueued          Type = "job.queued"
	TypeJobReturned        Type = "job.returned"
	TypeJobFailed          Type = "job.failed"
	TypeJobCancelled       Type = "job.cancelled"
	TypeJobCancelRequested Type = "job.cancel_requested"
	TypeJobRecovered       Type = "job.recovered"
)

// catalogue maps each known type to the decoder of its payload.
var catalogue = map[Type]func([]byte) (Payload, error){
	TypeSessionOpened:  decodeAs[SessionOpened],
	TypeSessionClaimed: decodeAs[SessionClaimed],
	TypeSessionIdle:    decodeAs[SessionIdle],
	TypeSessionClosed:  decodeAs[SessionClosed],

	TypeInputAccepted:       decodeAs[InputAccepted],
	TypeInputRejected:       decodeAs[InputRejected],
	TypeInputQueued:         decodeAs[InputQueued],
	TypeInputDelivered:      decodeAs[InputDelivered],
	TypeInputHeld:           decodeAs[InputHeld],
	TypeInputWithdrawn:      decodeAs[InputWithdrawn],
	TypeInputUnknown:        decodeAs[InputUnknown],
	TypeCommandRejected:     decodeAs[CommandRejected],
	TypeObservationReceived: decodeAs[ObservationReceived],

	TypeSteeringSent:     decodeAs[SteeringSent],
	TypeSteeringAccepted: decodeAs[SteeringAccepted],
	TypeSteeringApplied:  decodeAs[SteeringApplied],
	TypeSteeringRefused:  decodeAs[SteeringRefused],
	TypeSteeringHeld:     decodeAs[SteeringHeld],
	TypeSteeringUnknown:  decodeAs[SteeringUnknown],

	TypeGenerationStarted:  decodeAs[GenerationStarted],
	TypeAssistantMessage:   decodeAs[AssistantMessage],
	TypeGenerationFinished: decodeAs[GenerationFinished],
	TypeGenerationFailed:   decodeAs[GenerationFailed],
	TypeGenerationDetached: decodeAs[GenerationDetached],

	TypeOperationAdmitted:   decodeAs[OperationAdmitted],
	TypeOperationDispatched: decodeAs[OperationDispatched],
	TypeOperationCompleted:  decodeAs[OperationCompleted],
	TypeOperationFailed:     decodeAs[OperationFailed],
	TypeOperationUnknown:    decodeAs[OperationUnknown],
	TypeOperationCancelled:  decodeAs[OperationCancelled],
	TypeOperationInspected:  decodeAs[OperationInspected],

	TypeCheckpointSaved:     decodeAs[CheckpointSaved],
	TypeContinuationStarted: decodeAs[ContinuationStarted],
	TypeContinuationStopped: decodeAs[ContinuationStopped],
	TypeContextSummarized:   decodeAs[ContextSummarized],

	TypeInvocationProposed:         decodeAs[InvocationProposed],
	TypeInvocationWithheld:         decodeAs[InvocationWithheld],
	TypeInvocationAwaitingApproval: decodeAs[InvocationAwaitingApproval],
	TypeInvocationApproved:         decodeAs[InvocationApproved],
	TypeInvocationDenied:           decodeAs[InvocationDenied],
	TypeInvocationWithdrawn:        decodeAs[InvocationWithdrawn],
	TypeInvocationDispatched:       decodeAs[InvocationDispatched],
	TypeInvocationCompleted:        decodeAs[InvocationCompleted],
	TypeInvocationFailed:           decodeAs[InvocationFailed],
	TypeInvocationUncertain:        decodeAs[InvocationUncertain],
	TypeInvocationInspected:        decodeAs[InvocationInspected],
	TypeInvocationReconciled:       decodeAs[InvocationReconciled],

	TypeJobQueued:          decodeAs[JobQueued],
	TypeJobReturned:        decodeAs[JobReturned],
	TypeJobFailed:          decodeAs[JobFailed],
	TypeJobCancelled:       decodeAs[JobCancelled],
	TypeJobCancelRequested: decodeAs[JobCancelRequested],
	TypeJobRecovered:       decodeAs[JobRecovered],
}

// Types lists the known event types, in no order.
func Types() []Type {
	types := make([]Type, 0, len(catalogue))
	for t := range catalogue {
		types = append(types, t)
	}
	return types
}

// Known reports whether t is a type of contract section 4.
func Known(t Type) bool {
	_, ok := catalogue[t]
	return ok
}
