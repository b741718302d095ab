package main

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// visible is a writer that shows control characters instead of obeying them.
// What a model, a function or a file name says reaches the terminal through it,
// and must not move the cursor, retitle the window, or turn text around. A
// character is shown as \u and four digits, which inside of JSON means the same
// character. A character may come in two writes.
// It is safe for concurrent use.
type visible struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // the begin of a character, or a carriage return
}

// Write implements io.Writer.
func (v *visible) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := append(v.rest, p...)
	out := make([]byte, 0, len(b))
	v.rest = nil
	for len(b) > 0 {
		if b[0] == '\r' && len(b) == 1 || !utf8.FullRune(b) {
			v.rest = append([]byte(nil), b...)
			break
		}
		r, size := utf8.DecodeRune(b)
		switch {
		case r == '\r' && b[1] == '\n':
		case r == utf8.RuneError && size == 1:
			out = utf8.AppendRune(out, utf8.RuneError)
		case r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
