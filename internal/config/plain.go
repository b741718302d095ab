package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/iii-aws/harness/internal/strict"
)

// decodePlain fills v, a pointer to a type without a DecodeNode of its own.
func decodePlain(d *strict.Decoder, n *yaml.Node, path string, v any) error {
	return d.Value(n, reflect.ValueOf(v).Elem(), path)
}
