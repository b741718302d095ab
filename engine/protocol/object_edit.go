package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Members the bus adds to payloads and to metadata.
const (
	// CallerWorkerID is the member of data that names the calling connection's worker.
	CallerWorkerID = "_caller_worker_id"

	// The members of metadata that the bus alone sets.
	MetadataPrincipal      = "principal"
	MetadataDeadlineMS     = "deadline_ms"
	MetadataIdempotencyKey = "idempotency_key"
	MetadataReply          = "reply"

	// MetadataParentInvocationID is the member by which a worker names the call it works for.
	MetadataParentInvocationID = "parent_invocation_id"
)

// Pair is a member to set. A nil value only removes.
type Pair struct {
	Key   string
	Value json.RawMessage
}

// ObjectError says why a text could not be edited.
type ObjectError struct {
	Field   string // the member that was to be set; empty for the object itself
	Allowed string
}

func (e *ObjectError) Error() string {
	if e.Field == "" {
		return "protocol: edit object: want " + e.Allowed
	}
	return fmt.Sprintf("protocol: edit object: value of %q: want %s", e.Field, e.Allowed)
}

// Code returns the code of KindInvalidJSON.
func (e *ObjectError) ErrorCode() string { return string(KindInvalidJSON) }

// Retryable returns false: the same text fails again.
func (e *ObjectError) Retryable() bool { return false }

// SetMember returns obj with one member set. See SetMembers.
func SetMember(obj json.RawMessage, key string, value json.RawMessage) (json.RawMessage, error) {
	if value == nil {
		return nil, &ObjectError{Field: key, Allowed: wantJSONValue}
	}
	return SetMembers(obj, Pair{Key: key, Value: value})
}

// RemoveMember returns obj without the named members. See SetMembers.
func RemoveMember(obj json.RawMessage, keys ...string) (json.RawMessage, error) {
	pairs := make([]Pair, len(keys))
	for i, key := range keys {
		pairs[i].Key = key
	}
	return SetMembers(obj, pairs...)
}

// SetMembers returns a copy of the JSON object obj in which each pair is the only member of its name. The pairs come
// first, in their order: the iii engine sorts its keys, which puts _caller_worker_id there too. All other members keep
// their text, order and spacing.
//
// A member has the name if its key, unescaped, equals it without regard to case, because that is how encoding/json
// matches struct fields: neither "princip\u0061l" nor "Principal" nor a second "principal" survives beside the one that
// was set. The error is an *ObjectError: obj is not one JSON object, or a value is not JSON.
func SetMembers(obj json.RawMessage, pairs ...Pair) (json.RawMessage, error) {
	size := len(obj) + 2
	for _, p := range pairs {
		if p.Value != nil && (!utf8.Valid(p.Value) || !validValue(p.Value, 1)) {
			return nil, &ObjectError{Field: p.Key, Allowed: wantJSONValue}
		}
		size += len(p.Key) + len(p.Value) + len(`"":,`)
	}
	r, ok := openObject(obj, 0)
	if !ok || !utf8.Valid(obj) {
		return nil, &ObjectError{Allowed: wantJSONObject}
	}
	out := append(make(json.RawMessage, 0, size), '{')
	for _, p := range pairs {
		if p.Value != nil {
			out = append(appendString(comma(out), p.Key), ':')
			out = append(out, p.Value...)
		}
	}
	var m member
	for r.next(&m) {
		if !named(m.key, pairs) {
			out = append(comma(out), obj[m.start:m.end]...)
		}
	}
	if !r.whole() {
		return nil, &ObjectError{Allowed: wantJSONObject}
	}
	return append(out, '}'), nil
}

// comma appends what separates the next member from the one before it.
func comma(out json.RawMessage) json.RawMessage {
	if len(out) > 1 {
		return append(out, ',')
	}
	return out
}

// named reports whether a quoted member name folds to the key of one of the pairs.
func named(quoted []byte, pairs []Pair) bool {
	inner := quoted[1 : len(quoted)-1]
	escaped := bytes.IndexByte(inner, '\\') >= 0
	for _, p := range pairs {
		// Folding at most triples the length of a name (K and the three bytes of the Kelvin sign).
		if !escaped && len(inner) > 3*len(p.Key) {
			continue
		}
		name := inner
		if escaped {
			name = []byte(unquote(quoted))
		}
		if strings.EqualFold(string(name), p.Key) {
			return true
		}
	}
	return false
}

// Member returns the value of the member of obj whose key, unescaped, is exactly key; of several the last, as
// encoding/json and JSON.parse have it. It reports false if there is none or obj is not one JSON object. The value is a
// slice of obj.
func Member(obj json.RawMessage, key string) (json.RawMessage, bool) {
	r, _ := openObject(obj, 0)
	var m member
	var found json.RawMessage
	for r.next(&m) {
		if keyIs(m.key, key) {
			found = m.value
		}
	}
	return found, found != nil && r.whole()
}

// MetadataObject returns metadata as an object that members can be added to: nil and null become {}, what is no object
// becomes {"value": metadata}, an object stays as it is.
func MetadataObject(metadata json.RawMessage) json.RawMessage {
	switch {
	case metadata == nil || isNull(metadata):
		return json.RawMessage("{}")
	case isObject(metadata):
		return metadata
	}
	out := make(json.RawMessage, 0, len(metadata)+len(`{"value":}`))
	out = append(out, `{"value":`...)
	out = append(out, metadata...)
	return append(out, '}')
}

// isObject reports whether well-formed JSON text is an object.
func isObject(raw json.RawMessage) bool {
	i := skipSpace(raw, 0)
	return i < len(raw) && raw[i] == '{'
}
