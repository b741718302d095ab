package embedded

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/state"
)

// Limits of names in bytes.
const (
	maxScope = 512
	maxKey   = 1024
)

// separator ends every part of a tuple but the last. No part holds it, so two
// different tuples never give the same bytes, and tuples sort part by part.
const separator = 0x00

// tuple encodes names as one key.
func tuple(parts ...string) []byte {
	n := len(parts) - 1
	for _, p := range parts {
		n += len(p)
	}
	return appendTuple(make([]byte, 0, n), parts...)
}

func appendTuple(b []byte, parts ...string) []byte {
	for i, p := range parts {
		if i > 0 {
			b = append(b, separator)
		}
		b = append(b, p...)
	}
	return b
}

// prefix is what all tuples start with that begin with parts.
func prefix(parts ...string) []byte {
	return append(tuple(parts...), separator)
}

// split is the inverse of tuple for n parts.
func split(key []byte, n int) ([]string, bool) {
	parts := strings.SplitN(string(key), string(rune(separator)), n)
	if len(parts) != n || strings.IndexByte(parts[n-1], separator) >= 0 {
		return nil, false
	}
	return parts, true
}

// firstPart is the first name of a tuple of at least two.
func firstPart(key []byte) (string, bool) {
	i := bytes.IndexByte(key, separator)
	if i < 0 {
		return "", false
	}
	return string(key[:i]), true
}

// behind is the first possible key after all that start with a prefix, which
// ends in a separator.
func behind(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1] = separator + 1
	return end
}

// checkName refuses a name that cannot be stored.
func checkName(field, name string, limit int) error {
	if len(name) == 0 || len(name) > limit || !utf8.ValidString(name) || strings.IndexByte(name, separator) >= 0 {
		return &state.InvalidKeyError{Field: field, Allowed: fmt.Sprintf("1 to %d bytes of UTF-8 without NUL", limit)}
	}
	return nil
}

func checkKey(k state.Key) error {
	if err := checkName("scope", k.Scope, maxScope); err != nil {
		return err
	}
	return checkName("key", k.Key, maxKey)
}
