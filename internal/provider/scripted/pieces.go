package scripted

import (
	"strings"
	"unicode/utf8"

	"github.com/iii-aws/harness/internal/provider"
)

// A piece of text is a word with the space before it; a word above maxPiece
// bytes is cut into pieces of at most cutPiece.
const (
	maxPiece = 64
	cutPiece = 48
)

// pieces cuts a text at spaces, as a model's tokens would, and never in a rune.
func pieces(s string) []string {
	var out []string
	for len(s) > 0 {
		n := len(s)
		if i := strings.IndexByte(s[1:min(len(s), maxPiece+1)], ' '); i >= 0 {
			n = i + 1
		}
		if n > maxPiece {
			n = cutPiece
			for n > cutPiece-utf8.UTFMax && !utf8.RuneStart(s[n]) {
				n--
			}
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// tokens is about how many tokens a request has.
func tokens(r provider.Request) int64 {
	n := 0
	if r.SystemPrompt != nil {
		n += len(*r.SystemPrompt)
	}
	for _, m := range r.Messages {
		n += len(text(m.Content))
	}
	return int64(n/4) + 1
}
