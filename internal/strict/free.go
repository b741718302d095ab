package strict

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"sort"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep a free value nests.
const maxDepth = 100

// number is a number that YAML and JSON spell alike. It is taken to the letter,
// so that none loses digits.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// free appends a free value as JSON, keys sorted. A date stays the text that
// it is.
func (d *Decoder) free(out []byte, n *yaml.Node, path string, depth int) ([]byte, error) {
	if err := d.plain(n, path); err != nil {
		return nil, err
	}
	switch {
	case depth > maxDepth:
		return nil, d.Fail(n, path, "nests too deep", fmt.Sprintf("%d levels", maxDepth))
	case n.Kind == yaml.SequenceNode:
		return d.freeList(out, n, path, depth)
	case n.Kind == yaml.MappingNode:
		return d.freeObject(out, n, path, depth)
	case (n.Tag == "!!int" || n.Tag == "!!float") && number.MatchString(n.Value):
		return append(out, n.Value...), nil
	}
	var v any
	switch n.Tag {
	case "!!null":
	case "!!str", "!!timestamp":
		v = n.Value
	case "!!bool", "!!int", "!!float":
		err := n.Decode(&v)
		if f, ok := v.(float64); err != nil || ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, d.Fail(n, path, "is "+kind(n), "a finite number")
		}
	default:
		return nil, d.Fail(n, path, "has the tag "+clipped(n.Tag), "text, numbers, true, false, lists and mappings")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, d.Fail(n, path, "cannot be written as JSON: "+err.Error(), "text, numbers, true, false, lists and mappings")
	}
	return append(out, b...), nil
}

func (d *Decoder) freeList(out []byte, n *yaml.Node, path string, depth int) ([]byte, error) {
	out = append(out, '[')
	for i, c := range n.Content {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = d.free(out, c, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func (d *Decoder) freeObject(out []byte, n *yaml.Node, path string, depth int) ([]byte, error) {
	members := map[string][]byte{}
	var names []string
	err := d.pairs(n, path, func(key, value *yaml.Node, p string) (err error) {
		if key.Tag != "!!str" {
			return d.Fail(key, p, "is a key that is no text", "keys that are texts (put them in quotes)")
		}
		names = append(names, key.Value)
		members[key.Value], err = d.free(nil, value, p, depth+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		k, err := json.Marshal(name)
		if err != nil {
			return nil, d.Fail(n, below(path, name), "cannot be written as JSON: "+err.Error(), "plain keys")
		}
		out = append(append(append(out, k...), ':'), members[name]...)
	}
	return append(out, '}'), nil
}
