package pattern

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// oracle is the same pattern as an anchored regular expression.
func oracle(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, Wildcard)
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`\A(?:` + strings.Join(parts, `.*`) + `)\z`)
}

func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"a::*", "a::b"}, {"*", ""}, {"a*ab*b", "aab"}, {"ab*ba", "aba"}, {"**", "x"}, {"a*", "a\nb"},
		{"é*é", "éé"}, {"*\U0001f600*", "x\U0001f600y"}, {"a*", "a\xff"}, {"x", "x"}, {"a\nb", "a\nb"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, id string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		// A regular expression reads a broken byte as U+FFFD; we do not.
		if strings.ContainsRune(pattern, utf8.RuneError) {
			return
		}
		want := oracle(pattern).MatchString(id)
		if strings.Contains(pattern, Wildcard) && strings.Contains(id, "\n") {
			want = false
		}
		if got := p.Match(id); got != want {
			t.Errorf("%q on %q: got %v, want %v", pattern, id, got, want)
		}
	})
}

// The set answers what a loop over its patterns would.
func FuzzSet(f *testing.F) {
	f.Add("a::*", "a::b", "*", "a::b")
	f.Add("a", "a", "b*", "a")
	f.Add("*x", "x", "x*", "x")
	f.Fuzz(func(t *testing.T, a, b, c, id string) {
		s, err := CompileSet(a, b, c)
		if err != nil {
			return
		}
		want, wantOK := "", false
		for _, text := range []string{a, b, c} {
			if MustCompile(text).Match(id) {
				want, wantOK = text, true
				break
			}
		}
		if got, ok := s.Match(id); got != want || ok != wantOK {
			t.Errorf("%q %q %q on %q: got %q %v, want %q %v", a, b, c, id, got, ok, want, wantOK)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	p := MustCompile("shell::fs::*")
	for b.Loop() {
		if !p.Match("shell::fs::read") {
			b.Fatal("no match")
		}
	}
}
