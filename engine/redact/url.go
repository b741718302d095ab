package redact

import "strings"

// maxURL bounds how far into a URL its user information is looked for.
const maxURL = 512

// userinfo appends where URLs hold a user name and password.
func userinfo(s string, spans []span) []span {
	const sep = "://"
	for at := 0; ; {
		i := strings.Index(s[at:], sep)
		if i < 0 {
			return spans
		}
		from := at + i + len(sep)
		at = from
		rest := s[from:min(len(s), from+maxURL)]
		if end := strings.IndexAny(rest, " \t\r\n\"'`<>\\"); end >= 0 {
			rest = rest[:end]
		}
		authority := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority = rest[:end]
		}
		n := strings.LastIndexByte(authority, '@')
		if n < 0 && !hostPort(authority) {
			// An unescaped slash or question mark inside the password.
			n = strings.LastIndexByte(rest, '@')
		}
		if n > 0 {
			spans = append(spans, span{from, from + n})
			at = from + n
		}
	}
}

// hostPort reports whether an authority without userinfo is a host, with or
// without a port.
func hostPort(authority string) bool {
	if strings.HasPrefix(authority, "[") {
		return true
	}
	_, port, has := strings.Cut(authority, ":")
	return !has || strings.Trim(port, "0123456789") == ""
}
