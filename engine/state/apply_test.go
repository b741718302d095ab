package state

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ops reads ops as they come from the wire.
func ops(t testing.TB, text string) []Op {
	t.Helper()
	var list []Op
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("ops %s: %v", text, err)
	}
	return list
}

func TestApply(t *testing.T) {
	t.Parallel()
	const missing = ""
	for _, tc := range []struct {
		name    string
		current string
		ops     string
		want    string
		errors  []OpError
	}{
		{name: "no ops on nothing", ops: `[]`, want: `{}`},
		{name: "no ops", current: `[1, 2]`, ops: `[]`, want: `[1, 2]`},
		{name: "null document", current: `null`, ops: `[]`, want: `null`},

		{name: "set root", current: missing, ops: `[{"type":"set","path":"","value":{"a":1}}]`, want: `{"a":1}`},
		{name: "set root without value", current: `1`, ops: `[{"type":"set","path":""}]`, want: `null`},
		{name: "set keeps order", current: `{"z": 1, "a" : 2,"m":3}`, ops: `[{"type":"set","path":"a","value":9}]`, want: `{"z":1,"a":9,"m":3}`},
		{name: "set new goes last", current: `{"z":1,"a":2}`, ops: `[{"type":"set","path":"b","value":[ ]}]`, want: `{"z":1,"a":2,"b":[ ]}`},
		{name: "set on nothing", ops: `[{"type":"set","path":"b"}]`, want: `{"b":null}`},
		{name: "set dot is literal", current: `{"a":6}`, ops: `[{"type":"set","path":"a.b","value":1}]`, want: `{"a":6,"a.b":1}`},
		{name: "set on a number", current: `3`, ops: `[{"type":"set","path":"x","value":1}]`, want: `3`,
			errors: []OpError{{Code: "set.target_not_object", Message: "Cannot set at path 'x': target is number, expected object."}}},
		{name: "set on null", current: `null`, ops: `[{"type":"set","path":"x","value":1}]`, want: `null`,
			errors: []OpError{{Code: "set.target_not_object", Message: "Cannot set at path 'x': target is null, expected object."}}},
		{name: "set proto", current: `{}`, ops: `[{"type":"set","path":"__proto__","value":1}]`, want: `{}`,
			errors: []OpError{{Code: "set.path.proto_polluted", Message: "Path segment '__proto__' is not allowed (prototype pollution)."}}},
		{name: "set segment too long", current: `{}`, ops: `[{"type":"set","path":"` + strings.Repeat("x", 300) + `","value":1}]`, want: `{}`,
			errors: []OpError{{Code: "set.path.segment_too_long", Message: "Path segment of 300 bytes exceeds maximum of 256"}}},
		{name: "set longest segment", current: `{}`, ops: `[{"type":"set","path":"` + strings.Repeat("x", 256) + `","value":1}]`,
			want: `{"` + strings.Repeat("x", 256) + `":1}`},
		{name: "set escaped name", current: `{"\u0061":1,"b":2}`, ops: `[{"type":"set","path":"a","value":"<é>"}]`, want: `{"\u0061":"<é>","b":2}`},
		{name: "set quotes a name", current: `{}`, ops: `[{"type":"set","path":"a\"<\n","value":1}]`, want: `{"a\"<\n":1}`},
		{name: "equal names are one", current: `{"a":1,"b":2,"a":3}`, ops: `[{"type":"set","path":"c","value":4}]`, want: `{"a":3,"b":2,"c":4}`},

		{name: "remove", current: `{"a":6,"b":2,"z":-2}`, ops: `[{"type":"remove","path":"b"},{"type":"remove","path":"nope"}]`, want: `{"a":6,"z":-2}`},
		{name: "remove root", current: `{"a":6}`, ops: `[{"type":"remove","path":""}]`, want: `null`},
		{name: "remove from nothing", ops: `[{"type":"remove","path":"a"}]`, want: `{}`},
		{name: "remove from an array", current: `[1]`, ops: `[{"type":"remove","path":"0"}]`, want: `[1]`,
			errors: []OpError{{Code: "remove.target_not_object", Message: "Cannot remove at path '0': target is array, expected object."}}},

		{name: "numbers", current: `{"a":1}`, ops: `[{"type":"set","path":"b","value":2},{"type":"increment","path":"a","by":5},{"type":"decrement","path":"z","by":2}]`,
			want: `{"a":6,"b":2,"z":-2}`},
		{name: "increment root of nothing", ops: `[{"type":"increment","path":"","by":1}]`, want: `1`},
		{name: "decrement root of nothing", ops: `[{"type":"decrement","path":"","by":7}]`, want: `-7`},
		{name: "increment root", current: ` 1 `, ops: `[{"type":"increment","path":"","by":2}]`, want: `3`},
		{name: "float stays float", current: `{"f":1.5,"g":1.0,"h":1e3}`,
			ops:  `[{"type":"increment","path":"f","by":1},{"type":"decrement","path":"g","by":1},{"type":"increment","path":"h","by":1}]`,
			want: `{"f":2.5,"g":0.0,"h":1001.0}`},
		{name: "large float", current: `1e300`, ops: `[{"type":"increment","path":"","by":1}]`, want: `1e+300`},
		{name: "integers of any size", current: `{"n":12345678901234567890123}`, ops: `[{"type":"increment","path":"n","by":9223372036854775807}]`,
			want: `{"n":12354902273271422665930}`},
		{name: "by of any size", current: `1`, ops: `[{"type":"decrement","path":"","by":12345678901234567890123}]`, want: `-12345678901234567890122`},
		{name: "increment a string", current: `{"s":"xy"}`, ops: `[{"type":"increment","path":"s","by":1},{"type":"set","path":"ok","value":1}]`, want: `{"s":"xy","ok":1}`,
			errors: []OpError{{Code: "increment.not_number", Message: "Expected number at path 's', got string."}}},
		{name: "decrement null", current: `{"s":null}`, ops: `[{"type":"decrement","path":"s","by":1}]`, want: `{"s":null}`,
			errors: []OpError{{Code: "decrement.not_number", Message: "Expected number at path 's', got null."}}},
		{name: "increment in a number", current: `3`, ops: `[{"type":"increment","path":"s","by":1}]`, want: `3`,
			errors: []OpError{{Code: "increment.target_not_object", Message: "Cannot increment at path 's': target is number, expected object."}}},
		{name: "number beyond float", current: `1e999`, ops: `[{"type":"increment","path":"","by":1}]`, want: `1e999`,
			errors: []OpError{{Code: "increment.not_number", Message: "Expected number at path '', got a number that is too large."}}},
		{name: "number too long", current: strings.Repeat("9", MaxDigits+1), ops: `[{"type":"increment","path":"","by":1}]`, want: strings.Repeat("9", MaxDigits+1),
			errors: []OpError{{Code: "increment.not_number", Message: "Expected number at path '', got a number that is too large."}}},
		{name: "failed op leaves it missing", ops: `[{"type":"set","path":"prototype"},{"type":"increment","path":"","by":3}]`, want: `3`,
			errors: []OpError{{Code: "set.path.proto_polluted", Message: "Path segment 'prototype' is not allowed (prototype pollution)."}}},

		{name: "merge", current: `{"a":6,"z":-2}`,
			ops:  `[{"type":"merge","value":{"m":{"x":1}}},{"type":"merge","path":"m","value":{"y":2}},{"type":"merge","path":["p","q"],"value":{"z":1}}]`,
			want: `{"a":6,"z":-2,"m":{"x":1,"y":2},"p":{"q":{"z":1}}}`},
		{name: "merge is shallow", current: `{"m":{"x":1}}`, ops: `[{"type":"merge","value":{"m":{"y":2}}}]`, want: `{"m":{"y":2}}`},
		{name: "merge replaces what is in the way", current: `{"p":5,"q":{"r":[1]}}`,
			ops: `[{"type":"merge","path":["p","x"],"value":{"z":1}},{"type":"merge","path":["q","r"],"value":{}}]`, want: `{"p":{"x":{"z":1}},"q":{"r":{}}}`},
		{name: "nested merge on a number", current: `5`, ops: `[{"type":"merge","path":"a","value":{"z":1}}]`, want: `{"a":{"z":1}}`},
		{name: "root merge on a number", current: `5`, ops: `[{"type":"merge","path":[],"value":{"z":1}}]`, want: `5`},
		{name: "root merge on nothing", ops: `[{"type":"merge","path":"","value":{"z":1}}]`, want: `{"z":1}`},
		{name: "merge no object", current: `{"m":1}`, ops: `[{"type":"merge","path":"m","value":5}]`, want: `{"m":1}`,
			errors: []OpError{{Code: "merge.value.not_an_object", Message: "Merge value must be a JSON object"}}},
		{name: "merge proto path", current: `{}`, ops: `[{"type":"merge","path":["__proto__"],"value":{"a":1}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.path.proto_polluted", Message: "Path segment '__proto__' is not allowed (prototype pollution)."}}},
		{name: "merge proto key", current: `{}`, ops: `[{"type":"merge","value":{"__proto__x":1,"constructor":2}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.value.proto_polluted", Message: `Merge value top-level key "constructor" is a prototype-pollution sink`}}},
		{name: "merge escaped proto key", current: `{}`, ops: `[{"type":"merge","value":{"__pr\u006fto__":1}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.value.proto_polluted", Message: `Merge value top-level key "__proto__" is a prototype-pollution sink`}}},
		{name: "merge path too deep", current: `{}`, ops: `[{"type":"merge","path":["a"` + strings.Repeat(`,"a"`, 39) + `],"value":{"a":1}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.path.too_deep", Message: "Path depth 40 exceeds maximum of 32"}}},
		{name: "merge empty segment", current: `{}`, ops: `[{"type":"merge","path":[""],"value":{"a":1}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.path.empty_segment", Message: "Path contains an empty segment"}}},
		{name: "merge value too deep", current: `{}`, ops: `[{"type":"merge","value":{"a":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}}]`, want: `{}`,
			errors: []OpError{{Code: "merge.value.too_deep", Message: "Merge value depth 17 exceeds maximum of 16"}}},
		{name: "merge deepest value", current: `{}`, ops: `[{"type":"merge","value":{"a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `}}]`,
			want: `{"a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `}`},
		{name: "merge brackets in a string are not depth", current: `{}`, ops: `[{"type":"merge","value":{"a":"\"` + strings.Repeat("[", 30) + `"}}]`,
			want: `{"a":"\"` + strings.Repeat("[", 30) + `"}`},

		{name: "append", current: `{}`,
			ops:  `[{"type":"append","path":"list","value":"s"},{"type":"append","path":"n","value":1},{"type":"append","path":"n","value":2},{"type":"append","path":"list","value":"y"}]`,
			want: `{"list":"sy","n":[1,2]}`},
		{name: "append root of nothing", ops: `[{"type":"append","path":"","value":{"a":1}}]`, want: `[{"a":1}]`},
		{name: "append root again", current: `[{"a":1} ]`, ops: `[{"type":"append","path":"","value":{"a":2}}]`, want: `[{"a":1},{"a":2}]`},
		{name: "append to an empty array", current: `[ ]`, ops: `[{"type":"append","path":"","value":1}]`, want: `[1]`},
		{name: "append string root", ops: `[{"type":"append","value":"txt"},{"type":"append","value":"more"}]`, want: `"txtmore"`},
		{name: "append to null", current: `{"a":null,"b":null}`, ops: `[{"type":"append","path":"a","value":"s"},{"type":"append","path":["b"],"value":1}]`, want: `{"a":"s","b":[1]}`},
		{name: "append nested", current: `{}`, ops: `[{"type":"append","path":["a","b"],"value":"s"},{"type":"append","path":["a","b"],"value":"t"}]`, want: `{"a":{"b":["s","t"]}}`},
		{name: "append nested on nothing", ops: `[{"type":"append","path":["a","b"],"value":"s"}]`, want: `{"a":{"b":["s"]}}`},
		{name: "append to an object", current: `{"m":{}}`, ops: `[{"type":"append","path":"m","value":1}]`, want: `{"m":{}}`,
			errors: []OpError{{Code: "append.type_mismatch", Message: "Cannot append at path 'm': target is object, expected array, string, null, or missing field."}}},
		{name: "append a number to a string", current: `{"m":"x"}`, ops: `[{"type":"append","path":"m","value":1}]`, want: `{"m":"x"}`,
			errors: []OpError{{Code: "append.type_mismatch", Message: "Expected string append value at path 'm', got number."}}},
		{name: "append through a number", current: `{"m":1}`, ops: `[{"type":"append","path":["m","x"],"value":1}]`, want: `{"m":1}`,
			errors: []OpError{{Code: "append.target_not_object", Message: "Cannot append at path 'm.x': target is number, expected object."}}},
		{name: "append below a string", current: `"x"`, ops: `[{"type":"append","path":"a","value":1}]`, want: `"x"`,
			errors: []OpError{{Code: "append.target_not_object", Message: "Cannot append at path 'a': target is string, expected object."}}},

		{name: "stored text that is not JSON", current: `{"a"`, ops: `[{"type":"set","path":"x","value":1},{"type":"increment","path":"","by":1}]`, want: `{"a"`,
			errors: []OpError{
				{Code: "set.target_not_object", Message: "Cannot set at path 'x': target is not JSON, expected object."},
				{OpIndex: 1, Code: "increment.not_number", Message: "Expected number at path '', got not JSON."}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, failed := Apply(json.RawMessage(tc.current), tc.current != missing, ops(t, tc.ops))
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(tc.errors, failed); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyTooManyMergeKeys(t *testing.T) {
	t.Parallel()
	value := map[string]int{}
	for i := range MaxMergeKeys + 1 {
		value[strings.Repeat("k", i+1)] = i
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got, failed := Apply(nil, false, []Op{{Type: OpMerge, Value: text}})
	want := []OpError{{Code: "merge.value.too_many_keys", Message: "Merge value has 1025 top-level keys, exceeds maximum of 1024"}}
	if diff := cmp.Diff(want, failed); diff != "" || string(got) != "{}" {
		t.Errorf("got %s, errors (-want +got):\n%s", got, diff)
	}
	delete(value, "k")
	text, _ = json.Marshal(value)
	got, failed = Apply(nil, false, []Op{{Type: OpMerge, Value: text}, {Type: OpRemove, Path: json.RawMessage(`"kk"`)}})
	var members map[string]int
	if err := json.Unmarshal(got, &members); err != nil || len(failed) > 0 || len(members) != MaxMergeKeys-1 {
		t.Errorf("got %d members, errors %v, %v; want %d", len(members), failed, err, MaxMergeKeys-1)
	}
}

func TestApplyExistingWithoutTextIsNull(t *testing.T) {
	t.Parallel()
	if got, failed := Apply(nil, true, nil); string(got) != "null" || failed != nil {
		t.Errorf("got %s, %v, want null", got, failed)
	}
}

func TestApplyMalformedOpIsSkipped(t *testing.T) {
	t.Parallel()
	list := []Op{{Type: "nope"}, {Type: OpSet, Value: json.RawMessage(`{`)}, {Type: OpSet, Value: json.RawMessage(`1`)}}
	got, failed := Apply(nil, false, list)
	if string(got) != "1" {
		t.Errorf("got %s, want 1: a set without a path is one of the root", got)
	}
	for i, e := range failed {
		if e.Code != CodeMalformedOp || e.OpIndex != i {
			t.Errorf("error %d is %+v, want code %s", i, e, CodeMalformedOp)
		}
	}
	if len(failed) != 2 {
		t.Errorf("got %d errors, want 2", len(failed))
	}
}

func TestApplyLeavesItsInput(t *testing.T) {
	t.Parallel()
	current := []byte(`{"a":[1],"s":"x","n":1}`)
	before := string(current)
	list := ops(t, `[{"type":"append","path":"a","value":2},{"type":"append","path":"s","value":"y"},{"type":"increment","path":"n","by":1},{"type":"append","path":"a","value":3}]`)
	got, failed := Apply(current, true, list)
	if string(current) != before || len(failed) > 0 {
		t.Errorf("input became %s, errors %v", current, failed)
	}
	if want := `{"a":[1,2,3],"s":"xy","n":2}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckOps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, ops, want string }{
		{"good", `[{"type":"set","path":""},{"type":"merge","value":1,"path":["a"]},{"type":"append","value":null},{"type":"increment","path":"a","by":-12345678901234567890123}]`, ""},
		{"unknown", `[{"type":"set","path":"a"},{"type":"nosuchop","path":"a"}]`,
			"unknown variant `nosuchop`, expected one of `set`, `merge`, `increment`, `decrement`, `append`, `remove`"},
		{"no type", `[{"path":"a"}]`, "missing field `type`"},
		{"float by", `[{"type":"increment","path":"a","by":1.5}]`, "invalid type: floating point `1.5`, expected i64"},
		{"exponent by", `[{"type":"increment","path":"a","by":1e3}]`, "invalid type: floating point `1e3`, expected i64"},
		{"string by", `[{"type":"decrement","path":"a","by":"1"}]`, `invalid type: string "1", expected i64`},
		{"null by", `[{"type":"decrement","path":"a","by":null}]`, "invalid type: null, expected i64"},
		{"object by", `[{"type":"decrement","path":"a","by":{}}]`, "invalid type: map, expected i64"},
		{"no by", `[{"type":"increment","path":"a"}]`, "missing field `by`"},
		{"long by", `[{"type":"increment","path":"a","by":1` + strings.Repeat("0", MaxDigits) + `}]`, "invalid value: integer of 4097 digits, expected at most 4096"},
		{"array path of set", `[{"type":"set","path":["a","b"],"value":1}]`, "invalid type: sequence, expected a string"},
		{"number path of remove", `[{"type":"remove","path":3}]`, "invalid type: integer `3`, expected a string"},
		{"bool path of set", `[{"type":"set","path":true}]`, "invalid type: boolean `true`, expected a string"},
		{"bad path of merge", `[{"type":"merge","path":["a",1],"value":{}}]`, "invalid path: expected a string or an array of strings"},
		{"object path of append", `[{"type":"append","path":{},"value":{}}]`, "invalid path: expected a string or an array of strings"},
		{"merge without value", `[{"type":"merge"}]`, "missing field `value`"},
		{"append without value", `[{"type":"append"}]`, "missing field `value`"},
		{"long text is clipped", `[{"type":"increment","path":"a","by":"` + strings.Repeat("é", 100) + `"}]`,
			`invalid type: string "` + strings.Repeat("é", 31) + "…, expected i64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			list := ops(t, tc.ops)
			err := CheckOps(list)
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			e, ok := err.(*OpSyntaxError)
			if !ok || e.Detail != tc.want || e.Index != len(list)-1 || e.ErrorCode() != "deserialization_error" || !strings.Contains(e.Error(), tc.want) {
				t.Errorf("got %v, want %s at op %d", err, tc.want, len(list)-1)
			}
		})
	}
	for _, op := range []Op{{Type: OpSet, Path: json.RawMessage(`"a`)}, {Type: OpMerge, Path: json.RawMessage(`["a"`), Value: nullText}, {Type: OpRemove, Path: json.RawMessage(`x`)}} {
		if CheckOps([]Op{op}) == nil {
			t.Errorf("%+v passed", op)
		}
	}
}

func BenchmarkApplyCounter(b *testing.B) {
	list := []Op{{Type: OpIncrement, Path: json.RawMessage(`"rev"`), By: json.RawMessage(`1`)}}
	current := json.RawMessage(`{"abort":null,"lease":4,"rev":17}`)
	b.ReportAllocs()
	for b.Loop() {
		Apply(current, true, list)
	}
}
