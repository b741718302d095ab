package sdk

import "testing"

// TestTriggerType has a stock worker provide a trigger type: it hears of each
// binding, and of its end.
func TestTriggerType(t *testing.T) {
	repeats(t, "02-node-sdk-connect", "03-python-sdk-connect")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "types")
		w.do("type", args{"id": "my-type", "description": "custom trigger type"})
		w.function("types::on", "echo")
		w.do("trigger", args{"key": "k", "type": "my-type", "function_id": "types::on", "config": args{"a": 1}, "metadata": args{"b": 2}})
		bound := w.await("the binding", func(e Event) bool { return e.Event == "bind" })
		same(t, "config of the binding", bound.Config, `{"a":1}`)
		same(t, "metadata of the binding", bound.Metadata, `{"b":2}`)
		w.do("untrigger", args{"key": "k"})
		if e := w.await("the unbinding", func(e Event) bool { return e.Event == "unbind" }); e.ID != bound.ID {
			t.Errorf("unbound %s, want %s", e.ID, bound.ID)
		}
	})
}
