package redact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mark stands where telemetry had a secret.
const Mark = "[REDACTED]"

// markExcerpt stands where an excerpt had one.
const markExcerpt = "<redacted>"

// maxName is how many characters of a name Name keeps.
const maxName = 128

// Text takes secrets out of a text for logs, spans and errors. The result is
// valid UTF-8.
func Text(s string) string { return text(&Secrets, s) }

func text(known *Registry, s string) string {
	return strings.ToValidUTF8(cover(s, Mark, find(known, s, false)), string(utf8.RuneError))
}

// Panic is the text of a recovered panic value, without secrets.
func Panic(value any) string { return Text(fmt.Sprint(value)) }

// Name makes an id that came from outside fit for a log line or a message:
// without secrets, control characters, line separators or invisible format
// characters, and at most 128 characters long.
func Name(id string) string {
	id = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, Text(id))
	return clip(id, maxName)
}

// clip keeps the first n code points of s and marks what it cut.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// find is where secrets stand in s, read as it is and with its encodings
// undone. shown: what cannot be hidden from a reader who decides stays.
func find(known *Registry, s string, shown bool) []span {
	spans := findIn(known, s, shown, nil)
	for _, v := range views(s) {
		for _, sp := range findIn(known, v.text, shown, nil) {
			spans = append(spans, v.back(sp))
		}
	}
	return spans
}

func findIn(known *Registry, s string, shown bool, spans []span) []span {
	guesses := tokens(s, nil)
	guesses = assignments(s, guesses)
	guesses = userinfo(s, guesses)
	guesses = privateKeys(s, guesses)
	if shown {
		guesses = harmless(s, guesses)
	}
	return known.find(s, append(spans, guesses...))
}

// minBlock is the length from which a run of plain signs is no command.
const minBlock = 32

// harmless keeps of spans what cannot hide a command from its reader: spans of
// plain signs alone, and long plain runs of the others.
func harmless(s string, spans []span) []span {
	var kept []span
	for _, sp := range spans {
		for at := sp.from; at < sp.to; at++ {
			end := plainRun(s[:sp.to], at)
			if end-at >= minBlock || at == sp.from && end == sp.to {
				kept = append(kept, span{at, end})
			}
			at = end
		}
	}
	return kept
}

func plainRun(s string, from int) int {
	for from < len(s) && (alnum(s[from]) || strings.IndexByte("+/=_.~@%:-", s[from]) >= 0) {
		from++
	}
	return from
}
