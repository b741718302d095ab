package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// parsePath reads a path: absent, null, "" and [] are the root; a string is one literal key, an array one per element.
func parsePath(raw json.RawMessage) ([]string, bool) {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return nil, true
	}
	switch kindOf(text) {
	case kindNull:
		return nil, true
	case kindString:
		var s string
		if json.Unmarshal(text, &s) != nil {
			return nil, false
		}
		if s == "" {
			return nil, true
		}
		return []string{s}, true
	case kindArray:
		var elements []json.RawMessage
		if json.Unmarshal(text, &elements) != nil {
			return nil, false
		}
		path := make([]string, len(elements))
		for i, e := range elements {
			if kindOf(e) != kindString || json.Unmarshal(e, &path[i]) != nil {
				return nil, false
			}
		}
		return path, true
	}
	return nil, false
}

// checkPath checks a path against the limits.
func checkPath(op string, path []string) *OpError {
	fail := func(code, message string) *OpError {
		return &OpError{Code: op + ".path." + code, Message: message}
	}
	if len(path) > MaxPathDepth {
		return fail("too_deep", fmt.Sprintf("Path depth %d exceeds maximum of %d", len(path), MaxPathDepth))
	}
	for _, segment := range path {
		switch {
		case segment == "":
			return fail("empty_segment", "Path contains an empty segment")
		case len(segment) > MaxPathSegment:
			return fail("segment_too_long",
				fmt.Sprintf("Path segment of %d bytes exceeds maximum of %d", len(segment), MaxPathSegment))
		case polluting(segment):
			return fail("proto_polluted", "Path segment '"+segment+"' is not allowed (prototype pollution).")
		}
	}
	return nil
}

// polluting reports whether a key reaches the prototype of objects in JavaScript.
func polluting(key string) bool {
	return key == "__proto__" || key == "constructor" || key == "prototype"
}

// label is a path in a message.
func label(path []string) string { return strings.Join(path, ".") }
