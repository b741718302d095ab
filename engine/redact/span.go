package redact

import (
	"slices"
	"strings"
)

// span is a stretch of a text, in bytes.
type span struct{ from, to int }

// cover replaces the spans of s by the mark. Spans that overlap or touch share
// one mark, so that nothing of a secret is left between two finds.
func cover(s, mark string, spans []span) string {
	if len(spans) == 0 {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	b.Grow(len(s))
	done := 0
	for i := 0; i < len(spans); {
		from, to := spans[i].from, spans[i].to
		for i++; i < len(spans) && spans[i].from <= to; i++ {
			to = max(to, spans[i].to)
		}
		b.WriteString(s[done:from])
		b.WriteString(mark)
		done = to
	}
	b.WriteString(s[done:])
	return b.String()
}
