package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text with one encoding undone. at[i] is where byte i stands in the
// text it was made of; at has one element more than text has bytes.
type view struct {
	text string
	at   []int
}

// back turns a span of the view into one of the text it was made of.
func (v view) back(s span) span { return span{v.at[s.from], v.at[s.to]} }

// through is v with places of the text below it.
func (v view) through(below view) view {
	for i, p := range v.at {
		v.at[i] = below.at[p]
	}
	return v
}

// views are the readings of s in which secrets are looked for besides s
// itself: percent-decoded, and with backslash escapes undone once and twice,
// as in JSON and in JSON inside JSON.
func views(s string) []view {
	var all []view
	if strings.IndexByte(s, '%') >= 0 {
		if v, changed := decode(s, percent); changed {
			all = append(all, v)
		}
	}
	if strings.IndexByte(s, '\\') >= 0 {
		if once, changed := decode(s, backslash); changed {
			all = append(all, once)
			if twice, changed := decode(once.text, backslash); changed {
				all = append(all, twice.through(once))
			}
		}
	}
	return all
}

// decode undoes what step knows. step gets the text from an encoded sign on
// and returns what it stands for and how many bytes it takes, 0 if nothing.
func decode(s string, step func(s string) (string, int)) (view, bool) {
	var b strings.Builder
	b.Grow(len(s))
	at := make([]int, 0, len(s)+1)
	changed := false
	for i := 0; i < len(s); {
		plain, n := step(s[i:])
		if n == 0 {
			plain, n = s[i:i+1], 1
		} else {
			changed = true
		}
		b.WriteString(plain)
		for range len(plain) {
			at = append(at, i)
		}
		i += n
	}
	return view{b.String(), append(at, len(s))}, changed
}

func percent(s string) (string, int) {
	if s[0] != '%' || len(s) < 3 {
		return "", 0
	}
	c, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(c)}), 3
}

// escapes are the one-letter escapes of JSON and Go.
var escapes = map[byte]string{
	'"': `"`, '\'': `'`, '\\': `\`, '/': `/`,
	'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

func backslash(s string) (string, int) {
	if s[0] != '\\' || len(s) < 2 {
		return "", 0
	}
	if plain, ok := escapes[s[1]]; ok {
		return plain, 2
	}
	switch s[1] {
	case 'x':
		if c, ok := hex(s, 2, 2); ok {
			return string([]byte{byte(c)}), 4
		}
	case 'U':
		if c, ok := hex(s, 2, 8); ok && utf8.ValidRune(c) {
			return string(c), 10
		}
	case 'u':
		c, ok := hex(s, 2, 4)
		if !ok {
			return "", 0
		}
		if utf16.IsSurrogate(c) && strings.HasPrefix(s[6:], `\u`) {
			if low, ok := hex(s, 8, 4); ok {
				if r := utf16.DecodeRune(c, low); r != utf8.RuneError {
					return string(r), 12
				}
			}
		}
		return string(c), 6
	}
	return "", 0
}

// hex reads digits hexadecimal digits of s from from on.
func hex(s string, from, digits int) (rune, bool) {
	if len(s) < from+digits {
		return 0, false
	}
	c, err := strconv.ParseUint(s[from:from+digits], 16, 31)
	return rune(c), err == nil
}
