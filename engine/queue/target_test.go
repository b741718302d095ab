package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
)

// subscribe makes the queue of a subscription and sends it messages, all of which die if dead.
func (f *functions) subscribe(topic, function string, messages int, dead bool) string {
	f.Helper()
	s := queue.Subscription{Topic: topic, FunctionID: function, Namespace: "default"}
	name := s.QueueName()
	ctx := context.Background()
	if _, err := f.q.Define(ctx, queue.Config{Name: name, Subscription: s, MaxReceives: 1, Internal: true}); err != nil {
		f.Fatal(err)
	}
	for i := range messages {
		m := queue.Message{Queue: name, FunctionID: function, Namespace: "default", Data: json.RawMessage(fmt.Sprint(i))}
		if _, err := f.q.Submit(ctx, m).Wait(ctx); err != nil {
			f.Fatal(err)
		}
		if dead {
			f.kill(name)
		}
	}
	return name
}

// Topics are shown by their name, whatever queues they have.
func TestTopicsByName(t *testing.T) {
	t.Parallel()
	bound := map[string]bool{}
	f := newFunctions(t, queue.WithBound(func(name string) bool { return bound[name] }))
	f.connection = "c1"
	bound[f.subscribe("news", "a::on", 2, true)] = true
	f.subscribe("news", "b::on", 1, true)
	bound[f.subscribe("a topic/with any text", "a::on", 3, false)] = true
	f.want(queue.FunctionListTopics, `{}`, `[{"name":"default","broker_type":"function_queue","subscriber_count":10},`+
		`{"name":"a topic/with any text","broker_type":"builtin","subscriber_count":1},{"name":"news","broker_type":"builtin","subscriber_count":1}]`)
	f.want(queue.FunctionTopicStats, `{"topic":"a topic/with any text"}`,
		`{"depth":3,"consumer_count":1,"dlq_depth":0,"config":{"type":"standard","max_retries":1,"backoff_ms":1000,"concurrency":10,"timeout_ms":1800000}}`)
	f.want(queue.FunctionTopicStats, `{"queue":"news"}`,
		`{"depth":0,"consumer_count":1,"dlq_depth":3,"config":{"type":"standard","max_retries":1,"backoff_ms":1000,"concurrency":10,"timeout_ms":1800000}}`)
	f.want(queue.FunctionDLQTopics, `{}`, `[{"topic":"news","broker_type":"builtin","message_count":3}]`)
}

// Dead letters of a topic come subscription by subscription; pages join up.
func TestDeadLettersByTopic(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	f.connection = "c1"
	f.subscribe("news", "a::on", 2, true)
	f.subscribe("news", "b::on", 3, true)
	page := func(data string) (rows []struct {
		ID, Function string
		FunctionID   string          `json:"function_id"`
		Payload      json.RawMessage `json:"payload"`
		Error        string
	}) {
		t.Helper()
		out, err := f.call(queue.FunctionDLQMessages, data)
		if err != nil || json.Unmarshal([]byte(out), &rows) != nil {
			t.Fatalf("%s: %s, %v", data, out, err)
		}
		return rows
	}
	all := page(`{"topic":"news"}`)
	var got []string
	for _, r := range all {
		got = append(got, r.FunctionID+" "+string(r.Payload)+" "+r.Error)
	}
	if want := "a::on 0 boom: it broke|a::on 1 boom: it broke|b::on 0 boom: it broke|b::on 1 boom: it broke|b::on 2 boom: it broke"; strings.Join(got, "|") != want {
		t.Fatalf("got %s", strings.Join(got, "|"))
	}
	for offset := range 7 {
		for limit := 1; limit < 7; limit++ {
			rows := page(fmt.Sprintf(`{"topic":"news","offset":%d,"limit":%d}`, offset, limit))
			want := all[min(offset, len(all)):min(offset+limit, len(all))]
			if len(rows) != len(want) || len(rows) > 0 && rows[0].ID != want[0].ID {
				t.Errorf("offset %d, limit %d: got %d rows, want %d", offset, limit, len(rows), len(want))
			}
		}
	}
	if rows := page(`{"topic":"news::b::on@default"}`); len(rows) != 3 || rows[0].ID != all[2].ID {
		t.Errorf("one subscription: got %+v", rows)
	}

	// One message, wherever it is.
	last := all[4].ID
	f.want(queue.FunctionRedriveMessage, `{"topic":"news","message_id":"`+last+`"}`, `{"queue":"news","message_id":"`+last+`","redriven":1}`)
	f.want(queue.FunctionRedriveMessage, `{"queue":"news","message_id":"`+last+`"}`, `{"queue":"news","message_id":"`+last+`","redriven":0}`)
	f.want(queue.FunctionDiscardMessage, `{"queue":"news","message_id":"`+all[0].ID+`"}`, `{"queue":"news","message_id":"`+all[0].ID+`","redriven":1}`)
	f.want(queue.FunctionRedrive, `{"queue":"news"}`, `{"queue":"news","redriven":3}`)
	f.want(queue.FunctionRedrive, `{"topic":"news"}`, `{"queue":"news","redriven":0}`)
	f.want(queue.FunctionDLQTopics, `{}`, `[]`)
}

// Nobody reaches the queue of a subscription as a queue.
func TestQueuesOfTopicsAreNoQueues(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	name := f.subscribe("news", "a::on", 1, false)
	for _, connection := range []string{"", "c1"} {
		f.connection = connection
		for _, test := range []struct{ id, data, code string }{
			{queue.FunctionEnqueue, `{"queue":"` + name + `","function_id":"x::y","data":1}`, "enqueue_error"},
			{queue.FunctionEnqueue, `{"queue":"news","function_id":"x::y","data":1}`, "enqueue_error"},
			{queue.FunctionDefine, `{"queue":"` + name + `","config":{}}`, "deserialization_error"},
			{queue.FunctionDefine, `{"queue":"@mine","config":{}}`, "deserialization_error"},
			{queue.FunctionTopicStats, `{"topic":"` + name + `"}`, "NOT_FOUND"},
			{queue.FunctionDLQMessages, `{"topic":"` + name + `"}`, "NOT_FOUND"},
			{queue.FunctionRedrive, `{"queue":"` + name + `"}`, "redrive_failed"},
			{queue.FunctionDiscardMessage, `{"queue":"` + name + `","message_id":"x"}`, "discard_message_failed"},
		} {
			if out, err := f.call(test.id, test.data); bus.Code(err) != test.code {
				t.Errorf("%s %s: got %s, %v", test.id, test.data, out, err)
			}
		}
	}
	// A queue goes before a topic of its name; the subscription is reached by its own.
	f.want(queue.FunctionDefine, `{"queue":"news","config":{"concurrency":7}}`, `{"queue":"news","changed":true}`)
	out, err := f.call(queue.FunctionTopicStats, `{"topic":"news"}`)
	if err != nil || !strings.Contains(out, `"depth":0,"consumer_count":7`) {
		t.Errorf("got %s, %v", out, err)
	}
	out, err = f.call(queue.FunctionTopicStats, `{"topic":"news::a::on@default"}`)
	if err != nil || !strings.Contains(out, `"depth":1,"consumer_count":1`) {
		t.Errorf("got %s, %v", out, err)
	}
}
