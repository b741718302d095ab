package redact

import (
	"bytes"
	"encoding/json"
)

const (
	// excerptLen is how many code points of a string an excerpt keeps.
	excerptLen = 256
	// excerptDepth is how deep an excerpt goes; the tree itself is depth 0.
	excerptDepth = 64
)

// Excerpt is the short form of a call's arguments for denials and approval
// requests: a new JSON value, values under secret keys as "<redacted>",
// strings of at most 256 code points plus an ellipsis, and "<max-depth>" in
// place of objects and arrays below depth 64. Data that is empty gives {};
// data that is no JSON gives a string.
func Excerpt(data []byte) json.RawMessage { return excerpt(&Secrets, data) }

func excerpt(known *Registry, data []byte) json.RawMessage {
	if len(bytes.TrimSpace(data)) == 0 {
		return json.RawMessage("{}")
	}
	mask := func(s string) string { return cover(s, markExcerpt, find(known, s, true)) }
	short := func(s string) string { return clip(mask(s), excerptLen) }
	if !json.Valid(data) {
		return appendString(nil, short(string(data)))
	}
	w := walker{hideKey: excerptKey, mark: markExcerpt, text: mask, value: short, maxDepth: excerptDepth}
	return w.run(data)
}

// Telemetry takes secrets out of a payload for logs, spans and events. JSON
// gives JSON, whole and without space between its tokens: values under secret
// keys become "[REDACTED]", other strings, keys and numbers go through Text.
// Anything else gives text. The caller truncates afterwards.
func Telemetry(data []byte) []byte { return telemetry(&Secrets, data) }

func telemetry(known *Registry, data []byte) []byte {
	mask := func(s string) string { return text(known, s) }
	if !json.Valid(data) {
		return []byte(mask(string(data)))
	}
	w := walker{hideKey: telemetryKey, mark: Mark, text: mask, value: mask}
	return w.run(data)
}
