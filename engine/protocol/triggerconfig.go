package protocol

import "encoding/json"

// TriggerFunctions are the functions that the config of a trigger names beside its own: its condition and its
// middleware, whatever the type. What is of another JSON type names none.
func TriggerFunctions(config json.RawMessage) []string {
	var ids []string
	if value, ok := Member(config, "condition_function_id"); ok {
		var id string
		if json.Unmarshal(value, &id) == nil && id != "" {
			ids = append(ids, id)
		}
	}
	if value, ok := Member(config, "middleware_function_ids"); ok {
		var list []string
		if json.Unmarshal(value, &list) == nil {
			ids = append(ids, list...)
		}
	}
	return ids
}
