package viewer

import "unicode/utf8"

// PageBytes bounds the text of one delta or snapshot, counted as JSON text.
const PageBytes = 24 << 10

// page is how much of text one page takes: whole runes, at least one of them.
func page(text []byte) (bytes, runes int) {
	size := 0
	for bytes < len(text) {
		r, n := utf8.DecodeRune(text[bytes:])
		size += encodedLen(r, n)
		if size > PageBytes && bytes > 0 {
			break
		}
		bytes += n
		runes++
	}
	return bytes, runes
}

// encodedLen is how long encoding/json writes a rune of n bytes.
func encodedLen(r rune, n int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError && n == 1:
		return 6
	}
	return n
}
