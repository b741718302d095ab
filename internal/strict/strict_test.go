package strict

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
)

type level string

func (l *level) Check() (string, string) {
	if *l != "low" && *l != "high" {
		return "is " + string(*l), "low, high"
	}
	return "", ""
}

// either is a text or a mapping.
type either struct {
	Name string `yaml:"name"`
}

func (e *either) DecodeNode(d *Decoder, n *yaml.Node, path string) error {
	if n.Kind == yaml.ScalarNode {
		return d.Into(n, &e.Name, path)
	}
	type plain either
	return d.Into(n, (*plain)(e), path)
}

type sheet struct {
	Text   string            `yaml:"text"`
	Flag   bool              `yaml:"flag"`
	Count  int               `yaml:"count"`
	Big    int64             `yaml:"big"`
	Ratio  float64           `yaml:"ratio"`
	Wait   time.Duration     `yaml:"wait"`
	Maybe  *int64            `yaml:"maybe,omitempty"`
	Pause  *time.Duration    `yaml:"pause"`
	List   []string          `yaml:"list"`
	Nested []sheet           `yaml:"nested"`
	Map    map[level]level   `yaml:"map"`
	Free   json.RawMessage   `yaml:"free"`
	Node   yaml.Node         `yaml:"node"`
	Level  level             `yaml:"level"`
	Either either            `yaml:"either"`
	Maps   map[string][]bool `yaml:"maps"`
	Hidden string            `yaml:"-"`
	Other  string
}

