package sdk

import (
	"encoding/json"
	"testing"
)

// TestDurableSubscriber binds functions of a stock worker to a topic: each gets a copy of what is published, without an
// envelope and without metadata; one that fails gets it again, and at last it is a dead letter, which is redriven.
func TestDurableSubscriber(t *testing.T) {
	repeats(t, "11-trigger-fire")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "topics")
		w.function("topic::on", "tell")
		w.function("topic::held", "hold")
		w.do("trigger", args{"key": "on", "type": "durable:subscriber", "function_id": "topic::on", "config": args{"topic": "fire"}, "metadata": args{"why": "audit"}})
		w.do("trigger", args{"key": "held", "type": "durable:subscriber", "function_id": "topic::held",
			"config": args{"topic": "fire", "queue_config": args{"type": "fifo", "maxRetries": 1, "backoffDelayMs": 1}}})
		listed(t, s, "topic::on", 1)
		listed(t, s, "topic::held", 1)
		same(t, "publish", w.call("iii::durable::publish", args{"topic": "fire", "data": args{"d": 1}}), `null`)
		e := w.called("topic::on")
		same(t, "data", e.Data, `{"d":1}`)
		var meta map[string]any
		if err := json.Unmarshal(e.Metadata, &meta); err != nil || meta["why"] != nil {
			t.Errorf("metadata %s, %v", e.Metadata, err)
		}
		for range 2 {
			e := w.called("topic::held")
			same(t, "data", e.Data, `{"d":1}`)
			w.do("release", args{"call": e.Call, "error": "kaput"})
		}
		c, ctx := dial(t, s), within(t)
		var dead []struct {
			ID, Error string
			Payload   json.RawMessage
			Retries   int
		}
		for len(dead) == 0 && ctx.Err() == nil {
			invoke(t, c, "engine::queue::dlq_messages", `{"topic":"fire"}`, &dead)
		}
		if len(dead) != 1 || dead[0].Error != "invocation_failed: kaput" || dead[0].Retries != 2 {
			t.Fatalf("dead letters: %+v", dead)
		}
		same(t, "dlq_topics", w.call("engine::queue::dlq_topics", args{}), `[{"topic":"fire","broker_type":"builtin","message_count":1}]`)
		var redriven struct{ Redriven int }
		invoke(t, c, "iii::queue::redrive", `{"queue":"fire"}`, &redriven)
		if redriven.Redriven != 1 {
			t.Errorf("redriven: %+v", redriven)
		}
		e = w.called("topic::held")
		w.do("release", args{"call": e.Call, "result": 1})
		w.do("untrigger", args{"key": "held"})
		listed(t, s, "topic::held", 0)
		w.fails("call", args{"function_id": "iii::durable::publish", "payload": args{"topic": "", "data": 1}}, "topic_not_set", "Topic is not set")
		w.fails("call", args{"function_id": "iii::durable::publish", "payload": args{"data": 1}}, "deserialization_error", "Failed to deserialize input for iii::durable::publish: missing field `topic`")
		same(t, "publish to nobody", w.call("iii::durable::publish", args{"topic": "nobody", "data": 1}), `null`)
	})
}

// TestSubscribe binds a function of a stock worker twice to a topic: both bindings fire.
func TestSubscribe(t *testing.T) {
	repeats(t, "11-trigger-fire")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "topics")
		w.function("topic::on", "tell")
		w.do("trigger", args{"key": "a", "type": "subscribe", "function_id": "topic::on", "config": args{"topic": "fire"}, "metadata": args{"why": "audit"}})
		w.do("trigger", args{"key": "b", "type": "subscribe", "function_id": "topic::on", "config": args{"topic": "fire"}})
		listed(t, s, "topic::on", 2)
		same(t, "publish", w.call("publish", args{"topic": "fire", "data": args{"p": 1}}), `null`)
		for range 2 {
			e := w.called("topic::on")
			same(t, "data", e.Data, `{"p":1}`)
			var meta map[string]any
			if err := json.Unmarshal(e.Metadata, &meta); err != nil || meta["why"] != nil {
				t.Errorf("metadata %s, %v", e.Metadata, err)
			}
		}
		same(t, "publish to nobody", w.call("publish", args{"topic": "nobody", "data": args{}}), `null`)
		w.fails("call", args{"function_id": "publish", "payload": args{"topic": "", "data": 1}}, "topic_not_set", "Topic is not set")
		w.fails("call", args{"function_id": "publish", "payload": args{}}, "deserialization_error", "Failed to deserialize input for publish: missing field `topic`")
	})
}
