package protocol

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`0`, `-0`, `-0.0`, `1e5`, `1E+5`, `1.5e-05`, `123456789012345678901234567890`, `""`, `"a\"\\\/\b\f\n\r\té"`, ` true `,
		`false`, `null`, `[]`, `[ ]`, `[1 , [ ]]`, `{}`, `{ }`, `{"a" : {"b":[{}]} , "a":1}`, "\t\n\r 1", "\"\u2028\x7f\"",
	} {
		if !validValue([]byte(text), 0) || !json.Valid([]byte(text)) {
			t.Errorf("refused %s", text)
		}
	}
	for _, text := range []string{
		``, ` `, `-`, `01`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `tru`, `True`, `nullx`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`,
		"\"\n\"", "\"\x00\"", `[`, `[1`, `[1,`, `[1,]`, `[,]`, `[1 2]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`,
		`{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1]`, `1 2`, `'a'`, "\v1", `{"a":tru}`, `{1:2}`, `{"a}`,
	} {
		if validValue([]byte(text), 0) || json.Valid([]byte(text)) {
			t.Errorf("accepted %s", text)
		}
	}
}

func TestValidValueDepth(t *testing.T) {
	t.Parallel()
	objects := func(n int) string { return strings.Repeat(`{"":`, n) + "1" + strings.Repeat("}", n) }
	for name, tt := range map[string]struct {
		text  string
		depth int
		want  bool
	}{
		"arrays at the limit":  {nested(MaxDepth), 0, true},
		"arrays beyond":        {nested(MaxDepth + 1), 0, false},
		"objects at the limit": {objects(MaxDepth), 0, true},
		"objects beyond":       {objects(MaxDepth + 1), 0, false},
		"empty object beyond":  {`{}`, MaxDepth, false},
		"scalar inside":        {`1`, MaxDepth, true},
		"hostile":              {strings.Repeat("[", 10_000_000), 0, false},
	} {
		if got := validValue([]byte(tt.text), tt.depth); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The scanner accepts what encoding/json accepts, but for its own limit of nesting.
func FuzzValidValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+7,"\u00e9\\",true,null]}`, `[[],{}]`, `"\ud83d"`, `1e`, "\"\xff\"", `{"a":1,}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Count(string(text), "[")+strings.Count(string(text), "{") > MaxDepth {
			validValue(text, 0)
			return
		}
		if got, want := validValue(text, 0), json.Valid(text); got != want {
			t.Fatalf("got %t, want %t: %q", got, want, text)
		}
	})
}
