package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestF27Arguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want, fromStream string }{
		{name: "empty", text: ``, want: `{}`},
		{name: "blank", text: " \t\r\n", want: `{}`},
		{name: "null", text: `null`, want: `null`, fromStream: `{}`},
		{name: "null with space", text: " null\n", want: `null`, fromStream: `{}`},
		{name: "empty object", text: `{}`, want: `{}`},
		{name: "array", text: `[]`, want: `[]`},
		{name: "object in a text", text: `"{}"`, want: `"{}"`},
		{name: "object", text: " {\"a\": [1, {\"b\":null}]}\n", want: `{"a": [1, {"b":null}]}`},
		{name: "big numbers", text: `{"n":123456789012345678901234567890,"e":1e999}`, want: `{"n":123456789012345678901234567890,"e":1e999}`},
		{name: "same key in two objects", text: `{"a":{"k":1},"b":{"k":2},"c":[{"k":3},{"k":4}]}`, want: `{"a":{"k":1},"b":{"k":2},"c":[{"k":3},{"k":4}]}`},
		{name: "key that is also a value", text: `{"a":"b","b":"a"}`, want: `{"a":"b","b":"a"}`},
		{name: "keys that differ in case", text: `{"a":1,"A":2}`, want: `{"a":1,"A":2}`},
		{name: "cut", text: `{"function":"a`, want: `null`},
		{name: "space that JSON does not know", text: "{}\v", want: `null`},
		{name: "trailing text", text: `{} and more`, want: `null`},
		{name: "two values", text: `{}{}`, want: `null`},
		{name: "not a number", text: `{"a":NaN}`, want: `null`},
		{name: "single quotes", text: `{'a':1}`, want: `null`},
		{name: "repeated key", text: `{"a":1,"a":2}`, want: `null`},
		{name: "repeated key after an object", text: `{"a":{"x":[]},"b":1,"a":2}`, want: `null`},
		{name: "repeated key deep inside", text: `[{"z":[{"k":1,"l":[1],"k":2}]}]`, want: `null`},
		{name: "repeated key written differently", text: `{"a":1,"\u0061":2}`, want: `null`},
		{name: "repeated empty key", text: `{"":1,"":2}`, want: `null`},
		{name: "bytes that are no UTF-8", text: "{\"a\":\"\xff\"}", want: `null`},
		{name: "nested beyond all bounds", text: strings.Repeat("[", 20000) + strings.Repeat("]", 20000), want: `null`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Arguments([]byte(tt.text)); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			want := tt.want
			if tt.fromStream != "" {
				want = tt.fromStream
			}
			if got := streamed(tt.text); string(got) != want {
				t.Errorf("streamed: got %s, want %s", got, want)
			}
		})
	}
}

func TestArgumentsAreACopy(t *testing.T) {
	t.Parallel()
	text := []byte(`{"a":1}`)
	got := Arguments(text)
	fill(text)
	if string(got) != `{"a":1}` {
		t.Errorf("got %s", got)
	}
}

// repeats finds repeated keys by another road: the values in order, each read
// by itself.
func repeats(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == json.Delim('{') {
			k, err := dec.Token()
			if err != nil || seen[k.(string)] {
				return true
			}
			seen[k.(string)] = true
		} else if open != json.Delim('[') {
			return false
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil || repeats(v) {
			return true
		}
	}
	return false
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		``, ` `, `null`, `{}`, `[]`, `"{}"`, `{"a":1,"a":2}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `{"a":1,"\u0061":2}`, `[[],{},[{}]]`, `{"a":`, `{}x`, "\xff", "0\v", "{\"\xff\":1,\"\xfe\":2}",
		`{"function":"f","payload":{"n":1e400}}`, `"\ud800"`, `{"k":{"k":{"k":[1,{"k":true}]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := Arguments(data)
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("no value: %q", got)
		}
		trimmed := bytes.Trim(data, " \t\r\n")
		want := string(trimmed)
		switch {
		case len(trimmed) == 0:
			want = "{}"
		case !json.Valid(data) || !utf8.Valid(data) || repeats(trimmed):
			want = "null"
		}
		if string(got) != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if again := Arguments(got); string(again) != string(got) {
			t.Fatalf("not stable: %q, then %q", got, again)
		}
		if s := string(streamed(string(data))); s != want && (want != "null" || s != "{}" || string(trimmed) != "null") {
			t.Fatalf("streamed as %q, want %q", s, want)
		}
	})
}

func BenchmarkArguments(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"function":"f","payload":{`)
	for i := range 1000 {
		fmt.Fprintf(&text, `"key%d":{"value":[%d,"x"]},`, i, i)
	}
	text.WriteString(`"last":1}}`)
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		Arguments(data)
	}
}
