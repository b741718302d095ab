package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	nodeType     = reflect.TypeFor[yaml.Node]()
)

func (d *Decoder) fill(n *yaml.Node, v reflect.Value, path string) error {
	if v.CanAddr() {
		if nd, ok := v.Addr().Interface().(NodeDecoder); ok {
			return nd.DecodeNode(d, n, path)
		}
	}
	switch v.Type() {
	case nodeType:
		v.Set(reflect.ValueOf(*n))
		return nil
	case rawType:
		b, err := d.free(nil, n, path, 0)
		v.SetBytes(b)
		return err
	case durationType:
		return d.duration(n, v, path)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return d.pointer(n, v, path)
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

func (d *Decoder) pointer(n *yaml.Node, v reflect.Value, path string) error {
	if n.Tag == "!!null" {
		return nil
	}
	p := reflect.New(v.Type().Elem())
	if err := d.Value(n, p.Elem(), path); err != nil {
		return err
	}
	v.Set(p)
	return nil
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
