package redact

import "strings"

const (
	pemBegin = "-----BEGIN "
	pemKey   = "PRIVATE KEY-----"
	// maxKind bounds the words between the two, such as "ENCRYPTED ".
	maxKind = 32
	// maxHeader bounds a header line.
	maxHeader = 512
)

// privateKeys appends where the bodies of PEM private keys stand, also of ones
// that were cut off or written on one line.
func privateKeys(s string, spans []span) []span {
	for at := 0; ; {
		i := strings.Index(s[at:], pemBegin)
		if i < 0 {
			return spans
		}
		at += i + len(pemBegin)
		kind := strings.Index(s[at:min(len(s), at+maxKind+len(pemKey))], pemKey)
		if kind < 0 {
			continue
		}
		from := at + kind + len(pemKey)
		if to := pemBody(s, from); to > from {
			spans = append(spans, span{from, to})
			at = to
		}
	}
}

// pemBody is where the lines of base64 and the header lines end that start at
// from.
func pemBody(s string, from int) int {
	to := from
	for {
		next := skip(s, to, "\r\n \t")
		end := run(s, next, "+/=")
		if end == next {
			return to
		}
		if end < len(s) && (s[end] == ':' || s[end] == '-') {
			if rest := line(s[end:min(len(s), end+maxHeader)]); strings.Contains(rest, ":") {
				end += len(rest) // Proc-Type: 4,ENCRYPTED
			}
		}
		to = end
	}
}

// line is s up to its first line break.
func line(s string) string {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return s[:i]
	}
	return s
}
