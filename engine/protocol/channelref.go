package protocol

import (
	"bytes"
	"encoding/json"
)

// Direction says which end of a channel a ref opens.
type Direction string

// The directions.
const (
	DirectionRead  Direction = "read"
	DirectionWrite Direction = "write"
)

// ChannelRef is one end of a data channel, as it travels in payloads. Whoever holds it may open the end, once.
type ChannelRef struct {
	ChannelID string    `json:"channel_id"`
	AccessKey string    `json:"access_key"`
	Direction Direction `json:"direction"`
}

// FindRefs returns the channel refs anywhere in payload, in the order in which their objects end. A ref is known by its
// shape alone: an object with the strings channel_id and access_key, and a direction read or write; it may have more
// members, and of equal ones the last counts. Text that is not one JSON value, or nests deeper than MaxDepth, has none.
func FindRefs(payload json.RawMessage) []ChannelRef {
	// Most payloads have no ref: they cannot have one without this name, plain or escaped.
	if !bytes.Contains(payload, []byte("channel_id")) && !bytes.Contains(payload, []byte(`\u`)) {
		return nil
	}
	if !validValue(payload, 0) {
		return nil
	}
	f := refFinder{buf: payload}
	f.value(skipSpace(payload, 0))
	return f.refs
}

// refFinder walks well-formed JSON once.
type refFinder struct {
	buf  []byte
	refs []ChannelRef
}

// value visits the value at i and returns the index past it.
func (f *refFinder) value(i int) int {
	switch f.buf[i] {
	case '{':
		return f.object(i)
	case '[':
		return f.array(i)
	}
	return scanValue(f.buf, i, 0)
}

func (f *refFinder) array(i int) int {
	for i = skipSpace(f.buf, i+1); f.buf[i] != ']'; {
		if i = skipSpace(f.buf, f.value(i)); f.buf[i] == ',' {
			i = skipSpace(f.buf, i+1)
		}
	}
	return i + 1
}

func (f *refFinder) object(i int) int {
	var id, access, direction []byte
	for i = skipSpace(f.buf, i+1); f.buf[i] != '}'; {
		keyEnd := scanString(f.buf, i)
		key := f.buf[i:keyEnd]
		start := skipSpace(f.buf, skipSpace(f.buf, keyEnd)+1)
		end := f.value(start)
		switch value := f.buf[start:end]; {
		case keyIs(key, "channel_id"):
			id = value
		case keyIs(key, "access_key"):
			access = value
		case keyIs(key, "direction"):
			direction = value
		}
		if i = skipSpace(f.buf, end); f.buf[i] == ',' {
			i = skipSpace(f.buf, i+1)
		}
	}
	if isString(id) && isString(access) && isString(direction) {
		ref := ChannelRef{ChannelID: unquote(id), AccessKey: unquote(access), Direction: Direction(unquote(direction))}
		if ref.Direction == DirectionRead || ref.Direction == DirectionWrite {
			f.refs = append(f.refs, ref)
		}
	}
	return i + 1
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
