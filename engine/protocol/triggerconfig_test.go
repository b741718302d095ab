package protocol

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestTriggerFunctions(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][]string{
		`{}`: nil, `null`: nil, ``: nil, `[]`: nil,
		`{"condition_function_id":"a"}`:                                     {"a"},
		`{"condition_function_id":null,"middleware_function_ids":null}`:     nil,
		`{"middleware_function_ids":["b","c"],"condition_function_id":"a"}`: {"a", "b", "c"},
		`{"condition_function_id":1,"middleware_function_ids":"b"}`:         nil,
		`{"middleware_function_ids":["b",1]}`:                               nil,
		`{"condition_function_id":"a","\u0063ondition_function_id":"b"}`:    {"b"},
	} {
		if got := TriggerFunctions(json.RawMessage(config)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", config, got, want)
		}
	}
}
