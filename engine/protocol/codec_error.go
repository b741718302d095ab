package protocol

import "fmt"

// Kind is the stable code of a DecodeError or an EncodeError.
type Kind string

// The kinds.
const (
	// KindInvalidJSON is text that is not one JSON object in UTF-8, or nests too deep; when encoding, an opaque member
	// that is not JSON.
	KindInvalidJSON Kind = "invalid_json"
	// KindUnknownType is a frame of a type this bus does not know.
	KindUnknownType Kind = "unknown_type"
	// KindMissingField is a required member that is absent.
	KindMissingField Kind = "missing_field"
	// KindDuplicateField is a member of the frame that occurs more than once.
	KindDuplicateField Kind = "duplicate_field"
	// KindBadType is a member whose JSON type is not the one it must have.
	KindBadType Kind = "bad_type"
	// KindBadUUID is an invocation id that is not a UUID.
	KindBadUUID Kind = "bad_uuid"
	// KindBadValue is a member of the right type with a value that is not allowed.
	KindBadValue Kind = "bad_value"
)

// DecodeError says why a text is not a frame. It never quotes the payload.
type DecodeError struct {
	Frame   Type   // the type the frame claims, cut at 64 bytes; empty if it could not be read
	Field   string // the member at fault, with a dot before a member of a member; empty for the whole frame
	Kind    Kind
	Allowed string // what would have been accepted
}

func (e *DecodeError) Error() string {
	return "protocol: decode" + describe(e.Frame, e.Field, e.Kind, e.Allowed)
}

// Code returns the kind as a string.
func (e *DecodeError) ErrorCode() string { return string(e.Kind) }

// Retryable returns false: the same text fails again.
func (e *DecodeError) Retryable() bool { return false }

// EncodeError says why a frame cannot be written. It is a mistake of the program that made the frame.
type EncodeError struct {
	Frame   Type
	Field   string
	Kind    Kind
	Allowed string
}

func (e *EncodeError) Error() string {
	return "protocol: encode" + describe(e.Frame, e.Field, e.Kind, e.Allowed)
}

// Code returns the kind as a string.
func (e *EncodeError) ErrorCode() string { return string(e.Kind) }

// Retryable returns false: the same frame fails again.
func (e *EncodeError) Retryable() bool { return false }

func describe(frame Type, field string, kind Kind, allowed string) string {
	s := ""
	if frame != "" {
		s += fmt.Sprintf(" %q", string(frame))
	}
	if field != "" {
		s += " field " + field
	}
	s += ": " + string(kind)
	if allowed != "" {
		s += ", want " + allowed
	}
	return s
}
