package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
)

// desk calls the queue functions as an operator's connection would.
type desk struct {
	t         *testing.T
	q         *embedded.Queue
	endpoints map[string]bus.Endpoint
	call      bus.Call
}

func newDesk(t *testing.T, opts ...queue.Option) *desk {
	t.Helper()
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true, Clock: clock.NewFake(time.UnixMilli(1_780_000_000_000)), IDs: clock.Sequence(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := embedded.OpenQueue(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, q: q, endpoints: queue.Endpoints(q, opts...), call: bus.Call{Connection: "c1", Principal: bus.Principal{ID: "op", Role: bus.RoleOperator}}}
}

func (d *desk) do(id, data string) (string, error) {
	c := d.call
	c.FunctionID, c.Data = id, json.RawMessage(data)
	out, err := d.endpoints[id].Handle(d.t.Context(), &c)
	return string(out), err
}

func (d *desk) must(id, data string) string {
	d.t.Helper()
	out, err := d.do(id, data)
	if err != nil {
		d.t.Fatalf("%s %s: %v", id, data, err)
	}
	return out
}

// bury makes a dead letter of the next message and gives its id.
func (d *desk) bury(name string) string {
	d.t.Helper()
	ds, err := d.q.Receive(d.t.Context(), name, 1)
	if err != nil {
		d.t.Fatal(err)
	}
	if dead, err := d.q.Fail(d.t.Context(), name, ds[0].Receipt, &bus.Error{Code: "boom", Message: "why"}); err != nil || !dead {
		d.t.Fatalf("dead %v, %v", dead, err)
	}
	letters, err := d.q.DeadLetters(d.t.Context(), name, 0, 100)
	if err != nil || len(letters) == 0 {
		d.t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	return letters[len(letters)-1].ID
}

func TestDefine(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	full := `{"queue":"mail","config":{"type":"fifo","max_retries":4,"backoff_ms":0,"concurrency":2,"message_group_field":"to","timeout_ms":9000,"poll_interval_ms":5,"max_priority":3,"priority_field":"p"}}`
	if got := d.must(queue.FunctionDefine, full); got != `{"queue":"mail","changed":true}` {
		t.Errorf("define: %s", got)
	}
	if got := d.must(queue.FunctionDefine, full); got != `{"queue":"mail","changed":false}` {
		t.Errorf("again: %s", got)
	}
	if got := d.must(queue.FunctionDefine, `{"topic":"plain"}`); got != `{"queue":"plain","changed":true}` {
		t.Errorf("define: %s", got)
	}
	if got := d.must(queue.FunctionTopicStats, `{"queue":"mail"}`); got != `{"depth":0,"consumer_count":2,"dlq_depth":0,"config":{"type":"fifo","max_retries":4,"backoff_ms":0,"concurrency":2,"message_group_field":"to","timeout_ms":9000}}` {
		t.Errorf("stats: %s", got)
	}
	if _, err := d.q.Define(t.Context(), queue.Config{Name: "hidden", Internal: true}); err != nil {
		t.Fatal(err)
	}
	for data, field := range map[string]string{
		`{}`: "missing field `queue`", `[]`: "invalid type", `{"queue":7}`: "`queue`", `{"queue":"a b"}`: "`queue`", `{"queue":"hidden"}`: "belongs to the bus",
		`{"queue":"q","config":{"type":"lifo"}}`:                                "`config.type`: expected standard or fifo",
		`{"queue":"q","config":{"max_retries":0}}`:                              "`config.max_retries`: expected 1 or more",
		`{"queue":"q","config":{"concurrency":0}}`:                              "`config.concurrency`",
		`{"queue":"q","config":{"backoff_ms":-1}}`:                              "`config.backoff_ms`",
		`{"queue":"q","config":{"timeout_ms":0}}`:                               "`config.timeout_ms`",
		`{"queue":"q","config":{"poll_interval_ms":0}}`:                         "`config.poll_interval_ms`",
		`{"queue":"q","config":{"type":"fifo"}}`:                                "`config.message_group_field`",
		`{"queue":"q","config":{"type":"standard","message_group_field":"to"}}`: "`config.message_group_field`",
		`{"queue":"q","config":{"max_retries":2000000000}}`:                     "`config.max_retries`",
	} {
		out, err := d.do(queue.FunctionDefine, data)
		if bus.Code(err) != "deserialization_error" || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %s, %v; want an error with %q", data, out, err, field)
		}
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	var asked []string
	d := newDesk(t, queue.WithAuthorize(func(_ context.Context, _ *bus.Call, ns, id string) error {
		asked = append(asked, ns+" "+id)
		if id == "no::go" {
			return &bus.Error{Code: "FORBIDDEN", Message: "no"}
		}
		return nil
	}))
	if got := d.must(queue.FunctionEnqueue, `{"queue":"default","function_id":"a::b","data":{"n":1},"messageReceiptId":"r1","traceparent":null,"baggage":"k=v","namespace":"shop"}`); got != `{"messageReceiptId":"r1"}` {
		t.Errorf("enqueue: %s", got)
	}
	ds, err := d.q.Receive(t.Context(), "default", 1)
	if err != nil || ds[0].FunctionID != "a::b" || ds[0].Namespace != "shop" || ds[0].Baggage != "k=v" || string(ds[0].Data) != `{"n":1}` || ds[0].Principal.ID != "op" {
		t.Fatalf("delivery %+v, %v", ds, err)
	}
	if got := d.must(queue.FunctionEnqueue, `{"queue":"default","function_id":"a::b"}`); !strings.Contains(got, `{"messageReceiptId":"`) || strings.Contains(got, `""`) {
		t.Errorf("enqueue: %s", got)
	}
	for data, code := range map[string]string{
		`{"function_id":"a::b"}`: "deserialization_error", `{"queue":"default"}`: "deserialization_error", `{"queue":"none","function_id":"a::b"}`: "enqueue_error",
		`{"queue":"default","function_id":"a::b","namespace":" "}`: "INVALID_NAMESPACE", `{"queue":"default","function_id":"no::go"}`: "FORBIDDEN", `{"queue":1}`: "deserialization_error",
	} {
		if out, err := d.do(queue.FunctionEnqueue, data); bus.Code(err) != code {
			t.Errorf("%s: %s, %v; want %s", data, out, err, code)
		}
	}
	if len(asked) != 3 || asked[0] != "shop a::b" || asked[1] != "default a::b" {
		t.Errorf("asked %v", asked)
	}
}

func TestInternalQueuesAreNotThereForConnections(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.q.Define(t.Context(), queue.Config{Name: "hidden", Internal: true}); err != nil {
		t.Fatal(err)
	}
	for id, data := range map[string]string{
		queue.FunctionEnqueue: `{"queue":"hidden","function_id":"a::b"}`, queue.FunctionTopicStats: `{"topic":"hidden"}`,
		queue.FunctionDLQMessages: `{"topic":"hidden"}`, queue.FunctionRedrive: `{"queue":"hidden"}`, queue.FunctionDiscardMessage: `{"queue":"hidden","message_id":"x"}`,
	} {
		if out, err := d.do(id, data); err == nil {
			t.Errorf("%s answered %s", id, out)
		}
	}
	if got := d.must(queue.FunctionListTopics, `{}`); strings.Contains(got, "hidden") || !strings.Contains(got, `{"name":"default","broker_type":"function_queue","subscriber_count":10}`) {
		t.Errorf("topics: %s", got)
	}
	d.call.Connection = ""
	if got := d.must(queue.FunctionListTopics, `{}`); !strings.Contains(got, "hidden") {
		t.Errorf("topics for a built-in worker: %s", got)
	}
}

func TestDeadLettersAreShownRedrivenAndDiscarded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.q.Define(t.Context(), queue.Config{Name: "q", MaxReceives: 1}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 3 {
		d.must(queue.FunctionEnqueue, fmt.Sprintf(`{"queue":"q","function_id":"a::b","data":{"n":%d}}`, i))
		ids = append(ids, d.bury("q"))
	}
	if got := d.must(queue.FunctionDLQTopics, `{}`); got != `[{"topic":"q","broker_type":"function_queue","message_count":3}]` {
		t.Errorf("topics: %s", got)
	}
	var rows []struct {
		ID       string          `json:"id"`
		Payload  json.RawMessage `json:"payload"`
		Error    string          `json:"error"`
		FailedAt int64           `json:"failed_at"`
		Retries  int             `json:"retries"`
		Size     int             `json:"size_bytes"`
	}
	if err := json.Unmarshal([]byte(d.must(queue.FunctionDLQMessages, `{"topic":"q","offset":1,"limit":1}`)), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].ID != ids[1] || string(rows[0].Payload) != `{"n":1}` || rows[0].Error != "boom: why" || rows[0].FailedAt != 1_780_000_000 || rows[0].Size != 7 {
		t.Errorf("rows %+v", rows)
	}
	if got := d.must(queue.FunctionDiscardMessage, fmt.Sprintf(`{"queue":"q","message_id":%q}`, ids[0])); got != fmt.Sprintf(`{"queue":"q","message_id":%q,"redriven":1}`, ids[0]) {
		t.Errorf("discard: %s", got)
	}
	if got := d.must(queue.FunctionDiscardMessage, fmt.Sprintf(`{"topic":"q","message_id":%q}`, ids[0])); !strings.Contains(got, `"redriven":0`) {
		t.Errorf("discard again: %s", got)
	}
	if got := d.must(queue.FunctionRedriveMessage, fmt.Sprintf(`{"queue":"q","message_id":%q}`, ids[1])); !strings.Contains(got, `"redriven":1`) {
		t.Errorf("redrive: %s", got)
	}
	if got := d.must(queue.FunctionRedrive, `{"topic":"q"}`); got != `{"queue":"q","redriven":1}` {
		t.Errorf("redrive: %s", got)
	}
	if got := d.must(queue.FunctionTopicStats, `{"topic":"q"}`); !strings.Contains(got, `"depth":2`) || !strings.Contains(got, `"dlq_depth":0`) {
		t.Errorf("stats: %s", got)
	}
	for _, tt := range [][3]string{
		{queue.FunctionRedrive, `{}`, "queue_not_set"}, {queue.FunctionRedrive, `{"queue":"none"}`, "redrive_failed"},
		{queue.FunctionRedriveMessage, `{}`, "queue_not_set"}, {queue.FunctionRedriveMessage, `{"queue":"q"}`, "message_id_not_set"},
		{queue.FunctionRedriveMessage, `{"queue":"none","message_id":"x"}`, "redrive_message_failed"}, {queue.FunctionDiscardMessage, `{"queue":"none","message_id":"x"}`, "discard_message_failed"},
		{queue.FunctionTopicStats, `{}`, "topic_required"}, {queue.FunctionDLQMessages, `{"topic":"q","offset":-1}`, "deserialization_error"}, {queue.FunctionDLQMessages, `{"topic":"q","limit":-1}`, "deserialization_error"},
		{queue.FunctionDLQMessages, `{"topic":7}`, "deserialization_error"},
	} {
		if out, err := d.do(tt[0], tt[1]); bus.Code(err) != tt[2] {
			t.Errorf("%s %s: %s, %v; want %s", tt[0], tt[1], out, err, tt[2])
		}
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&queue.UnknownError{Queue: "q"}, &queue.InvalidError{Queue: "q", Field: "f", Allowed: "a"}, &queue.TimeoutError{FunctionID: "a::b"},
		&queue.PanicError{FunctionID: "a::b", Value: "v"}, &queue.DrainError{},
	} {
		var coded bus.Coded
		if err.Error() == "" || (errors.As(err, &coded) && coded.ErrorCode() == "") {
			t.Errorf("%T has no text or code", err)
		}
	}
}
