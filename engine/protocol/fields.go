package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// field numbers the members that some frame has.
type field uint8

const (
	fieldUnknown field = iota
	fieldType
	fieldID
	fieldDescription
	fieldRequestFormat
	fieldResponseFormat
	fieldMetadata
	fieldInvocation
	fieldTriggerType
	fieldFunctionID
	fieldConfig
	fieldNamespace
	fieldTriggerNamespace
	fieldError
	fieldTriggerRequestFormat
	fieldCallRequestFormat
	fieldConfigSchema
	fieldName
	fieldParentServiceID
	fieldInvocationID
	fieldData
	fieldTraceparent
	fieldBaggage
	fieldAction
	fieldResult
	fieldPreviousWorkerID
	fieldReattachToken
	fieldWorkerID
	fieldCode
	fieldOwnerWorkerID
	fieldWorkerName
	fieldN
	fieldOf
	numFields
)

var fieldNames = [numFields]string{
	fieldType: "type", fieldID: "id", fieldDescription: "description", fieldRequestFormat: "request_format",
	fieldResponseFormat: "response_format", fieldMetadata: "metadata", fieldInvocation: "invocation",
	fieldTriggerType: "trigger_type", fieldFunctionID: "function_id", fieldConfig: "config",
	fieldNamespace: "namespace", fieldTriggerNamespace: "trigger_namespace", fieldError: "error",
	fieldTriggerRequestFormat: "trigger_request_format", fieldCallRequestFormat: "call_request_format",
	fieldConfigSchema: "config_schema", fieldName: "name", fieldParentServiceID: "parent_service_id",
	fieldInvocationID: "invocation_id", fieldData: "data", fieldTraceparent: "traceparent", fieldBaggage: "baggage",
	fieldAction: "action", fieldResult: "result", fieldPreviousWorkerID: "previous_worker_id",
	fieldReattachToken: "reattach_token", fieldWorkerID: "worker_id", fieldCode: "code",
	fieldOwnerWorkerID: "owner_worker_id", fieldWorkerName: "worker_name", fieldN: "n", fieldOf: "of",
}

// fieldByName is a switch, not a map: the compiler turns it into a search that needs no allocation for a byte slice.
func fieldByName(name string) field {
	switch name {
	case "type":
		return fieldType
	case "id":
		return fieldID
	case "description":
		return fieldDescription
	case "request_format":
		return fieldRequestFormat
	case "response_format":
		return fieldResponseFormat
	case "metadata":
		return fieldMetadata
	case "invocation":
		return fieldInvocation
	case "trigger_type":
		return fieldTriggerType
	case "function_id":
		return fieldFunctionID
	case "config":
		return fieldConfig
	case "namespace":
		return fieldNamespace
	case "trigger_namespace":
		return fieldTriggerNamespace
	case "error":
		return fieldError
	case "trigger_request_format":
		return fieldTriggerRequestFormat
	case "call_request_format":
		return fieldCallRequestFormat
	case "config_schema":
		return fieldConfigSchema
	case "name":
		return fieldName
	case "parent_service_id":
		return fieldParentServiceID
	case "invocation_id":
		return fieldInvocationID
	case "data":
		return fieldData
	case "traceparent":
		return fieldTraceparent
	case "baggage":
		return fieldBaggage
	case "action":
		return fieldAction
	case "result":
		return fieldResult
	case "previous_worker_id":
		return fieldPreviousWorkerID
	case "reattach_token":
		return fieldReattachToken
	case "worker_id":
		return fieldWorkerID
	case "code":
		return fieldCode
	case "owner_worker_id":
		return fieldOwnerWorkerID
	case "worker_name":
		return fieldWorkerName
	case "n":
		return fieldN
	case "of":
		return fieldOf
	}
	return fieldUnknown
}

const (
	wantString     = "a string"
	wantUUID       = "a UUID, with or without dashes"
	wantInteger    = "an integer"
	wantObject     = "an object"
	wantOnce       = "the member once"
	wantErrorBody  = "an object with a string code and a string message"
	wantJSONValue  = "one JSON value in UTF-8"
	wantJSONObject = "one JSON object in UTF-8"
	wantActionType = "void or enqueue"
)

// fields are the known members of one frame. The getters remember the first failure, so that a frame is built in one
// expression and checked once.
type fields struct {
	frame Type
	raw   [numFields]json.RawMessage // nil: absent
	twice uint64                     // bit per field
	err   *DecodeError
}

func (f *fields) add(m *member) {
	id := fieldByName(string(m.key[1 : len(m.key)-1]))
	if id == fieldUnknown && bytes.IndexByte(m.key, '\\') >= 0 {
		id = fieldByName(unquote(m.key))
	}
	if id == fieldUnknown {
		return
	}
	if f.raw[id] != nil {
		f.twice |= 1 << id
	}
	f.raw[id] = m.value
}

func (f *fields) fail(id field, kind Kind, allowed string) {
	if f.err == nil {
		f.err = &DecodeError{Frame: f.frame, Field: fieldNames[id], Kind: kind, Allowed: allowed}
	}
}

// get returns the text of a member, nil if it is absent.
func (f *fields) get(id field) json.RawMessage {
	if f.twice&(1<<id) != 0 {
		f.fail(id, KindDuplicateField, wantOnce)
	}
	return f.raw[id]
}

// opaque returns the text of an optional member; null counts as absent.
func (f *fields) opaque(id field) json.RawMessage {
	if v := f.get(id); !isNull(v) {
		return v
	}
	return nil
}

// object is opaque for a member that must be an object.
func (f *fields) object(id field) json.RawMessage {
	v := f.opaque(id)
	if v != nil && v[0] != '{' {
		f.fail(id, KindBadType, wantObject)
	}
	return v
}

// optional returns an optional string; null counts as absent.
func (f *fields) optional(id field) *string {
	v := f.opaque(id)
	if v == nil {
		return nil
	}
	if v[0] != '"' {
		f.fail(id, KindBadType, wantString)
		return nil
	}
	s := unquote(v)
	return &s
}

// text is optional with absent as empty.
func (f *fields) text(id field) string {
	v := f.opaque(id)
	if v == nil {
		return ""
	}
	if v[0] != '"' {
		f.fail(id, KindBadType, wantString)
		return ""
	}
	return unquote(v)
}

// required returns a string that must be there; it may be empty.
func (f *fields) required(id field) string {
	v := f.get(id)
	if v == nil {
		f.fail(id, KindMissingField, wantString)
		return ""
	}
	if v[0] != '"' {
		f.fail(id, KindBadType, wantString)
		return ""
	}
	return unquote(v)
}

// uuid checks a string that text or required returned for id.
func (f *fields) uuid(id field, s string) string {
	if _, ok := CanonicalID(s); !ok {
		f.fail(id, KindBadUUID, wantUUID)
	}
	return s
}

// integer returns a whole number that must be there.
func (f *fields) integer(id field) int {
	v := f.get(id)
	if v == nil {
		f.fail(id, KindMissingField, wantInteger)
		return 0
	}
	n, err := strconv.Atoi(string(v))
	if err != nil {
		f.fail(id, KindBadType, wantInteger)
		return 0
	}
	return n
}
