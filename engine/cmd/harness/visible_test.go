package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

func TestControlCharactersAreShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext é 😀\n":       "plain\ttext é 😀\n",
		"\x1b]0;title\x07\x1b[2J": `\u001b]0;title\u0007\u001b[2J`,
		"a\u009b31mb\x7f":         `a\u009b31mb\u007f`,
		"one\r\ntwo\rthree\n":     "one\ntwo\\u000dthree\n",
		"\u202eevil\u2066":        `\u202eevil\u2066`,
		"\x9b1m\xff\n":            "\ufffd1m\ufffd\n",
	} {
		for _, size := range []int{len(in), 1, 2} { // whole, and cut anywhere
			var out bytes.Buffer
			v := &visible{w: &out}
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				if _, err := v.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, size, out.String(), want)
			}
		}
	}
}

// FuzzVisible: whatever is written, no control character comes out, and JSON
// stays the JSON that it was.
func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[0m\u009b\u202e\r\n", 3)
	f.Add("\xf0\x9f", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var out bytes.Buffer
		v := &visible{w: &out}
		cut = min(max(cut, 0), len(text))
		for _, part := range []string{text[:cut], text[cut:], "\n"} {
			if _, err := v.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range out.String() {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%q lets %q through", text, r)
			}
		}
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var said, back string
		if err := json.Unmarshal(line, &said); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		if _, err := v.Write(line); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != said {
			t.Fatalf("%s became %s: %v", line, out.Bytes(), err)
		}
	})
}
