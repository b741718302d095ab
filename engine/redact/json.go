package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// walker copies a valid JSON text and puts marks where the profile wants them.
// What it does not change it copies byte for byte, but for space between
// tokens.
type walker struct {
	src []byte
	pos int
	out []byte

	// hideKey tells the keys whose values give way to mark.
	hideKey func(string) bool
	mark    string
	// text is the form of a key, value that of a string or other scalar:
	// itself, or a string that takes its place.
	text     func(string) string
	value    func(string) string
	maxDepth int
}

// deep takes the place of a tree below maxDepth.
const deep = "<max-depth>"

func (w *walker) run(data []byte) []byte {
	w.src = data
	w.out = make([]byte, 0, len(data))
	w.walk(0)
	return w.out
}

func (w *walker) walk(depth int) {
	switch c := w.peek(); c {
	case '{', '[':
		if w.maxDepth > 0 && depth >= w.maxDepth {
			w.skip()
			w.put(deep)
			return
		}
		w.tree(c, depth)
	case '"':
		w.string(w.value)
	default:
		raw := w.scalar()
		if s := w.value(string(raw)); s != string(raw) {
			w.put(s)
			return
		}
		w.out = append(w.out, raw...)
	}
}

// tree copies an object or array.
func (w *walker) tree(open byte, depth int) {
	w.out = append(w.out, open)
	w.pos++
	for first := true; ; first = false {
		c := w.peek()
		if c == '}' || c == ']' {
			w.out = append(w.out, c)
			w.pos++
			return
		}
		if !first {
			w.out = append(w.out, ',')
			w.pos++
			w.peek()
		}
		if open == '{' {
			key := w.string(w.text)
			w.peek()
			w.pos++
			w.out = append(w.out, ':')
			if w.hideKey(key) {
				w.skip()
				w.put(w.mark)
				continue
			}
		}
		w.walk(depth + 1)
	}
}

// string copies the string at pos in the form that f gives it, and returns
// what it says.
func (w *walker) string(f func(string) string) string {
	raw := w.literal()
	s := string(raw[1 : len(raw)-1])
	if bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		// A string of a valid text always decodes.
		_ = json.Unmarshal(raw, &s)
	}
	if g := f(s); g != s || !utf8.Valid(raw) {
		w.put(g)
	} else {
		w.out = append(w.out, raw...)
	}
	return s
}

// put writes a string.
func (w *walker) put(s string) { w.out = appendString(w.out, s) }

// appendString appends s as JSON, without the escapes that only HTML needs.
func appendString(out []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// A string always encodes.
	_ = enc.Encode(s)
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// peek skips space and is the byte at pos.
func (w *walker) peek() byte {
	for {
		switch c := w.src[w.pos]; c {
		case ' ', '\t', '\r', '\n':
			w.pos++
		default:
			return c
		}
	}
}

// literal is the string at pos with its quotes; pos moves behind it.
func (w *walker) literal() []byte {
	from := w.pos
	for w.pos++; w.src[w.pos] != '"'; w.pos++ {
		if w.src[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos++
	return w.src[from:w.pos]
}

// scalar is the number, true, false or null at pos.
func (w *walker) scalar() []byte {
	from := w.pos
	for w.pos < len(w.src) && strings.IndexByte(" \t\r\n,]}", w.src[w.pos]) < 0 {
		w.pos++
	}
	return w.src[from:w.pos]
}

// skip moves behind the value at pos.
func (w *walker) skip() {
	depth := 0
	for {
		switch w.peek() {
		case '"':
			w.literal()
		case '{', '[':
			depth++
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		case ',', ':':
			w.pos++
			continue
		default:
			w.scalar()
		}
		if depth == 0 {
			return
		}
	}
}
