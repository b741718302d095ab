package state

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// merge sets the members of v in the object at path. What stands in the way and is no object gives way to one, but for
// the root itself, which a root merge then leaves alone.
func (doc *document) merge(path []string, v json.RawMessage) *OpError {
	members, e := mergeMembers(v)
	if e != nil {
		return e
	}
	if len(path) == 0 && !doc.missing && doc.kind() != kindObject {
		return nil
	}
	target := doc.object()
	for _, segment := range path {
		next := target.get(segment)
		if next == nil {
			next = target.put(segment, json.RawMessage("{}"))
		}
		target = next.object()
	}
	for _, m := range members {
		target.put(m.name, m.value.raw)
	}
	return nil
}

// mergeMembers is the members of the value of a merge.
func mergeMembers(v json.RawMessage) ([]*member, *OpError) {
	if kindOf(v) != kindObject {
		return nil, &OpError{Code: "merge.value.not_an_object", Message: "Merge value must be a JSON object"}
	}
	if d := depth(v); d > MaxMergeDepth {
		return nil, &OpError{
			Code:    "merge.value.too_deep",
			Message: fmt.Sprintf("Merge value depth %d exceeds maximum of %d", d, MaxMergeDepth),
		}
	}
	members := parseObject(v).members
	if len(members) > MaxMergeKeys {
		return nil, &OpError{
			Code:    "merge.value.too_many_keys",
			Message: fmt.Sprintf("Merge value has %d top-level keys, exceeds maximum of %d", len(members), MaxMergeKeys),
		}
	}
	for _, m := range members {
		if polluting(m.name) {
			return nil, &OpError{
				Code:    "merge.value.proto_polluted",
				Message: "Merge value top-level key " + strconv.Quote(m.name) + " is a prototype-pollution sink",
			}
		}
	}
	return members, nil
}
