package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const maxFile = 1 << 20

var (
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	nodeType     = reflect.TypeFor[yaml.Node]()
)

// NodeDecoder is implemented by types with a shape of their own, such as "a
// name or a mapping".
type NodeDecoder interface {
	DecodeNode(d *Decoder, n *yaml.Node, path string) error
}

// Decoder carries the file name through a decode.
type Decoder struct{ file string }

// Decode reads one YAML document into v, a pointer to a struct. An empty
// document leaves v as it is.
func Decode(file string, data []byte, v any) error {
	d := &Decoder{file: file}
	if len(data) > maxFile {
		return &Error{File: file, Problem: fmt.Sprintf("has %d bytes", len(data)), Allowed: "at most 1 MiB"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return d.syntax(err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return &Error{File: file, Problem: "holds more than one document", Allowed: "one document", Err: err}
	}
	return d.Value(doc.Content[0], reflect.ValueOf(v).Elem(), "")
}

// syntax turns "yaml: line 3: ..." into an error with its line.
func (d *Decoder) syntax(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
	}
	return &Error{File: d.file, Line: line, Problem: "is not valid YAML: " + text, Err: err}
}

// Fail is an error at a node.
func (d *Decoder) Fail(n *yaml.Node, path, problem, allowed string) error {
	return &Error{File: d.file, Line: n.Line, Field: path, Problem: problem, Allowed: allowed}
}

// Into fills v, a pointer, from a node.
func (d *Decoder) Into(n *yaml.Node, v any, path string) error {
	return d.Value(n, reflect.ValueOf(v).Elem(), path)
}

// Value fills v from a node.
func (d *Decoder) Value(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return d.Fail(n, path, "uses an anchor or alias", "plain values")
	}
	if err := d.fill(n, v, path); err != nil {
		return err
	}
	if v.CanAddr() {
		if c, ok := v.Addr().Interface().(Checker); ok {
			if problem, allowed := c.Check(); problem != "" {
				return d.Fail(n, path, problem, allowed)
			}
		}
	}
	return nil
}

func (d *Decoder) fill(n *yaml.Node, v reflect.Value, path string) error {
	if v.CanAddr() {
		if nd, ok := v.Addr().Interface().(NodeDecoder); ok {
			return nd.DecodeNode(d, n, path)
		}
	}
	switch {
	case v.Type() == nodeType:
		v.Set(reflect.ValueOf(*n))
		return nil
	case v.Type() == rawType:
		return d.raw(n, v, path)
	case v.Type() == durationType:
		return d.duration(n, v, path)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if n.Tag == "!!null" {
			return nil
		}
		p := reflect.New(v.Type().Elem())
		if err := d.Value(n, p.Elem(), path); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case reflect.Struct:
		return d.structure(n, v, path)
	case reflect.Map:
		return d.mapping(n, v, path)
	case reflect.Slice:
		return d.sequence(n, v, path)
	default:
		return d.scalar(n, v, path)
	}
}

func (d *Decoder) structure(n *yaml.Node, v reflect.Value, path string) error {
	if n.Tag == "!!null" {
		return nil
	}
	fields := map[string]int{}
	var names []string
	t := v.Type()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields[name] = i
		names = append(names, name)
	}
	sort.Strings(names)
	return d.pairs(n, path, func(key, value *yaml.Node, p string) error {
		i, ok := fields[key.Value]
		if !ok {
			return d.Fail(key, p, "unknown key", strings.Join(names, ", "))
		}
		return d.Value(value, v.Field(i), p)
	})
}

func (d *Decoder) mapping(n *yaml.Node, v reflect.Value, path string) error {
	if n.Tag == "!!null" {
		return nil
	}
	m := reflect.MakeMap(v.Type())
	err := d.pairs(n, path, func(key, value *yaml.Node, p string) error {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.Value(value, e, p); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), e)
		return nil
	})
	v.Set(m)
	return err
}

func (d *Decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, path string) error) error {
	if n.Kind != yaml.MappingNode {
		return d.Fail(n, path, "is "+kind(n), "a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		p := key.Value
		if path != "" {
			p = path + "." + key.Value
		}
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			return d.Fail(key, path, "has a key that is no plain text", "plain keys")
		case seen[key.Value]:
			return d.Fail(key, p, "is given twice", "each key once")
		}
		seen[key.Value] = true
		if err := each(key, n.Content[i+1], p); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) sequence(n *yaml.Node, v reflect.Value, path string) error {
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return d.Fail(n, path, "is "+kind(n), "a list")
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		if err := d.Value(c, s.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(s)
	return nil
}

func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, path string) error {
	allowed := map[reflect.Kind]string{
		reflect.String: "a text", reflect.Bool: "true or false",
		reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
	}[v.Kind()]
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return d.Fail(n, path, "is "+kind(n), allowed)
	}
	if v.Kind() == reflect.String && n.Tag != "!!str" {
		return d.Fail(n, path, "is "+kind(n), "a text (put it in quotes)")
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		return d.Fail(n, path, fmt.Sprintf("is %q", n.Value), allowed)
	}
	return nil
}

func (d *Decoder) duration(n *yaml.Node, v reflect.Value, path string) error {
	x, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode || x < 0 {
		return d.Fail(n, path, fmt.Sprintf("is %q", n.Value), "a duration such as 30s, 5m or 2h")
	}
	v.SetInt(int64(x))
	return nil
}

func (d *Decoder) raw(n *yaml.Node, v reflect.Value, path string) error {
	var x any
	if err := n.Decode(&x); err != nil {
		return d.Fail(n, path, "cannot be read: "+err.Error(), "plain values")
	}
	b, err := json.Marshal(x)
	if err != nil {
		return d.Fail(n, path, "cannot be written as JSON", "text, numbers, lists and mappings with text keys")
	}
	v.SetBytes(b)
	return nil
}

func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}