func TestDecode(t *testing.T) {
	t.Parallel()
	seven, pause := int64(7), 5*time.Second
	for _, tt := range []struct {
		name, text  string
		start, want sheet
	}{
		{name: "nothing", want: sheet{}},
		{name: "comments", text: "# a\n\n# b\n", start: sheet{Text: "kept"}, want: sheet{Text: "kept"}},
		{name: "an empty document", text: "---\n", start: sheet{Count: 3}, want: sheet{Count: 3}},
		{name: "keys without values", text: "nested:\nmap:\nlist:\nmaybe:\n", start: sheet{List: []string{"kept"}, Maybe: &seven}, want: sheet{List: []string{"kept"}, Maybe: &seven}},
		{name: "what is not named stays", text: "text: new\n", start: sheet{Text: "old", Count: 3}, want: sheet{Text: "new", Count: 3}},
		{
			name: "every type",
			text: "text: 'é: \"7\"'\nflag: true\ncount: 0x1F\nbig: -9223372036854775808\nratio: 2\nwait: 1h30m\nmaybe: 7\npause: 5s\nlist: [a, 'b']\nnested: [{text: in}]\nmap: {low: high}\nlevel: high\neither: short\nmaps: {a: [true, false]}\n",
			want: sheet{
				Text: `é: "7"`, Flag: true, Count: 31, Big: -1 << 63, Ratio: 2, Wait: 90 * time.Minute, Maybe: &seven, Pause: &pause, List: []string{"a", "b"},
				Nested: []sheet{{Text: "in"}}, Map: map[level]level{"low": "high"}, Level: "high", Either: either{"short"}, Maps: map[string][]bool{"a": {true, false}},
			},
		},
		{name: "the long form", text: "either: {name: long}\n", want: sheet{Either: either{"long"}}},
		{name: "texts over lines", text: "text: |\n  a\n  b\n", want: sheet{Text: "a\nb\n"}},
		{name: "windows line ends and a mark", text: "\ufefftext: a\r\ncount: 1\r\n", want: sheet{Text: "a", Count: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.start
			if err := Decode("f.yaml", []byte(tt.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodesAreKeptForLater(t *testing.T) {
	t.Parallel()
	var s sheet
	if err := Decode("f.yaml", []byte("text: a\nnode: {x: 1}\n"), &s); err != nil || s.Node.Kind != yaml.MappingNode || s.Node.Line != 2 {
		t.Errorf("%+v, %v", s.Node, err)
	}
}

func TestFreeValuesBecomeJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`{b: 1, a: [x, "y", null, ~, true, {}]}`, `{"a":["x","y",null,null,true,{}],"b":1}`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`-1.10e+5`, `-1.10e+5`},
		{`[0x1F, 0o17, +1, 1_000, .5, 1., 18446744073709551615]`, `[31,15,1,1000,0.5,1,18446744073709551615]`},
		{`2026-12-01`, `"2026-12-01"`},
		{`"2026"`, `"2026"`},
		{`yes`, `"yes"`},
		{`"<é\u0000>"`, "\"\\u003cé\\u0000\\u003e\""},
		{`!!str 5`, `"5"`},
		{``, `null`},
	} {
		var s sheet
		if err := Decode("f.yaml", []byte("free: "+tt.text+"\n"), &s); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if string(s.Free) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, s.Free, tt.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const keys = "big, count, either, flag, free, level, list, map, maps, maybe, nested, node, pause, ratio, text, wait"
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", "text: a\ntxt: b\n", "f.yaml:2: txt: unknown key; allowed: " + keys},
		{"unknown key inside", "nested:\n  - {text: a}\n  - txt: b\n", "f.yaml:3: nested[1].txt: unknown key; allowed: " + keys},
		{"key that is hidden", "Hidden: a\n", "f.yaml:1: Hidden: unknown key; allowed: " + keys},
		{"key without a tag", "Other: a\n", "f.yaml:1: Other: unknown key; allowed: " + keys},
		{"key with a line break", "\"a\\nb\": 1\n", `f.yaml:1: "a\nb": unknown key; allowed: ` + keys},
		{"empty key", "\"\": 1\n", `f.yaml:1: "": unknown key; allowed: ` + keys},
		{"key twice", "text: a\n\ntext: b\n", "f.yaml:3: text: is given twice; allowed: each key once"},
		{"key twice in a map", "map: {low: low, low: high}\n", "f.yaml:1: map.low: is given twice; allowed: each key once"},
		{"key twice in a free value", "free: {a: {b: 1, b: 2}}\n", "f.yaml:1: free.a.b: is given twice; allowed: each key once"},
		{"key that is a list", "? [a]\n: 1\n", "f.yaml:1: has a key that is no plain text; allowed: plain keys"},
		{"merge key", "nested:\n- <<: {text: a}\n", "f.yaml:2: nested[0]: has a key that is no plain text; allowed: plain keys"},
		{"merge key in a free value", "free: {<<: {a: 1}}\n", "f.yaml:1: free: has a key that is no plain text; allowed: plain keys"},
		{"anchor", "text: &a x\n", "f.yaml:1: text: uses an anchor or alias; allowed: plain values"},
		{"anchor at a key", "&a text: x\n", "f.yaml:1: has a key that is no plain text; allowed: plain keys"},
		{"anchor in a free value", "free: {a: [&a 1]}\n", "f.yaml:1: free.a[0]: uses an anchor or alias; allowed: plain values"},
		{"alias in a free value", "node: &a 1\nfree: *a\n", "f.yaml:1: node: uses an anchor or alias; allowed: plain values"},
		{"number for a text", "text: 7\n", `f.yaml:1: text: is "7"; allowed: a text (put it in quotes)`},
		{"bool for a text", "text: true\n", `f.yaml:1: text: is "true"; allowed: a text (put it in quotes)`},
		{"date for a text", "text: 2026-12-01\n", `f.yaml:1: text: is "2026-12-01"; allowed: a text (put it in quotes)`},
		{"nothing for a text", "text:\n", "f.yaml:1: text: is empty; allowed: a text"},
		{"list for a text", "text: [a]\n", "f.yaml:1: text: is a list; allowed: a text"},
		{"mapping for a text", "text: {}\n", "f.yaml:1: text: is a mapping; allowed: a text"},
		{"yes for a bool", "flag: yes\n", `f.yaml:1: flag: is "yes"; allowed: true or false`},
		{"text for a bool", "flag: \"true\"\n", `f.yaml:1: flag: is "true"; allowed: true or false`},
		{"fraction for a count", "count: 1.5\n", `f.yaml:1: count: is "1.5"; allowed: a whole number`},
		{"text for a count", "count: \"1\"\n", `f.yaml:1: count: is "1"; allowed: a whole number`},
		{"count out of range", "big: 9223372036854775808\n", `f.yaml:1: big: is "9223372036854775808"; allowed: a whole number`},
		{"text for a number", "ratio: much\n", `f.yaml:1: ratio: is "much"; allowed: a number`},
		{"number without a unit", "wait: 30\n", `f.yaml:1: wait: is "30"; allowed: a duration such as 30s, 5m or 2h`},
		{"negative duration", "pause: -3s\n", `f.yaml:1: pause: is "-3s"; allowed: a duration such as 30s, 5m or 2h`},
		{"list for a duration", "wait: [3s]\n", "f.yaml:1: wait: is a list; allowed: a duration such as 30s, 5m or 2h"},
		{"mapping for a list", "list: {a: b}\n", "f.yaml:1: list: is a mapping; allowed: a list"},
		{"text for a list", "list: a\n", `f.yaml:1: list: is "a"; allowed: a list`},
		{"number in a list", "list:\n- a\n- 2\n", `f.yaml:3: list[1]: is "2"; allowed: a text (put it in quotes)`},
		{"list for a mapping", "map: []\n", "f.yaml:1: map: is a list; allowed: a mapping"},
		{"text for the document", "hello\n", `f.yaml:1: is "hello"; allowed: a mapping`},
		{"long text", "list: " + strings.Repeat("é", 90) + "\n", `f.yaml:1: list: is "` + strings.Repeat("é", 80) + `…"; allowed: a list`},
		{"text over lines", "list: |\n  a\n  b\n", `f.yaml:1: list: is "a\nb\n"; allowed: a list`},
		{"value that checks itself", "level: mid\n", "f.yaml:1: level: is mid; allowed: low, high"},
		{"value with a line break that checks itself", "level: |\n  mid\n", `f.yaml:1: level: is mid\n; allowed: low, high`},
		{"value of a map that checks itself", "map: {low: mid}\n", "f.yaml:1: map.low: is mid; allowed: low, high"},
		{"pointer to a wrong value", "maybe: x\n", `f.yaml:1: maybe: is "x"; allowed: a whole number`},
		{"type that reads itself", "either: {nam: x}\n", "f.yaml:1: either.nam: unknown key; allowed: name"},
		{"infinite number", "free: .inf\n", `f.yaml:1: free: is ".inf"; allowed: a finite number`},
		{"no number", "free: [.nan]\n", `f.yaml:1: free[0]: is ".nan"; allowed: a finite number`},
		{"tag that lies", "free: !!int x\n", `f.yaml:1: free: is "x"; allowed: a finite number`},
		{"tag of one's own", "free: !mine x\n", `f.yaml:1: free: has the tag "!mine"; allowed: text, numbers, true, false, lists and mappings`},
		{"bytes", "free: !!binary aGk=\n", `f.yaml:1: free: has the tag "!!binary"; allowed: text, numbers, true, false, lists and mappings`},
		{"free key that is a number", "free: {1: a}\n", "f.yaml:1: free.1: is a key that is no text; allowed: keys that are texts (put them in quotes)"},
		{"free value too deep", "free: " + strings.Repeat("[", 102) + strings.Repeat("]", 102) + "\n", "f.yaml:1: free" + strings.Repeat("[0]", 101) + ": nests too deep; allowed: 100 levels"},
		{"two documents", "text: a\n---\ntext: b\n", "f.yaml:2: holds more than one document; allowed: one document"},
		{"syntax", "text: a\nlist: [\n", "f.yaml:2: is not valid YAML: did not find expected node content"},
		{"syntax after the document", "text: a\n--- ]\n", "f.yaml:1: is not valid YAML: did not find expected node content"},
		{"control characters", "text: \x01\n", "f.yaml: is not valid YAML: control characters are not allowed"},
		{"too long", "#" + strings.Repeat("x", maxFile), "f.yaml: has 1048577 bytes; allowed: at most 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s sheet
			err := Decode("f.yaml", []byte(tt.text), &s)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want an *Error", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			if e.ErrorCode() != "invalid_config" || e.Retryable() {
				t.Errorf("code %q, retryable %v", e.ErrorCode(), e.Retryable())
			}
		})
	}
}

func TestErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	err := error(&Error{File: "f", Problem: "cannot be read", Err: io.ErrUnexpectedEOF})
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "f: cannot be read" {
		t.Errorf("error = %q", err)
	}
}

