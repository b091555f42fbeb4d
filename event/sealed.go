package event

// Each fact names its type and is sealed to this package.

func (SessionOpened) Type() Type              { return TypeSessionOpened }
func (SessionClaimed) Type() Type             { return TypeSessionClaimed }
func (SessionIdle) Type() Type                { return TypeSessionIdle }
func (SessionClosed) Type() Type              { return TypeSessionClosed }
func (InputAccepted) Type() Type              { return TypeInputAccepted }
func (InputRejected) Type() Type              { return TypeInputRejected }
func (InputQueued) Type() Type                { return TypeInputQueued }
func (InputDelivered) Type() Type             { return TypeInputDelivered }
func (InputHeld) Type() Type                  { return TypeInputHeld }
func (InputWithdrawn) Type() Type             { return TypeInputWithdrawn }
func (InputUnknown) Type() Type               { return TypeInputUnknown }
func (CommandRejected) Type() Type            { return TypeCommandRejected }
func (ObservationReceived) Type() Type        { return TypeObservationReceived }
func (SteeringSent) Type() Type               { return TypeSteeringSent }
func (SteeringAccepted) Type() Type           { return TypeSteeringAccepted }
func (SteeringApplied) Type() Type            { return TypeSteeringApplied }
func (SteeringRefused) Type() Type            { return TypeSteeringRefused }
func (SteeringHeld) Type() Type               { return TypeSteeringHeld }
func (SteeringUnknown) Type() Type            { return TypeSteeringUnknown }
func (GenerationStarted) Type() Type          { return TypeGenerationStarted }
func (AssistantMessage) Type() Type           { return TypeAssistantMessage }
func (GenerationFinished) Type() Type         { return TypeGenerationFinished }
func (GenerationFailed) Type() Type           { return TypeGenerationFailed }
func (GenerationDetached) Type() Type         { return TypeGenerationDetached }
func (OperationAdmitted) Type() Type          { return TypeOperationAdmitted }
func (OperationDispatched) Type() Type        { return TypeOperationDispatched }
func (OperationCompleted) Type() Type         { return TypeOperationCompleted }
func (OperationFailed) Type() Type            { return TypeOperationFailed }
func (OperationUnknown) Type() Type           { return TypeOperationUnknown }
func (OperationCancelled) Type() Type         { return TypeOperationCancelled }
func (OperationInspected) Type() Type         { return TypeOperationInspected }
func (CheckpointSaved) Type() Type            { return TypeCheckpointSaved }
func (ContinuationStarted) Type() Type        { return TypeContinuationStarted }
func (ContinuationStopped) Type() Type        { return TypeContinuationStopped }
func (ContextSummarized) Type() Type          { return TypeContextSummarized }
func (InvocationProposed) Type() Type         { return TypeInvocationProposed }
func (InvocationWithheld) Type() Type         { return TypeInvocationWithheld }
func (InvocationAwaitingApproval) Type() Type { return TypeInvocationAwaitingApproval }
func (InvocationApproved) Type() Type         { return TypeInvocationApproved }
func (InvocationDenied) Type() Type           { return TypeInvocationDenied }
func (InvocationWithdrawn) Type() Type        { return TypeInvocationWithdrawn }
func (InvocationDispatched) Type() Type       { return TypeInvocationDispatched }
func (InvocationCompleted) Type() Type        { return TypeInvocationCompleted }
func (InvocationFailed) Type() Type           { return TypeInvocationFailed }
func (InvocationUncertain) Type() Type        { return TypeInvocationUncertain }
func (InvocationInspected) Type() Type        { return TypeInvocationInspected }
func (InvocationReconciled) Type() Type       { return TypeInvocationReconciled }
func (JobQueued) Type() Type                  { return TypeJobQueued }
func (JobReturned) Type() Type                { return TypeJobReturned }
func (JobFailed) Type() Type                  { return TypeJobFailed }
func (JobCancelled) Type() Type               { return TypeJobCancelled }
func (JobCancelRequested) Type() Type         { return TypeJobCancelRequested }
func (JobRecovered) Type() Type               { return TypeJobRecovered }
func (u Unknown) Type() Type                  { return u.Name }

func (SessionOpened) sealed()              {}
func (SessionClaimed) sealed()             {}
func (SessionIdle) sealed()                {}
func (SessionClosed) sealed()              {}
func (InputAccepted) sealed()              {}
func (InputRejected) sealed()              {}
func (InputQueued) sealed()                {}
func (InputDelivered) sealed()             {}
func (InputHeld) sealed()                  {}
func (InputWithdrawn) sealed()             {}
func (InputUnknown) sealed()               {}
func (CommandRejected) sealed()            {}
func (ObservationReceived) sealed()        {}
func (SteeringSent) sealed()               {}
func (SteeringAccepted) sealed()           {}
func (SteeringApplied) sealed()            {}
func (SteeringRefused) sealed()            {}
func (SteeringHeld) sealed()               {}
func (SteeringUnknown) sealed()            {}
func (GenerationStarted) sealed()          {}
func (AssistantMessage) sealed()           {}
func (GenerationFinished) sealed()         {}
func (GenerationFailed) sealed()           {}
func (GenerationDetached) sealed()         {}
func (OperationAdmitted) sealed()          {}
func (OperationDispatched) sealed()        {}
func (OperationCompleted) sealed()         {}
func (OperationFailed) sealed()            {}
func (OperationUnknown) sealed()           {}
func (OperationCancelled) sealed()         {}
func (OperationInspected) sealed()         {}
func (CheckpointSaved) sealed()            {}
func (ContinuationStarted) sealed()        {}
func (ContinuationStopped) sealed()        {}
func (ContextSummarized) sealed()          {}
func (InvocationProposed) sealed()         {}
func (InvocationWithheld) sealed()         {}
func (InvocationAwaitingApproval) sealed() {}
func (InvocationApproved) sealed()         {}
func (InvocationDenied) sealed()           {}
func (InvocationWithdrawn) sealed()        {}
func (InvocationDispatched) sealed()       {}
func (InvocationCompleted) sealed()        {}
func (InvocationFailed) sealed()           {}
func (InvocationUncertain) sealed()        {}
func (InvocationInspected) sealed()        {}
func (InvocationReconciled) sealed()       {}
func (JobQueued) sealed()                  {}
func (JobReturned) sealed()                {}
func (JobFailed) sealed()                  {}
func (JobCancelled) sealed()               {}
func (JobCancelRequested) sealed()         {}
func (JobRecovered) sealed()               {}
func (Unknown) sealed()                    {}
