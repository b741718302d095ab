package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSetMember(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, obj, key, value, want string
	}{
		{"first, as the engine has it", `{"n":1}`, CallerWorkerID, `"w"`, `{"_caller_worker_id":"w","n":1}`},
		{"empty", `{}`, "k", `1`, `{"k":1}`},
		{"empty with space", " { \n} ", "k", `1`, `{"k":1}`},
		{"overwrites", `{"a":1,"_caller_worker_id":"forged"}`, CallerWorkerID, `"w"`, `{"_caller_worker_id":"w","a":1}`},
		{"the only one", `{"k":1}`, "k", `2`, `{"k":2}`},
		{"duplicates", `{"k":1,"a":2,"k":3,"k":{}}`, "k", `9`, `{"k":9,"a":2}`},
		{"escaped", `{"princip\u0061l":1,"\u0070rincipal":2,"a":3}`, "principal", `9`, `{"principal":9,"a":3}`},
		{"other case", `{"Principal":1,"PRINCIPAL":2,"a":3}`, "principal", `9`, `{"principal":9,"a":3}`},
		{"folding beyond ASCII", `{"_caller_wor` + "\u212a" + `er_id":1,"_caller_worker_id":2}`, CallerWorkerID, `9`, `{"_caller_worker_id":9}`},
		{"folding beyond ASCII, escaped", `{"_caller_wor\u212aer_id":1}`, CallerWorkerID, `9`, `{"_caller_worker_id":9}`},
		{"similar names stay", `{"principal ":1,"principa":2,"principals":3,"":4,"a long name that is nothing like it at all":5}`, "principal", `9`,
			`{"principal":9,"principal ":1,"principa":2,"principals":3,"":4,"a long name that is nothing like it at all":5}`},
		{"nested stays", `{"a":{"k":1},"b":[{"k":2}],"c":"k"}`, "k", `9`, `{"k":9,"a":{"k":1},"b":[{"k":2}],"c":"k"}`},
		{"text stays", "{ \"z\" : 1.0 ,\n\t\"a\":1e3, \"big\":12345678901234567890123, \"u\":\"\\u00e9\\/<\" }", "k", ` [ 1 ] `,
			"{\"k\": [ 1 ] , \"z\" : 1.0 ,\n\t\"a\":1e3, \"big\":12345678901234567890123, \"u\":\"\\u00e9\\/<\" }"},
		{"key is escaped", `{}`, "a\"\n", `1`, `{"a\"\n":1}`},
		{"braces in strings", `{"a":"}","k":"{\"k\":1}","b":"\\"}`, "k", `1`, `{"k":1,"a":"}","b":"\\"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			obj := []byte(tt.obj)
			got, err := SetMember(obj, tt.key, raw(tt.value))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(obj) != tt.obj {
				t.Errorf("input changed to %s", obj)
			}
		})
	}
}

func TestSetMembers(t *testing.T) {
	t.Parallel()
	got, err := SetMembers(raw(`{"reply":{"to":"me"},"tenant":"a","Deadline_MS":1}`),
		Pair{MetadataPrincipal, raw(`{"id":"local"}`)}, Pair{MetadataDeadlineMS, raw(`5`)}, Pair{Key: MetadataReply})
	want := `{"principal":{"id":"local"},"deadline_ms":5,"tenant":"a"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if got, err = SetMembers(raw(` {"a": 1} `)); err != nil || string(got) != `{"a": 1}` {
		t.Errorf("no pairs: got %s, %v", got, err)
	}
}

func TestRemoveMember(t *testing.T) {
	t.Parallel()
	got, err := RemoveMember(raw(`{"a":1,"b":2,"\u0041":3,"c":4}`), "a", "c", "x")
	if err != nil || string(got) != `{"b":2}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err = RemoveMember(raw(`{"a":1}`), "a"); err != nil || string(got) != `{}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestObjectErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, obj string
		value     json.RawMessage
		want      ObjectError
		text      string
	}{
		{"array", `[]`, raw(`1`), ObjectError{Allowed: wantJSONObject}, "protocol: edit object: want one JSON object in UTF-8"},
		{"nothing", ``, raw(`1`), ObjectError{Allowed: wantJSONObject}, ""},
		{"null", `null`, raw(`1`), ObjectError{Allowed: wantJSONObject}, ""},
		{"cut", `{"a":1`, raw(`1`), ObjectError{Allowed: wantJSONObject}, ""},
		{"more behind", `{} {}`, raw(`1`), ObjectError{Allowed: wantJSONObject}, ""},
		{"not UTF-8", "{\"a\":\"\xff\"}", raw(`1`), ObjectError{Allowed: wantJSONObject}, ""},
		{"nil value", `{}`, nil, ObjectError{Field: "k", Allowed: wantJSONValue}, `protocol: edit object: value of "k": want one JSON value in UTF-8`},
		{"bad value", `{}`, raw(`1,"x":2`), ObjectError{Field: "k", Allowed: wantJSONValue}, ""},
		{"value not UTF-8", `{}`, raw("\"\xff\""), ObjectError{Field: "k", Allowed: wantJSONValue}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := SetMember(raw(tt.obj), "k", tt.value)
			var got *ObjectError
			if !errors.As(err, &got) || out != nil {
				t.Fatalf("got %s, %v", out, err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.text != "" && got.Error() != tt.text {
				t.Errorf("got %s", got.Error())
			}
			if got.ErrorCode() != "invalid_json" || got.Retryable() {
				t.Errorf("code %q, retryable %t", got.ErrorCode(), got.Retryable())
			}
		})
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, obj, want string
		ok              bool
	}{
		{"there", `{"a":1, "k" : {"x":[1 ]} }`, `{"x":[1 ]}`, true},
		{"null is there", `{"k":null}`, `null`, true},
		{"last wins", `{"k":1,"k":2}`, `2`, true},
		{"escaped", `{"\u006b":1}`, `1`, true},
		{"exact case", `{"K":1}`, ``, false},
		{"absent", `{"a":{"k":1}}`, ``, false},
		{"no object", `["k"]`, ``, false},
		{"malformed behind", `{"k":1,}`, ``, false},
		{"more behind", `{"k":1}x`, ``, false},
		{"nothing", ``, ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Member(raw(tt.obj), "k")
			if ok != tt.ok || ok && string(got) != tt.want {
				t.Errorf("got %s, %t", got, ok)
			}
		})
	}
}

func TestMetadataObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`null`: `{}`, `{"a":1}`: `{"a":1}`, ` {} `: ` {} `, `5`: `{"value":5}`, `["x"]`: `{"value":["x"]}`, `"s"`: `{"value":"s"}`,
	} {
		if got := MetadataObject(raw(in)); string(got) != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := MetadataObject(nil); string(got) != `{}` {
		t.Errorf("nil: got %s", got)
	}
}

