package protocol

import "strings"

// CanonicalID returns the spelling by which invocation ids are compared: lower case, with dashes. It accepts a UUID in any
// case, of any version, with its dashes (8-4-4-4-12) or without (32 hexadecimal digits), and reports whether s is one.
func CanonicalID(s string) (string, bool) {
	switch len(s) {
	case 36:
		lower := true
		for i := range len(s) {
			c := s[i]
			if i == 8 || i == 13 || i == 18 || i == 23 {
				if c != '-' {
					return "", false
				}
				continue
			}
			if !isHex(c) {
				return "", false
			}
			lower = lower && (c < 'A' || c > 'F')
		}
		if lower {
			return s, true
		}
		return strings.ToLower(s), true
	case 32:
		for i := range len(s) {
			if !isHex(s[i]) {
				return "", false
			}
		}
		return strings.ToLower(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]), true
	}
	return "", false
}
