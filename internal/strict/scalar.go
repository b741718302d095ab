package strict

import (
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// form is what a scalar of a kind looks like.
type form struct {
	tags    []string
	allowed string
}

func formOf(k reflect.Kind) form {
	switch k {
	case reflect.String:
		return form{[]string{"!!str"}, "a text"}
	case reflect.Bool:
		return form{[]string{"!!bool"}, "true or false"}
	case reflect.Int, reflect.Int64:
		return form{[]string{"!!int"}, "a whole number"}
	case reflect.Float64:
		return form{[]string{"!!int", "!!float"}, "a number"}
	default:
		panic("strict: a field of kind " + k.String() + " cannot be read") // of the program, not of the file
	}
}

// scalar takes a value whose type in YAML is that of the field: what looks like
// a number is no text, and yes is no bool.
func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, path string) error {
	f := formOf(v.Kind())
	switch {
	case n.Kind == yaml.ScalarNode && slices.Contains(f.tags, n.Tag):
		if n.Decode(v.Addr().Interface()) == nil {
			return nil
		}
	case v.Kind() == reflect.String && n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return d.Fail(n, path, "is "+kind(n), "a text (put it in quotes)")
	}
	return d.Fail(n, path, "is "+kind(n), f.allowed)
}

func (d *Decoder) duration(n *yaml.Node, v reflect.Value, path string) error {
	x, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode || x < 0 {
		return d.Fail(n, path, "is "+kind(n), "a duration such as 30s, 5m or 2h")
	}
	v.SetInt(int64(x))
	return nil
}
