package protocol

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Encode writes one frame. See Append.
func Encode(f Frame) ([]byte, error) {
	return Append(nil, f)
}

// Append appends the text of a frame to dst. Members come in the order in which the iii engine sends them, optional ones
// are left out when empty, opaque ones are copied as they are, and nothing is escaped that need not be. The error is an
// *EncodeError; dst is then returned as it was. What Append writes, Decode accepts.
func Append(dst []byte, f Frame) ([]byte, error) {
	if f == nil {
		return dst, &EncodeError{Kind: KindMissingField, Allowed: "a frame"}
	}
	e := encoder{frame: f.Type(), dst: dst}
	e.dst = append(e.dst, `{"type":"`...)
	e.dst = append(e.dst, e.frame...)
	e.dst = append(e.dst, '"')
	f.encode(&e)
	if e.err != nil {
		return dst, e.err
	}
	return append(e.dst, '}'), nil
}

// encoder appends members and remembers the first failure.
type encoder struct {
	frame Type
	dst   []byte
	err   *EncodeError
}

func (e *encoder) fail(id field, kind Kind, allowed string) {
	if e.err == nil {
		e.err = &EncodeError{Frame: e.frame, Field: fieldNames[id], Kind: kind, Allowed: allowed}
	}
}

func (e *encoder) key(id field) {
	e.dst = append(e.dst, ',', '"')
	e.dst = append(e.dst, fieldNames[id]...)
	e.dst = append(e.dst, '"', ':')
}

// text writes a member that is always there.
func (e *encoder) text(id field, s string) {
	e.key(id)
	e.dst = appendString(e.dst, s)
}

// optional writes a member that is left out when empty.
func (e *encoder) optional(id field, s string) {
	if s != "" {
		e.text(id, s)
	}
}

// name writes a member whose absence differs from the empty string.
func (e *encoder) name(id field, s *string) {
	if s != nil {
		e.text(id, *s)
	}
}

// uuid writes an invocation id.
func (e *encoder) uuid(id field, s string) {
	if _, ok := CanonicalID(s); !ok {
		e.fail(id, KindBadUUID, wantUUID)
	}
	e.text(id, s)
}

func (e *encoder) integer(id field, n int) {
	e.key(id)
	e.dst = strconv.AppendInt(e.dst, int64(n), 10)
}

// opaque copies JSON text; nil is left out.
func (e *encoder) opaque(id field, raw json.RawMessage) {
	if raw == nil {
		return
	}
	if !utf8.Valid(raw) || !validValue(raw, 1) {
		e.fail(id, KindInvalidJSON, wantJSONValue)
		return
	}
	e.key(id)
	e.dst = append(e.dst, raw...)
}

// object is opaque for a member that must be an object.
func (e *encoder) object(id field, raw json.RawMessage) {
	if raw != nil && !isObject(raw) {
		e.fail(id, KindBadType, wantObject)
	}
	e.opaque(id, raw)
}

// always is opaque with a text for nil.
func (e *encoder) always(id field, raw json.RawMessage, absent string) {
	if raw == nil {
		e.key(id)
		e.dst = append(e.dst, absent...)
		return
	}
	e.opaque(id, raw)
}

func (e *encoder) errorBody(err *Error) {
	if err == nil {
		return
	}
	e.key(fieldError)
	e.dst = append(e.dst, `{"code":`...)
	e.dst = appendString(e.dst, err.Code)
	e.dst = append(e.dst, `,"message":`...)
	e.dst = appendString(e.dst, err.Message)
	if err.Stacktrace != "" {
		e.dst = append(e.dst, `,"stacktrace":`...)
		e.dst = appendString(e.dst, err.Stacktrace)
	}
	e.dst = append(e.dst, '}')
}
