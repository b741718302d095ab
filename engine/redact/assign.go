package redact

import "strings"

// maxKey bounds how far back from a sign of assignment its name is read.
const maxKey = 96

// assignments appends where a text gives a value to a name that promises a
// secret: token=..., "password": "...", Authorization: ..., ?sig=... A colon
// after a bare name is also how prose goes on, so there the value has to look
// like a secret.
func assignments(s string, spans []span) []span {
	for i := 0; i < len(s); i++ {
		if s[i] != '=' && s[i] != ':' {
			continue
		}
		if partner(s, i) {
			continue
		}
		k := keyBefore(s, i)
		if k.name == "" || !telemetryKey(k.name) && !(k.param && paramKeys[flatten(k.name)]) {
			continue
		}
		sp := valueAfter(s, i, k)
		if sp.to > sp.from {
			spans = append(spans, sp)
			i = sp.to - 1
		}
	}
	return spans
}

// partner reports whether the colon at i assigns nothing: it is half of the
// separator of a function id, or the sign behind it assigns.
func partner(s string, i int) bool {
	return s[i] == ':' && (i > 0 && s[i-1] == ':' || i+1 < len(s) && (s[i+1] == ':' || s[i+1] == '='))
}

type key struct {
	name string
	// quoted: the name stood in quotes. param: it followed ? & # or ;.
	quoted, param bool
}

// keyBefore is the name that ends before i, the place of = or :.
func keyBefore(s string, i int) key {
	var k key
	end := i
	if s[i] == '=' && end > 0 && s[end-1] == ':' {
		end--
	}
	for end > 0 && (s[end-1] == ' ' || s[end-1] == '\t' || s[end-1] == ']') {
		end--
	}
	if end > 0 && quote(s[end-1]) {
		k.quoted = true
		for end--; end > 0 && s[end-1] == '\\'; end-- {
		}
	}
	from := end
	for from > 0 && end-from < maxKey && (alnum(s[from-1]) || strings.IndexByte("_-.", s[from-1]) >= 0) {
		from--
	}
	k.name = s[from:end]
	k.param = from > 0 && strings.IndexByte("?&#;", s[from-1]) >= 0
	return k
}

// valueAfter is the secret part of the value that follows the sign at i.
func valueAfter(s string, i int, k key) span {
	from := i + 1
	if s[i] == '=' {
		from = skip(s, from, "=>")
	}
	spaced := skip(s, from, " \t")
	adjacent := spaced == from
	from = spaced
	if from == len(s) || strings.HasPrefix(s[from:], Mark) || strings.HasPrefix(s[from:], markExcerpt) {
		return span{}
	}
	if q := skip(s, from, `\`); q < len(s) && quote(s[q]) {
		return span{q + 1, closing(s, q+1, s[q], q-from)}
	}
	switch s[from] {
	case '[', '{':
		return span{from, bracketEnd(s, from)}
	}
	switch {
	case header(s[i], s[from:], k):
		return span{from, until(s, from, "\r\n\"'`]}\\")}
	case s[i] == '=':
		return span{from, until(s, from, " \t\r\n&;,\"'`<>)]}|\\")}
	}
	word := span{from, until(s, from, " \t\r\n,;)]}\"'`<>\\")}
	number := k.quoted && strings.IndexByte("-0123456789", s[from]) >= 0
	if number || adjacent && !k.quoted || looksSecret(s[word.from:word.to]) {
		return word
	}
	return span{}
}

// header reports whether the value is the rest of a header line. After an
// equal sign it is one only if it starts with an authorization scheme.
func header(sign byte, value string, k key) bool {
	if k.quoted || !headerKeys[strings.ToLower(k.name)] {
		return false
	}
	if sign == ':' {
		return true
	}
	scheme, _, ok := strings.Cut(value, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "basic", "token", "digest":
		return ok
	}
	return false
}

// closing is where the value ends that was opened by quote q behind depth
// backslashes. A quote behind more of them belongs to the value.
func closing(s string, from int, q byte, depth int) int {
	slashes := 0
	for i := from; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			slashes++
			continue
		case s[i] == q && slashes <= depth:
			return i - slashes
		}
		slashes = 0
	}
	return len(s)
}

// bracketEnd is behind the bracket that closes the one at from, or the end.
func bracketEnd(s string, from int) int {
	depth := 0
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// until is the first place from from on with a sign of class, or the end.
func until(s string, from int, class string) int {
	if i := strings.IndexAny(s[from:], class); i >= 0 {
		return from + i
	}
	return len(s)
}

// looksSecret tells a secret from a word of prose: it is long, or mixes
// letters with digits, or has upper case behind lower case.
func looksSecret(word string) bool {
	word = strings.TrimRight(word, ".!?:")
	if len(word) < 6 {
		return false
	}
	var digit, letter, camel bool
	for i := range len(word) {
		c := word[i]
		digit = digit || c >= '0' && c <= '9'
		letter = letter || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		camel = camel || i > 0 && c >= 'A' && c <= 'Z' && word[i-1] >= 'a' && word[i-1] <= 'z'
	}
	return digit && letter || camel || len(word) >= 20
}

// quote reports whether c is a quotation mark. The backtick is none: what
// stands between two of them may be a command.
func quote(c byte) bool { return c == '"' || c == '\'' }
