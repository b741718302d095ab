package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
)

// functions is the endpoints over a queue of the embedded ring.
type functions struct {
	*testing.T
	q         *embedded.Queue
	clock     *clock.Fake
	endpoints map[string]bus.Endpoint
	// connection makes the calls those of a socket.
	connection string
}

func newFunctions(t *testing.T, opts ...queue.Option) *functions {
	t.Helper()
	ctx := context.Background()
	c := clock.NewFake(time.Unix(1_760_000_000, 0))
	db, err := embedded.Open(ctx, embedded.Options{Dir: t.TempDir(), Clock: c, IDs: clock.Sequence(1), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := embedded.OpenQueue(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	return &functions{T: t, q: q, clock: c, endpoints: queue.Endpoints(q, opts...)}
}

func (f *functions) call(id, data string) (string, error) {
	f.Helper()
	call := &bus.Call{
		FunctionID: id, Data: json.RawMessage(data), Connection: f.connection,
		Principal: bus.Principal{ID: "ann", Role: bus.RoleOperator},
	}
	res, err := f.endpoints[id].Handle(context.Background(), call)
	return string(res), err
}

func (f *functions) want(id, data, want string) {
	f.Helper()
	got, err := f.call(id, data)
	if err != nil {
		f.Fatalf("%s %s: %v", id, data, err)
	}
	if got != want {
		f.Errorf("%s %s:\n got %s\nwant %s", id, data, got, want)
	}
}

// one receives a message.
func (f *functions) one(name string) queue.Delivery {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ds, err := f.q.Receive(ctx, name, 1)
	if err != nil {
		f.Fatal(err)
	}
	return ds[0]
}

// kill makes the next message of a queue a dead letter.
func (f *functions) kill(name string) {
	f.Helper()
	if dead, err := f.q.Fail(context.Background(), name, f.one(name).Receipt, &bus.Error{Code: "boom", Message: "it broke"}); !dead || err != nil {
		f.Fatalf("Fail: %v, %v", dead, err)
	}
}

func TestEndpointEnqueue(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	f.want("engine::queue::enqueue",
		`{"queue":"default","function_id":"mail::send","data":{"b":1e3, "a":12345678901234567890},"messageReceiptId":"r-1","traceparent":"00-1-2-01","baggage":"k=v","namespace":"shop"}`,
		`{"messageReceiptId":"r-1"}`)
	want := queue.Message{
		Queue: "default", FunctionID: "mail::send", Namespace: "shop", Data: json.RawMessage(`{"b":1e3, "a":12345678901234567890}`),
		Principal: bus.Principal{ID: "ann", Role: bus.RoleOperator}, Traceparent: "00-1-2-01", Baggage: "k=v", ReceiptID: "r-1",
	}
	if diff := cmp.Diff(want, f.one("default").Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	// What the bus sends for a caller without trace, and without an id.
	got, err := f.call("engine::queue::enqueue", `{"queue":"default","function_id":"f","traceparent":null,"baggage":null,"data":null}`)
	if err != nil {
		t.Fatal(err)
	}
	d := f.one("default")
	if want := fmt.Sprintf(`{"messageReceiptId":%q}`, d.ID); got != want || d.Namespace != "default" || string(d.Data) != "null" {
		t.Errorf("answer %s, want %s; message %+v", got, want, d.Message)
	}
}

func TestEndpointAuthorize(t *testing.T) {
	t.Parallel()
	f := newFunctions(t, queue.WithAuthorize(func(call *bus.Call, namespace, function string) error {
		if namespace+" "+function == "default open::f" && call.Principal.ID == "ann" {
			return nil
		}
		return &bus.Error{Code: "FORBIDDEN", Message: function}
	}))
	if _, err := f.call("engine::queue::enqueue", `{"queue":"default","function_id":"open::f"}`); err != nil {
		t.Errorf("an allowed function: %v", err)
	}
	if _, err := f.call("engine::queue::enqueue", `{"queue":"default","function_id":"shut::f"}`); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("a forbidden function: %v, want FORBIDDEN", err)
	}
	if s, err := f.q.Stats(context.Background(), "default"); err != nil || s.Depth != 1 {
		t.Errorf("stats %+v, %v, want depth 1", s, err)
	}
}

func TestEndpointDefine(t *testing.T) {
	t.Parallel()
	var defined []string
	f := newFunctions(t, queue.WithDefined(func(name string) { defined = append(defined, name) }))
	f.want("queue::define", `{"queue":"mail"}`, `{"queue":"mail","changed":true}`)
	f.want("queue::define", `{"topic":"mail","config":{}}`, `{"queue":"mail","changed":false}`)
	got, _ := f.q.Config("mail")
	if want := (queue.Config{Name: "mail"}).WithDefaults(); got != want {
		t.Errorf("config %+v, want the defaults %+v", got, want)
	}
	all := `{"type":"fifo","max_retries":5,"backoff_ms":250,"concurrency":2,"message_group_field":"to","timeout_ms":60000,"poll_interval_ms":100,"max_priority":9,"priority_field":"p"}`
	f.want("queue::define", `{"queue":"all","config":`+all+`}`, `{"queue":"all","changed":true}`)
	got, _ = f.q.Config("all")
	want := queue.Config{
		Name: "all", Type: queue.FIFO, MaxReceives: 5, Backoff: 250 * time.Millisecond, Concurrency: 2, GroupField: "to",
		Visibility: queue.DefaultVisibility, Timeout: time.Minute,
	}
	if got != want {
		t.Errorf("config %+v, want %+v", got, want)
	}
	f.want("engine::queue::topic_stats", `{"topic":"all"}`,
		`{"depth":0,"consumer_count":2,"dlq_depth":0,"config":{"type":"fifo","max_retries":5,"backoff_ms":250,"concurrency":2,"message_group_field":"to","timeout_ms":60000}}`)
	f.want("queue::define", `{"queue":"quick","config":{"backoff_ms":0,"timeout_ms":9223372036854775807}}`, `{"queue":"quick","changed":true}`)
	if got, _ = f.q.Config("quick"); got.BackoffAfter(1) != 0 || got.Timeout < 100*365*24*time.Hour {
		t.Errorf("config %+v, want no backoff and a very long timeout", got)
	}
	if diff := cmp.Diff([]string{"mail", "all", "quick"}, defined); diff != "" {
		t.Errorf("told of queues (-want +got):\n%s", diff)
	}
}

func TestEndpointErrors(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	f.want("queue::define", `{"queue":"grouped","config":{"type":"fifo","message_group_field":"g"}}`, `{"queue":"grouped","changed":true}`)
	f.want("engine::queue::enqueue", `{"queue":"grouped","function_id":"f","data":{"g":1},"messageReceiptId":"r"}`, `{"messageReceiptId":"r"}`)
	for _, test := range []struct {
		id, data, code, message string
	}{
		{"engine::queue::enqueue", `null`, "deserialization_error", "Failed to deserialize input for engine::queue::enqueue: missing field `queue`"},
		{"engine::queue::enqueue", `{"queue":"default"}`, "deserialization_error", "Failed to deserialize input for engine::queue::enqueue: missing field `function_id`"},
		{"engine::queue::enqueue", `{"queue":7}`, "deserialization_error", "Failed to deserialize input for engine::queue::enqueue: invalid type for `queue`: number, expected a string"},
		{"engine::queue::enqueue", `[]`, "deserialization_error", "Failed to deserialize input for engine::queue::enqueue: invalid type: array, expected an object"},
		{"engine::queue::enqueue", `{"queue":"default","function_id":"f","namespace":" "}`, "INVALID_NAMESPACE", "`namespace` is empty: it was named and left blank. Give it a name, or omit it to use `default`."},
		{"engine::queue::enqueue", `{"queue":"no","function_id":"f"}`, "enqueue_error", `queue: unknown queue "no"`},
		{"engine::queue::enqueue", `{"queue":"grouped","function_id":"f","data":{}}`, "enqueue_error", `queue "grouped": invalid data.g: must be present and not null: it names the group`},

		{"queue::define", `{}`, "deserialization_error", "Failed to deserialize input for queue::define: missing field `queue`"},
		{"queue::define", `{"queue":"a b"}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `queue`: expected 1 to 80 letters, digits, '-', '_', '.' or ':'"},
		{"queue::define", `{"queue":"dead-letters"}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `queue`: \"dead-letters\" belongs to the bus, expected another name"},
		{"queue::define", `{"queue":"q","config":7}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid type for `config`: number, expected an object"},
		{"queue::define", `{"queue":"q","config":{"concurrency":"x"}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid type for `config.concurrency`: string, expected an integer"},
		{"queue::define", `{"queue":"q","config":{"type":"lifo"}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.type`: expected standard or fifo"},
		{"queue::define", `{"queue":"q","config":{"max_retries":0}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.max_retries`: expected 1 or more"},
		{"queue::define", `{"queue":"q","config":{"max_retries":5000}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.max_retries`: expected 1 to 1000"},
		{"queue::define", `{"queue":"q","config":{"concurrency":-1}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.concurrency`: expected 1 or more"},
		{"queue::define", `{"queue":"q","config":{"backoff_ms":-1}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.backoff_ms`: expected 0 or more"},
		{"queue::define", `{"queue":"q","config":{"timeout_ms":0}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.timeout_ms`: expected 1 or more"},
		{"queue::define", `{"queue":"q","config":{"poll_interval_ms":0}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.poll_interval_ms`: expected 1 or more"},
		{"queue::define", `{"queue":"q","config":{"type":"fifo"}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.message_group_field`: expected the name of a member of the data: the queue is fifo"},
		{"queue::define", `{"queue":"q","config":{"message_group_field":"g"}}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.message_group_field`: expected left out unless type is fifo"},
		{"queue::define", `{"queue":"grouped"}`, "deserialization_error", "Failed to deserialize input for queue::define: invalid value for `config.type`: expected fifo as long as it holds messages"},

		{"iii::queue::redrive", `{}`, "queue_not_set", "missing required field: queue"},
		{"iii::queue::redrive", `{"queue":"no"}`, "redrive_failed", `queue: unknown queue "no"`},
		{"iii::queue::redrive_message", `{"message_id":"m"}`, "queue_not_set", "missing required field: queue"},
		{"iii::queue::redrive_message", `{"queue":"default"}`, "message_id_not_set", "missing required field: message_id"},
		{"iii::queue::redrive_message", `{"queue":"no","message_id":"m"}`, "redrive_message_failed", `queue: unknown queue "no"`},
		{"iii::queue::discard_message", `{"queue":"default"}`, "message_id_not_set", "missing required field: message_id"},
		{"iii::queue::discard_message", `{"queue":"no","message_id":"m"}`, "discard_message_failed", `queue: unknown queue "no"`},
		{"engine::queue::topic_stats", `{}`, "topic_required", "missing required field: topic"},
		{"engine::queue::topic_stats", `{"topic":"no"}`, "NOT_FOUND", `queue: unknown queue "no"`},
		{"engine::queue::dlq_messages", `{}`, "topic_required", "missing required field: topic"},
		{"engine::queue::dlq_messages", `{"topic":"no"}`, "NOT_FOUND", `queue: unknown queue "no"`},
		{"engine::queue::dlq_messages", `{"topic":"default","offset":-1}`, "deserialization_error", "Failed to deserialize input for engine::queue::dlq_messages: invalid value for `offset`: expected 0 or more"},
		{"engine::queue::dlq_messages", `{"topic":"default","limit":0}`, "deserialization_error", "Failed to deserialize input for engine::queue::dlq_messages: invalid value for `limit`: expected 1 to 1000"},
	} {
		got, err := f.call(test.id, test.data)
		e := bus.AsError(err)
		if e == nil || e.Code != test.code || e.Message != test.message {
			t.Errorf("%s %s:\n got %s, %v\nwant %s: %s", test.id, test.data, got, err, test.code, test.message)
		}
	}
}

func TestEndpointDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	f.want("engine::queue::dlq_topics", `{}`, `[]`)
	f.want("engine::queue::dlq_messages", `{"topic":"default"}`, `[]`)
	f.want("queue::define", `{"queue":"mail","config":{"max_retries":1}}`, `{"queue":"mail","changed":true}`)
	for i := range 3 {
		if _, err := f.call("engine::queue::enqueue", fmt.Sprintf(`{"queue":"mail","function_id":"f","data":{"n":%d}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	f.want("engine::queue::topic_stats", `{"queue":"mail"}`,
		`{"depth":3,"consumer_count":10,"dlq_depth":0,"config":{"type":"standard","max_retries":1,"backoff_ms":1000,"concurrency":10,"timeout_ms":1800000}}`)
	for range 3 {
		f.kill("mail")
	}
	f.want("engine::queue::dlq_topics", `{}`, `[{"topic":"mail","broker_type":"function_queue","message_count":3}]`)
	dead, err := f.q.DeadLetters(context.Background(), "mail", 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%q,"function_id":"f","payload":{"n":%d},"error":"boom: it broke","failed_at":1760000000,"retries":1,"size_bytes":7}`, dead[i].ID, i)
	}
	f.want("engine::queue::dlq_messages", `{"topic":"mail","limit":2}`, "["+row(0)+","+row(1)+"]")
	f.want("engine::queue::dlq_messages", `{"queue":"mail","offset":2}`, "["+row(2)+"]")
	id := func(i int) string { return fmt.Sprintf(`"queue":"mail","message_id":%q`, dead[i].ID) }
	f.want("iii::queue::discard_message", "{"+id(0)+"}", "{"+id(0)+`,"redriven":1}`)
	f.want("iii::queue::discard_message", "{"+id(0)+"}", "{"+id(0)+`,"redriven":0}`)
	f.want("iii::queue::redrive_message", "{"+id(1)+"}", "{"+id(1)+`,"redriven":1}`)
	f.want("iii::queue::redrive", `{"topic":"mail"}`, `{"queue":"mail","redriven":1}`)
	f.want("engine::queue::dlq_topics", ``, `[]`)
}

// TestEndpointInternal checks that sockets do not see internal queues.
func TestEndpointInternal(t *testing.T) {
	t.Parallel()
	f := newFunctions(t)
	ctx := context.Background()
	for _, c := range []queue.Config{{Name: "open", Concurrency: 3}, {Name: "turn-step", Internal: true, MaxReceives: 1}, {Name: "paused", Concurrency: queue.Paused}} {
		if _, err := f.q.Define(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.call("engine::queue::enqueue", `{"queue":"turn-step","function_id":"f"}`); err != nil {
		t.Errorf("a built-in worker may use an internal queue: %v", err)
	}
	f.kill("turn-step")
	row := func(name string, n int) string {
		return fmt.Sprintf(`{"name":%q,"broker_type":"function_queue","subscriber_count":%d}`, name, n)
	}
	f.want("engine::queue::list_topics", `{}`, "["+row("dead-letters", 10)+","+row("default", 10)+","+row("open", 3)+","+row("paused", 0)+","+row("turn-step", 10)+"]")
	f.connection = "socket"
	f.want("engine::queue::list_topics", `{}`, "["+row("default", 10)+","+row("open", 3)+","+row("paused", 0)+"]")
	f.want("engine::queue::dlq_topics", `{}`, `[]`)
	for id, data := range map[string]string{
		"engine::queue::enqueue":      `{"queue":"turn-step","function_id":"f"}`,
		"queue::define":               `{"queue":"turn-step"}`,
		"iii::queue::redrive":         `{"queue":"turn-step"}`,
		"iii::queue::redrive_message": `{"queue":"turn-step","message_id":"m"}`,
		"iii::queue::discard_message": `{"queue":"turn-step","message_id":"m"}`,
		"engine::queue::topic_stats":  `{"topic":"turn-step"}`,
		"engine::queue::dlq_messages": `{"topic":"turn-step"}`,
	} {
		if got, err := f.call(id, data); err == nil {
			t.Errorf("%s of an internal queue from a socket: %s, want an error", id, got)
		}
	}
}

// TestEndpointStorage checks that failures of the storage come through.
func TestEndpointStorage(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk")
	f := &functions{T: t, endpoints: queue.Endpoints(brokenQueue{err: broken})}
	for id, data := range map[string]string{
		"queue::define":               `{"queue":"default"}`,
		"engine::queue::topic_stats":  `{"topic":"default"}`,
		"engine::queue::dlq_topics":   `{}`,
		"engine::queue::dlq_messages": `{"topic":"default"}`,
	} {
		if _, err := f.call(id, data); !errors.Is(err, broken) {
			t.Errorf("%s: %v, want the error of the storage", id, err)
		}
	}
}

// brokenQueue has one queue and fails at everything else.
type brokenQueue struct {
	queue.Queue
	err error
}

func (brokenQueue) Config(name string) (queue.Config, bool) { return queue.Config{Name: name}, true }
func (brokenQueue) Names() []string                         { return []string{"default"} }

func (b brokenQueue) Define(context.Context, queue.Config) (bool, error) { return false, b.err }

func (b brokenQueue) Stats(context.Context, string) (queue.Stats, error) {
	return queue.Stats{}, b.err
}

func (b brokenQueue) DeadLetters(context.Context, string, int, int) ([]queue.DeadLetter, error) {
	return nil, b.err
}

func TestEndpointSchemas(t *testing.T) {
	t.Parallel()
	for id, e := range newFunctions(t).endpoints {
		for what, schema := range map[string]json.RawMessage{"request": e.Request, "response": e.Response} {
			var s struct{ Type any }
			if err := json.Unmarshal(schema, &s); err != nil || s.Type == nil {
				t.Errorf("%s: %s schema %s: %v", id, what, schema, err)
			}
		}
	}
}