func TestFieldsThatCannotBeReadAreAFaultOfTheProgram(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an unsupported field was accepted")
		}
	}()
	var v struct {
		U uint `yaml:"u"`
	}
	_ = Decode("f.yaml", []byte("u: 1\n"), &v)
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "# c\n", "text: a\nflag: true\ncount: 1\nratio: 1e3\nwait: 5s\nlist: [a]\nnested: [{text: b}]\n", "free: {a: [1, .5, 2026-01-01, ~, {b: \"\\0\"}]}\n",
		"a: &a [*a]\n", "? {}\n: x\n", "<<: {text: a}\n", "text: |\n a\n", "%YAML 1.1\n---\n!!map {}\n", "free: 0x_1\n", "either: {name: [}\n", "\xff\xfe", "- - - -", "free: !!float 1\n", "text: a\n---\nb", "free: {? \"\\x85\" : 1}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s sheet
		err := Decode("f.yaml", data, &s)
		if err == nil {
			if s.Free != nil && (!json.Valid(s.Free) || !utf8.Valid(s.Free)) {
				t.Fatalf("free value %q", s.Free)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("error %T: %v", err, err)
		}
		if text := err.Error(); !strings.HasPrefix(text, "f.yaml") || strings.ContainsAny(text, "\r\n") || e.Problem == "" {
			t.Fatalf("error %q", text)
		}
	})
}
