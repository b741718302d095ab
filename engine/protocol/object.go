package protocol

import "encoding/json"

// member is one member of a JSON object.
type member struct {
	// start and end bound the member with the space around it, without the commas beside it.
	start, end int
	key        []byte // quoted, as written
	value      json.RawMessage
}

// objectReader walks the members of an object once and checks its grammar on the way.
type objectReader struct {
	buf   []byte
	pos   int // next byte to read; the index past the closing brace once done
	depth int // containers open around the members, the object itself included
	first bool
	done  bool
	bad   bool
}

// openObject starts at the object that is the whole of b, space around it allowed.
func openObject(b []byte, depth int) (objectReader, bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return objectReader{}, false
	}
	return objectReader{buf: b, pos: i + 1, depth: depth + 1, first: true}, true
}

// next reads one member. It returns false at the end and at the first mistake; end tells which.
func (r *objectReader) next(m *member) bool {
	if r.done || r.bad {
		return false
	}
	r.bad = true // until this member proves good
	if r.depth > MaxDepth {
		return false
	}
	b, start := r.buf, r.pos
	i := skipSpace(b, start)
	if i >= len(b) {
		return false
	}
	if r.first && b[i] == '}' {
		r.pos, r.done, r.bad = i+1, true, false
		return false
	}
	if b[i] != '"' {
		return false
	}
	keyEnd := scanString(b, i)
	if keyEnd < 0 {
		return false
	}
	key := b[i:keyEnd]
	if i = skipSpace(b, keyEnd); i >= len(b) || b[i] != ':' {
		return false
	}
	i = skipSpace(b, i+1)
	valueEnd := scanValue(b, i, r.depth)
	if valueEnd < 0 {
		return false
	}
	end := skipSpace(b, valueEnd)
	if end >= len(b) || b[end] != ',' && b[end] != '}' {
		return false
	}
	*m = member{start: start, end: end, key: key, value: b[i:valueEnd:valueEnd]}
	r.pos, r.done, r.first, r.bad = end+1, b[end] == '}', false, false
	return true
}

// end returns the index past the closing brace, or -1 if the walk stopped at a mistake.
func (r *objectReader) end() int {
	if !r.done {
		return -1
	}
	return r.pos
}

// whole reports whether the object ended well and nothing but space follows it.
func (r *objectReader) whole() bool {
	return r.done && skipSpace(r.buf, r.pos) == len(r.buf)
}
