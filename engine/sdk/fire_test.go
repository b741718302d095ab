package sdk

import (
	"encoding/json"
	"testing"
)

// TestStateTrigger binds a stock worker's function to changes of the state.
func TestStateTrigger(t *testing.T) {
	repeats(t, "03-python-sdk-connect", "11-trigger-fire")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "fired")
		w.function("fire::on", "tell")
		w.do("trigger", args{"key": "k", "type": "state", "function_id": "fire::on", "config": args{"scope": "fire"}, "metadata": args{"why": "audit"}})
		listed(t, s, "fire::on", 1)
		for i, step := range []struct{ id, data, want string }{
			{"state::set", `{"scope":"fire","key":"k","value":{"s":1}}`, `{"type":"state","event_type":"state:created","scope":"fire","key":"k","old_value":null,"new_value":{"s":1}}`},
			{"state::set", `{"scope":"fire","key":"k","value":2}`, `{"type":"state","event_type":"state:updated","scope":"fire","key":"k","old_value":{"s":1},"new_value":2}`},
			{"state::delete", `{"scope":"fire","key":"k"}`, `{"type":"state","event_type":"state:deleted","scope":"fire","key":"k","old_value":2,"new_value":null}`},
		} {
			w.do("call", args{"function_id": step.id, "payload": json.RawMessage(step.data)})
			e := w.called("fire::on")
			same(t, step.id, e.Data, step.want)
			var meta struct {
				Why string `json:"why"`
			}
			if err := json.Unmarshal(e.Metadata, &meta); err != nil || meta.Why != "audit" {
				t.Errorf("event %d: metadata %s, %v", i, e.Metadata, err)
			}
		}
		w.do("untrigger", args{"key": "k"})
		listed(t, s, "fire::on", 0)
	})
}

// listed waits until a function has so many bindings.
func listed(t *testing.T, s *Server, functionID string, want int) {
	t.Helper()
	c, ctx := dial(t, s), within(t)
	for {
		var list struct {
			Triggers []json.RawMessage `json:"registered_triggers"`
		}
		invoke(t, c, "engine::registered-triggers::list", `{"function_id":`+quote(functionID)+`}`, &list)
		if len(list.Triggers) == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has %d bindings, want %d", functionID, len(list.Triggers), want)
		}
	}
}
