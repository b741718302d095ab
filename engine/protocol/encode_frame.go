package protocol

func (f *InvokeFunction) encode(e *encoder) {
	if f.InvocationID != "" {
		e.uuid(fieldInvocationID, f.InvocationID)
	}
	e.text(fieldFunctionID, f.FunctionID)
	e.always(fieldData, f.Data, "null")
	e.optional(fieldTraceparent, f.Traceparent)
	e.optional(fieldBaggage, f.Baggage)
	e.opaque(fieldMetadata, f.Metadata)
	if f.Action != nil {
		e.action(f.Action)
	}
	e.name(fieldNamespace, f.Namespace)
}

func (e *encoder) action(a *Action) {
	e.key(fieldAction)
	switch a.Type {
	case ActionVoid:
		e.dst = append(e.dst, `{"type":"void"}`...)
	case ActionEnqueue:
		e.dst = append(e.dst, `{"type":"enqueue","queue":`...)
		e.dst = append(appendString(e.dst, a.Queue), '}')
	default:
		e.fail(fieldAction, KindBadValue, wantActionType)
	}
}

func (f *InvocationResult) encode(e *encoder) {
	e.uuid(fieldInvocationID, f.InvocationID)
	e.text(fieldFunctionID, f.FunctionID)
	if f.Error == nil {
		e.opaque(fieldResult, f.Result)
	}
	e.errorBody(f.Error)
	e.optional(fieldTraceparent, f.Traceparent)
	e.optional(fieldBaggage, f.Baggage)
}

func (f *Reattach) encode(e *encoder) {
	e.text(fieldPreviousWorkerID, f.PreviousWorkerID)
	e.optional(fieldReattachToken, f.ReattachToken)
}

func (f *WorkerRegistered) encode(e *encoder) {
	e.text(fieldWorkerID, f.WorkerID)
	e.optional(fieldReattachToken, f.ReattachToken)
}

func (f *RegisterFunction) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.optional(fieldDescription, f.Description)
	e.opaque(fieldRequestFormat, f.RequestFormat)
	e.opaque(fieldResponseFormat, f.ResponseFormat)
	e.opaque(fieldMetadata, f.Metadata)
	e.object(fieldInvocation, f.Invocation)
}

func (f *UnregisterFunction) encode(e *encoder) { e.text(fieldID, f.ID) }

func (f *RegisterTrigger) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.text(fieldTriggerType, f.TriggerType)
	e.text(fieldFunctionID, f.FunctionID)
	e.always(fieldConfig, f.Config, "{}")
	e.opaque(fieldMetadata, f.Metadata)
	e.name(fieldNamespace, f.Namespace)
	e.name(fieldTriggerNamespace, f.TriggerNamespace)
}

func (f *UnregisterTrigger) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.optional(fieldTriggerType, f.TriggerType)
}

func (f *TriggerRegistrationResult) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.text(fieldTriggerType, f.TriggerType)
	e.text(fieldFunctionID, f.FunctionID)
	e.errorBody(f.Error)
}

func (f *RegisterTriggerType) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.text(fieldDescription, f.Description)
	e.opaque(fieldTriggerRequestFormat, f.TriggerRequestFormat)
	e.opaque(fieldCallRequestFormat, f.CallRequestFormat)
	e.opaque(fieldConfigSchema, f.ConfigSchema)
	e.name(fieldNamespace, f.Namespace)
}

func (f *UnregisterTriggerType) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.optional(fieldDescription, f.Description)
}

func (f *RegisterService) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.optional(fieldName, f.Name)
	e.optional(fieldDescription, f.Description)
	e.optional(fieldParentServiceID, f.ParentServiceID)
}

func (f *RegistrationRejected) encode(e *encoder) {
	e.text(fieldCode, f.Code)
	e.text(fieldNamespace, f.Namespace)
	e.optional(fieldWorkerName, f.WorkerName)
	e.optional(fieldFunctionID, f.FunctionID)
	e.text(fieldOwnerWorkerID, f.OwnerWorkerID)
}

func (*Ping) encode(*encoder) {}

func (*Pong) encode(*encoder) {}

func (f *Chunk) encode(e *encoder) {
	e.text(fieldID, f.ID)
	e.integer(fieldN, f.N)
	e.integer(fieldOf, f.Of)
	e.text(fieldData, f.Data)
}
