package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

const maxFile = 1 << 20

// NodeDecoder is implemented by types with a shape of their own, such as "a
// name or a mapping".
type NodeDecoder interface {
	DecodeNode(d *Decoder, n *yaml.Node, path string) error
}

// Decoder carries the file name through a decode.
type Decoder struct{ file string }

// Decode reads one YAML document into v, a pointer to a struct. An empty
// document leaves v as it is. Errors: *Error.
func Decode(file string, data []byte, v any) error {
	d := &Decoder{file: file}
	if len(data) > maxFile {
		return &Error{File: file, Problem: fmt.Sprintf("has %d bytes", len(data)), Allowed: "at most 1 MiB"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return d.syntax(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return &Error{File: file, Line: second.Line, Problem: "holds more than one document", Allowed: "one document"}
	case !errors.Is(err, io.EOF):
		return d.syntax(err)
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

// Value fills v from a node and lets it check itself.
func (d *Decoder) Value(n *yaml.Node, v reflect.Value, path string) error {
	if err := d.plain(n, path); err != nil {
		return err
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

// plain refuses what makes a line mean what another line says.
func (d *Decoder) plain(n *yaml.Node, path string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return d.Fail(n, path, "uses an anchor or alias", "plain values")
	}
	return nil
}

// pairs calls each with the entries of a mapping.
func (d *Decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, path string) error) error {
	if n.Kind != yaml.MappingNode {
		return d.Fail(n, path, "is "+kind(n), "a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" {
			return d.Fail(key, path, "has a key that is no plain text", "plain keys")
		}
		p := below(path, key.Value)
		if seen[key.Value] {
			return d.Fail(key, p, "is given twice", "each key once")
		}
		seen[key.Value] = true
		if err := each(key, n.Content[i+1], p); err != nil {
			return err
		}
	}
	return nil
}

// below is the path of a key. Odd keys are quoted, so that an error is a line.
func below(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		key = clipped(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// kind says what a node is.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	default:
		return clipped(n.Value)
	}
}

// clipped is a value in quotes, cut where it is long.
func clipped(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