// keyed is one member as encoding/json reads it.
type keyed struct {
	Key   string
	Value string
}

func members(t *testing.T, obj []byte) []keyed {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(obj))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%v: %q", err, obj)
	}
	all := []keyed{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatalf("%v: %q", err, obj)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%v: %q", err, obj)
		}
		all = append(all, keyed{key.(string), string(value)})
	}
	return all
}

// encoding/json is the judge: of the name that was set one member is left, for a map and for a struct; all others stay.
func FuzzSetMember(f *testing.F) {
	f.Add([]byte(`{"a":1,"princip\u0061l":{"role":"operator"},"Principal":2}`), []byte(`{"role":"client"}`))
	f.Add([]byte(`{"PRINCIPA\u004c":1}`), []byte(`1`))
	f.Add([]byte("{ \"a\" : [ {} , \"}\" ] }"), []byte(`"x"`))
	f.Add([]byte(`{"\ud800":1,"":2}`), []byte(`null`))
	f.Add([]byte(`[1]`), []byte(`1`))
	f.Add([]byte(`{"a":1,}`), []byte(`1`))
	f.Fuzz(func(t *testing.T, obj, value []byte) {
		if bytes.Count(obj, []byte("["))+bytes.Count(obj, []byte("{"))+bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) >= MaxDepth {
			return
		}
		valid := func(b []byte) bool { return utf8.Valid(b) && json.Valid(b) }
		out, err := SetMember(obj, MetadataPrincipal, value)
		if want := valid(obj) && bytes.TrimLeft(obj, " \t\r\n")[0] == '{' && valid(value); (err == nil) != want {
			t.Fatalf("got error %v, want success %t", err, want)
		}
		if err != nil {
			return
		}
		want := []keyed{{MetadataPrincipal, strings.Trim(string(value), " \t\r\n")}}
		for _, m := range members(t, obj) {
			if !strings.EqualFold(m.Key, MetadataPrincipal) {
				want = append(want, m)
			}
		}
		if diff := cmp.Diff(want, members(t, out)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		var reader struct{ Principal json.RawMessage }
		if err := json.Unmarshal(out, &reader); err != nil || string(reader.Principal) != want[0].Value {
			t.Fatalf("a struct reads %s, %v", reader.Principal, err)
		}
		if got, ok := Member(out, MetadataPrincipal); !ok || string(got) != want[0].Value {
			t.Fatalf("Member: %s, %t", got, ok)
		}
		removed, err := RemoveMember(out, MetadataPrincipal)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[1:], members(t, removed)); diff != "" {
			t.Fatalf("after RemoveMember (-want +got):\n%s", diff)
		}
	})
}

func BenchmarkSetMember(b *testing.B) {
	obj := raw(`{"n":1,"text":"some words","list":[1,2,3],"nested":{"a":{"b":"c"}}}`)
	worker := raw(`"6f0c1c1e-0000-4000-8000-00000000000a"`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := SetMember(obj, CallerWorkerID, worker); err != nil {
			b.Fatal(err)
		}
	}
}
