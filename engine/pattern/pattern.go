package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Wildcard stands for any run of characters but a newline.
const Wildcard = "*"

// Pattern is a compiled glob. The zero Pattern matches nothing.
type Pattern struct {
	text string
	// parts are the literals between the stars; nil for an exact pattern.
	parts []string
}

// Compile reads a pattern. The error is an *Error.
func Compile(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, &Error{Pattern: text, Problem: "is empty"}
	case !utf8.ValidString(text):
		return Pattern{}, &Error{Pattern: text, Problem: "is not valid UTF-8"}
	case !strings.Contains(text, Wildcard):
		return Pattern{text: text}, nil
	case strings.Contains(text, "\n"):
		return Pattern{}, &Error{Pattern: text, Problem: "has a newline beside a star and could never match"}
	}
	return Pattern{text: text, parts: strings.Split(text, Wildcard)}, nil
}

// MustCompile is Compile for patterns that are constants of the program. It
// panics on a bad one.
func MustCompile(text string) Pattern {
	p, err := Compile(text)
	if err != nil {
		panic(err)
	}
	return p
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Exact reports whether the pattern has no star.
func (p Pattern) Exact() bool { return p.parts == nil }

// Match reports whether the whole of s matches.
func (p Pattern) Match(s string) bool {
	if p.parts == nil {
		return p.text != "" && p.text == s
	}
	if strings.IndexByte(s, '\n') >= 0 {
		return false
	}
	last := len(p.parts) - 1
	s, ok := strings.CutPrefix(s, p.parts[0])
	if !ok {
		return false
	}
	s, ok = strings.CutSuffix(s, p.parts[last])
	if !ok {
		return false
	}
	// The first place where a middle part fits leaves the most room for the
	// parts behind it, so no other place has to be tried.
	for _, part := range p.parts[1:last] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// Error is a pattern that cannot be used.
type Error struct {
	Pattern string
	Problem string
}

// Error is the text of the error.
func (e *Error) Error() string {
	return fmt.Sprintf("pattern: %q %s", e.Pattern, e.Problem)
}

// ErrorCode is invalid_pattern.
func (e *Error) ErrorCode() string { return "invalid_pattern" }

// Retryable is false: the pattern has to be changed.
func (e *Error) Retryable() bool { return false }
