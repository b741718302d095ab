package protocol

import "encoding/json"

func buildRegisterTrigger(f *fields) Frame {
	t := &RegisterTrigger{
		ID:               f.required(fieldID),
		TriggerType:      f.required(fieldTriggerType),
		FunctionID:       f.required(fieldFunctionID),
		Config:           f.get(fieldConfig),
		Metadata:         f.opaque(fieldMetadata),
		Namespace:        f.optional(fieldNamespace),
		TriggerNamespace: f.optional(fieldTriggerNamespace),
	}
	if t.Config == nil {
		t.Config = json.RawMessage("{}")
	}
	return t
}

// buildTriggerRegistrationResult takes an error that is no error body for a failed registration, never for success.
func buildTriggerRegistrationResult(f *fields) Frame {
	return &TriggerRegistrationResult{
		ID:          f.required(fieldID),
		TriggerType: f.required(fieldTriggerType),
		FunctionID:  f.required(fieldFunctionID),
		Error:       buildError(f, CodeTriggerRegistrationFailed),
	}
}
