package protocol

import "encoding/json"

func buildInvokeFunction(f *fields) Frame {
	call := &InvokeFunction{
		FunctionID:  f.required(fieldFunctionID),
		Data:        f.get(fieldData),
		Metadata:    f.opaque(fieldMetadata),
		Traceparent: f.text(fieldTraceparent),
		Baggage:     f.text(fieldBaggage),
		Action:      buildAction(f),
		Namespace:   f.optional(fieldNamespace),
	}
	if call.Data == nil {
		call.Data = json.RawMessage("null")
	}
	if id := f.optional(fieldInvocationID); id != nil {
		call.InvocationID = f.uuid(fieldInvocationID, *id)
	}
	return call
}

func buildAction(f *fields) *Action {
	raw := f.object(fieldAction)
	if raw == nil || f.err != nil {
		return nil
	}
	kind, ok := stringMember(raw, "type")
	if !ok {
		f.failAction("action.type", "a string, once")
		return nil
	}
	switch ActionType(kind) {
	case ActionVoid:
		return &Action{Type: ActionVoid}
	case ActionEnqueue:
		queue, ok := stringMember(raw, "queue")
		if !ok {
			f.failAction("action.queue", "a string, once")
			return nil
		}
		return &Action{Type: ActionEnqueue, Queue: queue}
	}
	f.failAction("action.type", wantActionType)
	return nil
}

func (f *fields) failAction(name, allowed string) {
	if f.err == nil {
		f.err = &DecodeError{Frame: f.frame, Field: name, Kind: KindBadValue, Allowed: allowed}
	}
}

// buildInvocationResult lets a result with a readable id through whatever else is wrong with it: a dropped one would leave
// its caller waiting for ever.
func buildInvocationResult(f *fields) Frame {
	id := f.uuid(fieldInvocationID, f.required(fieldInvocationID))
	if f.err != nil {
		return nil
	}
	res := &InvocationResult{
		InvocationID: id,
		FunctionID:   f.text(fieldFunctionID),
		Result:       f.get(fieldResult),
		Error:        buildError(f, CodeInvocationFailed),
		Traceparent:  f.text(fieldTraceparent),
		Baggage:      f.text(fieldBaggage),
	}
	if f.err != nil {
		res.Error = &Error{Code: CodeInvocationFailed, Message: "malformed result: " + f.err.Error()}
		f.err = nil
	}
	if res.Error != nil {
		res.Result = nil
	}
	return res
}

// buildError reads the member "error". A string becomes the message of code UNKNOWN, a missing message is empty, a
// stacktrace that is no string is left out; anything else that is not an error body becomes code fallback.
func buildError(f *fields, fallback string) *Error {
	raw := f.opaque(fieldError)
	if raw == nil {
		return nil
	}
	switch raw[0] {
	case '"':
		return &Error{Code: CodeUnknown, Message: unquote(raw)}
	case '{':
		code, hasCode := stringMember(raw, "code")
		message, hasMessage := stringMember(raw, "message")
		stack, _ := stringMember(raw, "stacktrace")
		if hasCode && (hasMessage || absent(raw, "message")) {
			return &Error{Code: code, Message: message, Stacktrace: stack}
		}
		if hasMessage {
			return &Error{Code: fallback, Message: message, Stacktrace: stack}
		}
	}
	return &Error{Code: fallback, Message: "malformed error body, want " + wantErrorBody}
}

// stringMember returns the string member of an object that is known to be well-formed. It reports false for a member
// that is absent, no string, or there twice.
func stringMember(obj json.RawMessage, key string) (string, bool) {
	r, _ := openObject(obj, 0)
	var m member
	var found json.RawMessage
	for r.next(&m) {
		if !keyIs(m.key, key) {
			continue
		}
		if found != nil {
			return "", false
		}
		found = m.value
	}
	if found == nil || found[0] != '"' {
		return "", false
	}
	return unquote(found), true
}

func absent(obj json.RawMessage, key string) bool {
	v, ok := Member(obj, key)
	return !ok || isNull(v)
}
