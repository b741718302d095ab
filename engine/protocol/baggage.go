package protocol

import (
	"strings"
)

// BaggageFunctionID is the member of W3C baggage that names the function a call goes to.
const BaggageFunctionID = "iii.function.id"

// WithFunctionID returns baggage with the member iii.function.id set to id: first, in place of any the caller had, the
// other members verbatim and in order. Characters that W3C baggage does not allow in a value are percent-encoded, so that
// an id cannot add members of its own. Order carries no meaning in baggage.
func WithFunctionID(baggage, id string) string {
	var out strings.Builder
	out.Grow(len(BaggageFunctionID) + len(id) + len(baggage) + 2)
	out.WriteString(BaggageFunctionID)
	out.WriteByte('=')
	writeBaggageValue(&out, id)
	for entry := range strings.SplitSeq(baggage, ",") {
		if entry = strings.Trim(entry, " \t"); entry == "" || baggageKey(entry) == BaggageFunctionID {
			continue
		}
		out.WriteByte(',')
		out.WriteString(entry)
	}
	return out.String()
}

func baggageKey(entry string) string {
	if i := strings.IndexAny(entry, "=;"); i >= 0 {
		entry = entry[:i]
	}
	return strings.Trim(entry, " \t")
}

// writeBaggageValue writes the characters that https://www.w3.org/TR/baggage/ calls baggage-octets as they are, but the
// percent sign, and encodes the others.
func writeBaggageValue(out *strings.Builder, s string) {
	for i := range len(s) {
		c := s[i]
		if c > 0x20 && c < 0x7f && !strings.ContainsRune(`",;\%`, rune(c)) {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte("0123456789ABCDEF"[c>>4])
		out.WriteByte("0123456789ABCDEF"[c&15])
	}
}
