package pattern

import (
	"errors"
	"strings"
	"testing"
)

func TestA14GlobAnchoring(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pattern, id string
		want              bool
	}{
		{"exact", "state::set", "state::set", true},
		{"exact is not a prefix", "state::set", "state::set2", false},
		{"exact is not a suffix", "state::set", "xstate::set", false},
		{"exact keeps case", "state::set", "State::set", false},
		{"exact with newline is itself", "a\nb", "a\nb", true},
		{"glob at the end", "shell::fs::*", "shell::fs::read", true},
		{"glob needs its prefix", "shell::fs::*", "xshell::fs::read", false},
		{"glob may be empty", "shell::fs::*", "shell::fs::", true},
		{"glob is not the namespace itself", "shell::*", "shell", false},
		{"star spans separators", "a::*", "a::b::c::d", true},
		{"star at the start", "*::read", "shell::fs::read", true},
		{"star at the start is anchored", "*::read", "shell::fs::read2", false},
		{"star in the middle", "shell::*::read", "shell::fs::read", true},
		{"middle parts do not overlap", "a*ab*b", "aab", false},
		{"prefix and suffix do not overlap", "ab*ba", "aba", false},
		{"prefix and suffix may touch", "ab*ba", "abba", true},
		{"several stars", "*a*b*", "xxaxxbxx", true},
		{"order of parts counts", "*a*b*", "xxbxxaxx", false},
		{"two stars are one", "a**b", "axb", true},
		{"star alone", "*", "anything::at all", true},
		{"star alone matches nothing written", "*", "", true},
		{"newline matches no glob", "shell::*", "shell::a\nb", false},
		{"newline matches no star", "*", "\n", false},
		{"newline before the suffix", "*b", "a\nb", false},
		{"other line separators are characters", "*b", "a\u2028\rb", true},
		{"regexp signs are literal", "a.b*", "axb1", false},
		{"regexp signs match themselves", "a.+(b)*", "a.+(b)1", true},
		{"question mark is literal", "a?*", "ab", false},
		{"zero-width joiner is a character", "shell::exec", "shell\u200d::exec", false},
		{"zero-width joiner under a star", "shell*::exec", "shell\u200d::exec", true},
		{"nul", "a*", "a\x00b", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := MustCompile(tc.pattern)
			if got := p.Match(tc.id); got != tc.want {
				t.Errorf("%q on %q: got %v, want %v", tc.pattern, tc.id, got, tc.want)
			}
			if p.String() != tc.pattern {
				t.Errorf("String: got %q, want %q", p.String(), tc.pattern)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, pattern, want string }{
		{"empty", "", "is empty"},
		{"newline in a glob", "a\n*", "newline"},
		{"invalid UTF-8", "a\xff", "UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(tc.pattern)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to name %q", err, tc.want)
			}
			if e.ErrorCode() != "invalid_pattern" || e.Retryable() {
				t.Errorf("got code %s, retryable %v", e.ErrorCode(), e.Retryable())
			}
			if _, err := CompileSet("ok", tc.pattern); !errors.As(err, &e) {
				t.Errorf("set: got %v, want an *Error", err)
			}
		})
	}
}

func TestMustPanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"pattern": func() { MustCompile("") },
		"set":     func() { MustCompileSet("a", "") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestZeroMatchesNothing(t *testing.T) {
	t.Parallel()
	if (Pattern{}).Match("") || (Pattern{}).Match("a") {
		t.Error("the zero Pattern matches")
	}
	if p, ok := (Set{}).Match("a"); ok || p != "" {
		t.Errorf("the zero Set matches %q", p)
	}
}

// A pattern of many stars against a text that almost matches is what makes a
// backtracking matcher run for ever; the test would time out.
func TestManyStarsStayCheap(t *testing.T) {
	t.Parallel()
	p := MustCompile(strings.Repeat("a*", 200) + "b")
	if p.Match(strings.Repeat("a", 100_000)) {
		t.Error("matched without its last letter")
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s := MustCompileSet("a::b", "a::*", "*::c", "a::z", "a::b")
	for _, tc := range []struct {
		id, want string
		ok       bool
	}{
		{"a::b", "a::b", true},
		{"a::x", "a::*", true},
		{"x::c", "*::c", true},
		{"a::c", "a::*", true},
		{"a::z", "a::*", true},
		{"x::y", "", false},
		{"", "", false},
		{"a::\n", "", false},
	} {
		if got, ok := s.Match(tc.id); got != tc.want || ok != tc.ok {
			t.Errorf("%q: got %q %v, want %q %v", tc.id, got, ok, tc.want, tc.ok)
		}
	}
	if s.Len() != 5 || strings.Join(s.Patterns(), " ") != "a::b a::* *::c a::z a::b" {
		t.Errorf("got %d patterns %v", s.Len(), s.Patterns())
	}
}
