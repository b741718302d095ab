package state

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// FuzzApply compares Apply with a plain model on decoded values.
func FuzzApply(f *testing.F) {
	for _, current := range []string{``, `null`, `{}`, `{"a":1,"b":[1,"x"],"c":{"d":null}}`, `[1]`, `"s"`, `1.5`, `{"a":{"b":"s"},"a":2}`, ` { "x" : [ ] } `} {
		f.Add(current, `[{"type":"increment","path":"a","by":3},{"type":"append","path":["c","d"],"value":"s"},{"type":"append","value":"x"}]`)
		f.Add(current, `[{"type":"merge","path":["b","q"],"value":{"k":[{}],"\u0061":1}},{"type":"remove","path":"a"},{"type":"set","path":"n","value":1e3}]`)
		f.Add(current, `[{"type":"decrement","path":"","by":9},{"type":"append","path":"","value":{"a":1}},{"type":"set","path":"","value":"q"},{"type":"append","value":"\u00e9"}]`)
		f.Add(current, `[{"type":"merge","value":{"prototype":1}},{"type":"merge","value":{"z":{"y":{}}}},{"type":"append","path":["z","y","x"],"value":1}]`)
	}
	f.Fuzz(func(t *testing.T, current, opsText string) {
		var list []Op
		if json.Unmarshal([]byte(opsText), &list) != nil || CheckOps(list) != nil || !json.Valid([]byte(opsText)) {
			return
		}
		if text := strings.ToLower(current + opsText); strings.Contains(text, `\ud`) {
			return // joining strings can join the halves of a surrogate pair, which the model has decoded before
		}
		exists := current != ""
		before := current
		got, failed := Apply(json.RawMessage(current), exists, list)
		if current != before {
			t.Fatal("the input was changed")
		}
		if exists && !json.Valid([]byte(current)) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("Apply(%q, %s) is not JSON: %q", current, opsText, got)
		}
		for _, e := range failed {
			if e.Code == CodeMalformedOp || e.Message == "" || e.OpIndex >= len(list) {
				t.Fatalf("unexpected error %+v", e)
			}
		}
		m := model{failed: map[int]bool{}}
		for _, e := range failed {
			m.failed[e.OpIndex] = true
		}
		if exists {
			m.root, m.exists = decode(t, []byte(current)), true
		}
		for i, op := range list {
			if !m.failed[i] {
				m.apply(t, op)
			}
		}
		want := m.root
		if !m.exists {
			want = map[string]any{}
		}
		if g := decode(t, got); !reflect.DeepEqual(g, want) {
			t.Fatalf("Apply(%q, %s)\n got %v\nwant %v", current, opsText, g, want)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// model applies the ops that Apply did not refuse.
type model struct {
	root   any
	exists bool
	failed map[int]bool
}

func (m *model) apply(t *testing.T, op Op) {
	path, _ := parsePath(op.Path)
	var v any
	if len(op.Value) > 0 {
		v = decode(t, op.Value)
	}
	root := m.root
	if !m.exists {
		root = map[string]any{}
	}
	switch op.Type {
	case OpSet:
		m.put(root, path, v)
	case OpRemove:
		if len(path) == 0 {
			m.root, m.exists = nil, true
		} else if obj := root.(map[string]any); m.exists {
			delete(obj, path[0])
		}
	case OpIncrement, OpDecrement:
		m.put(root, path, m.sum(t, op, path))
	case OpMerge:
		if _, ok := root.(map[string]any); !ok && len(path) == 0 {
			return
		}
		target := map[string]any{}
		if old, ok := m.get(path).(map[string]any); ok {
			target = old
		}
		for k, e := range v.(map[string]any) {
			target[k] = e
		}
		if obj, ok := root.(map[string]any); ok {
			m.put(obj, path, target)
		} else {
			m.put(map[string]any{}, path, target)
		}
	case OpAppend:
		m.put(root, path, m.appended(path, v))
	}
}

func (m *model) put(root any, path []string, v any) {
	m.exists = true
	if len(path) == 0 {
		m.root = v
		return
	}
	obj := root.(map[string]any)
	m.root = obj
	for _, segment := range path[:len(path)-1] {
		next, ok := obj[segment].(map[string]any)
		if !ok {
			next = map[string]any{}
			obj[segment] = next
		}
		obj = next
	}
	obj[path[len(path)-1]] = v
}

// absent marks a value that is not there.
type absent struct{}

func (m *model) get(path []string) any {
	if !m.exists {
		return absent{}
	}
	v := m.root
	for _, segment := range path {
		obj, ok := v.(map[string]any)
		if !ok {
			return absent{}
		}
		if v, ok = obj[segment]; !ok {
			return absent{}
		}
	}
	return v
}

func (m *model) appended(path []string, v any) any {
	switch old := m.get(path).(type) {
	case absent:
		if s, ok := v.(string); ok && len(path) < 2 {
			return s
		}
	case nil:
		if s, ok := v.(string); ok {
			return s
		}
	case string:
		return old + v.(string)
	case []any:
		return append(append([]any{}, old...), v)
	}
	return []any{v}
}

func (m *model) sum(t *testing.T, op Op, path []string) any {
	old, ok := m.get(path).(json.Number)
	if !ok {
		old = "0"
	}
	by, _ := new(big.Int).SetString(string(bytes.TrimSpace(op.By)), 10)
	if op.Type == OpDecrement {
		by.Neg(by)
	}
	if !strings.ContainsAny(string(old), ".eE") {
		a, _ := new(big.Int).SetString(string(old), 10)
		return json.Number(a.Add(a, by).String())
	}
	a, err := old.Float64()
	if err != nil {
		t.Fatalf("%s is no float: %v", old, err)
	}
	b, _ := new(big.Float).SetInt(by).Float64()
	return json.Number(appendFloat(a + b))
}
