package topic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/topic"
	"github.com/iii-aws/harness/engine/trigger"
)

var errBoom = &bus.Error{Code: "boom", Message: "it broke"}

// Every subscription gets a copy, which is the data alone, for the principal that published; replicas share one.
func TestEverySubscriptionGetsACopy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	r.bind(r.durable, "2", "b::on", `{"queue":"t"}`)
	r.bind(r.durable, "3", "a::on", `{"topic":"t"}`) // a replica
	r.bind(r.durable, "4", "a::on", `{"topic":"other"}`)
	r.publish("t", `{"n": 1e3}`)
	var got []string
	for range 2 {
		c := r.next()
		got = append(got, c.FunctionID)
		if string(c.Payload) != `{"n": 1e3}` || c.Firing.Metadata || c.IdempotencyKey == "" {
			t.Errorf("got %s", c.Payload)
		}
		if diff := cmp.Diff(publisher, c.Principal); diff != "" || !c.External {
			t.Errorf("for whom (-want +got):\n%s, external %v", diff, c.External)
		}
		if c.call == nil || !strings.HasPrefix(c.call.Traceparent, "00-0af7651916cd43dd") || c.call.Baggage != "k=v" {
			t.Errorf("trace: %+v", c.call)
		}
		c.answer <- nil
	}
	slices.Sort(got)
	if want := []string{"a::on", "b::on"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, f := range got {
		r.until("acknowledged", func() bool { return r.stats(subscription("t", f)) == queue.Stats{} })
	}
	if r.lost.Load() != 0 {
		t.Errorf("%d lost", r.lost.Load())
	}
}

func TestPublishWithoutSubscriberIsLostAndCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish("t", `1`)
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	r.durable.Unbind("1")
	r.publish("t", `2`)
	if got := r.lost.Load(); got != 2 {
		t.Errorf("%d lost, want 2", got)
	}
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	r.publish("t", `3`)
	if c := r.next(); string(c.Payload) != `3` {
		t.Errorf("got %s", c.Payload)
	}
}

// A failure is tried again as queue_config says, then it is a dead letter.
func TestRetriesThenDeadLetter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config   string
		attempts int
	}{
		{`{"topic":"t"}`, 3},
		{`{"topic":"t","queue_config":{"maxRetries":1}}`, 2},
		{`{"topic":"t","queue_config":{"maxRetries":0}}`, 1},
		{`{"topic":"t","max_retries":3}`, 4},
		{`{"topic":"t","max_retries":3,"queue_config":{"maxRetries":1,"visibilityTimeout":3,"delaySeconds":"x","backoffType":[]}}`, 2},
	} {
		t.Run(test.config, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.bind(r.durable, "1", "a::on", strings.Replace(test.config, `"topic":"t"`, `"topic":"t","backoff_ms":0`, 1))
			r.publish("t", `1`)
			var keys []string
			for range test.attempts {
				c := r.next()
				keys = append(keys, c.IdempotencyKey)
				c.answer <- errBoom
			}
			name := subscription("t", "a::on")
			r.until("a dead letter", func() bool { return r.stats(name) == queue.Stats{DeadLetters: 1} })
			dead, err := r.queue.DeadLetters(t.Context(), name, 0, 10)
			if err != nil || dead[0].Error != "boom: it broke" || dead[0].Receives != test.attempts {
				t.Errorf("got %+v, %v", dead, err)
			}
			if len(slices.Compact(keys)) != 1 {
				t.Errorf("the idempotency key of one message changes: %v", keys)
			}
		})
	}
}

// A fifo subscription is serial, and a failure lets nothing pass.
func TestFIFOIsSerialAndBlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t","queue_config":{"type":"fifo","maxRetries":1,"backoffDelayMs":0}}`)
	for i := range 3 {
		r.publish("t", fmt.Sprint(i))
	}
	for _, step := range []struct {
		want string
		err  error
	}{{`0`, errBoom}, {`0`, nil}, {`1`, errBoom}, {`1`, errBoom}, {`2`, nil}} {
		c := r.next()
		if string(c.Payload) != step.want {
			t.Fatalf("got %s, want %s", c.Payload, step.want)
		}
		if s := r.stats(subscription("t", "a::on")); s.InFlight != 1 {
			t.Errorf("%d in flight", s.InFlight)
		}
		c.answer <- step.err
	}
	r.until("empty", func() bool { return r.stats(subscription("t", "a::on")) == queue.Stats{DeadLetters: 1} })
}

// Concurrency 0 pauses; the next config lets go on.
func TestPausedSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t","queue_config":{"concurrency":0}}`)
	r.publish("t", `1`)
	r.bind(r.durable, "2", "b::on", `{"topic":"t"}`)
	r.publish("t", `2`)
	if c := r.next(); c.FunctionID != "b::on" {
		t.Errorf("%s was called", c.FunctionID)
	}
	if s := r.stats(subscription("t", "a::on")); s.Depth != 2 {
		t.Errorf("got %+v", s)
	}
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	for range 2 {
		c := r.next()
		if c.FunctionID != "a::on" {
			t.Errorf("%s was called", c.FunctionID)
		}
		c.answer <- nil
	}
}

// The oldest binding decides; nobody silences a subscriber by binding again.
func TestOldestBindingDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	r.bind(r.durable, "2", "a::on", `{"topic":"t","queue_config":{"concurrency":0}}`)
	r.publish("t", `1`)
	c := r.next()
	if c.ID != "1" {
		t.Errorf("binding %s decided", c.ID)
	}
	c.answer <- nil
	r.durable.Unbind("1")
	if conf, _ := r.queue.Config(subscription("t", "a::on")); conf.Concurrency != queue.Paused {
		t.Errorf("the config of the next binding does not count: %+v", conf)
	}
	r.durable.Unbind("2")
	r.durable.Unbind("2")
	name := subscription("t", "a::on")
	r.until("the empty queue is gone", func() bool { _, ok := r.queue.Config(name); return !ok })
}

// A binding that changes its topic leaves the old one.
func TestBindingMovesToAnotherTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"old"}`)
	if err := r.durable.Bind(t.Context(), binding("1", "a::on", `{"topic":""}`)); err == nil {
		t.Error("a bad config was taken")
	}
	r.publish("old", `1`) // still bound
	r.next().answer <- nil
	r.bind(r.durable, "1", "a::on", `{"topic":"new"}`)
	r.publish("old", `2`)
	r.publish("new", `3`)
	if c := r.next(); string(c.Payload) != `3` {
		t.Errorf("got %s", c.Payload)
	}
	if r.lost.Load() != 1 {
		t.Errorf("%d lost, want 1", r.lost.Load())
	}
}

// What lies in the queue stays when the last binding goes, over a restart, until it is bound again.
func TestMessagesWaitForTheirBinding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	r.bind(r.durable, "e", "empty::on", `{"topic":"t2"}`)
	r.publish("t", `1`)
	r.next() // never answered
	r.durable.Unbind("1")
	r.reopen()
	if _, ok := r.queue.Config(subscription("t2", "empty::on")); ok {
		t.Error("an empty queue outlived the restart")
	}
	if r.durable.Bound(subscription("t", "a::on")) {
		t.Error("bound")
	}
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	c := r.next()
	if string(c.Payload) != `1` || c.Principal.ID != publisher.ID {
		t.Errorf("got %s for %s", c.Payload, c.Principal.ID)
	}
	if !r.durable.Bound(subscription("t", "a::on")) {
		t.Error("not bound")
	}
	c.answer <- nil
}

// A message whose function nobody serves waits, and spends no attempt.
func TestAbsentFunctionSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.away.Store("a::on", true)
	r.bind(r.durable, "1", "a::on", `{"topic":"t","queue_config":{"maxRetries":0}}`)
	r.publish("t", `1`)
	name := subscription("t", "a::on")
	for range 3 {
		r.until("given back", func() bool { s := r.stats(name); return s.InFlight == 0 && s.Depth == 1 })
		r.clock.Advance(queue.DefaultNoTargetPause)
	}
	r.away.Delete("a::on")
	r.until("delivered", func() bool {
		r.clock.Advance(queue.DefaultNoTargetPause)
		select {
		case c := <-r.calls:
			c.answer <- nil
			return true
		default:
			return false
		}
	})
	r.until("acknowledged", func() bool { return r.stats(name) == queue.Stats{} })
}

func TestBadDurableConfigs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, config := range []string{
		`{}`, `{"topic":""}`, `{"topic":1}`, `[]`, `{"topic":"` + strings.Repeat("x", 257) + `"}`,
		`{"topic":"t","queue_config":[]}`, `{"topic":"t","queue_config":{"type":1}}`, `{"topic":"t","queue_config":{"maxRetries":-1}}`,
		`{"topic":"t","queue_config":{"maxRetries":1000}}`, `{"topic":"t","queue_config":{"concurrency":-1}}`,
		`{"topic":"t","queue_config":{"backoffDelayMs":-1}}`, `{"topic":"t","queue_config":{"backoffDelayMs":9223372036854775807}}`,
		`{"topic":"t","condition_function_id":7}`, `{"topic":"t","max_retries":"x"}`,
	} {
		if err := r.durable.Bind(t.Context(), binding("1", "a::on", config)); bus.Code(err) != "trigger_registration_failed" {
			t.Errorf("%s: %v", config, err)
		}
	}
	if names := r.queue.Names(); slices.ContainsFunc(names, func(n string) bool { return n[0] == '@' }) {
		t.Errorf("queues were made: %v", names)
	}
	// A queue that holds messages keeps its type.
	r.bind(r.durable, "1", "a::on", `{"topic":"t","queue_config":{"concurrency":0}}`)
	r.publish("t", `1`)
	err := r.durable.Bind(t.Context(), binding("1", "a::on", `{"topic":"t","queue_config":{"type":"fifo"}}`))
	if bus.Code(err) != "trigger_registration_failed" || !strings.Contains(err.Error(), "queue_config.type") {
		t.Errorf("got %v", err)
	}
}

func TestBadDurablePublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for data, want := range map[string]string{
		`{"topic":"","data":1}`: "topic_not_set", `{"data":1}`: "deserialization_error", `{"topic":"t"}`: "deserialization_error",
		`{"topic":7,"data":1}`: "deserialization_error", `{"topic":"` + strings.Repeat("x", 257) + `","data":1}`: "deserialization_error",
	} {
		if _, err := r.call(r.durable.Endpoints(), "iii::durable::publish", data); bus.Code(err) != want {
			t.Errorf("%s: got %v, want %s", data, err, want)
		}
	}
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	if _, err := r.call(r.durable.Endpoints(), "iii::durable::publish", `{"queue":"t","data":null}`); err != nil {
		t.Fatal(err)
	}
	if c := r.next(); string(c.Payload) != `null` {
		t.Errorf("got %s", c.Payload)
	}
}

// Data has a limit, and so have all its copies.
func TestTooLargeToPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	publish := func(size int) error {
		data := `{"topic":"t","data":"` + strings.Repeat("x", size-2) + `"}`
		_, err := r.call(r.durable.Endpoints(), "iii::durable::publish", data)
		return err
	}
	if err := publish(state.MaxValue + 1); bus.Code(err) != "VALUE_TOO_LARGE" {
		t.Errorf("got %v", err)
	}
	if err := publish(state.MaxValue); err != nil || r.lost.Load() != 1 {
		t.Errorf("got %v, %d lost", err, r.lost.Load())
	}
	const size = 16 << 20
	for i := range topic.MaxCopies/size + 1 {
		r.bind(r.durable, fmt.Sprint(i), fmt.Sprintf("a::on%d", i), `{"topic":"t","queue_config":{"concurrency":0}}`)
	}
	if err := publish(size); bus.Code(err) != "VALUE_TOO_LARGE" {
		t.Errorf("got %v", err)
	}
	if s := r.stats(subscription("t", "a::on0")); s != (queue.Stats{}) {
		t.Errorf("stored all the same: %+v", s)
	}
}

// A closed Durable takes no binding, and keeps what is published for later.
func TestClosedDurable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	if err := r.durable.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.durable.Bind(t.Context(), binding("2", "a::on", `{"topic":"t"}`)); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	r.publish("t", `1`)
	r.reopen()
	r.bind(r.durable, "1", "a::on", `{"topic":"t"}`)
	if c := r.next(); string(c.Payload) != `1` {
		t.Errorf("got %s", c.Payload)
	}
}

// A panic of what is called is contained by the consumer: a failed attempt.
func TestPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve["a::on"] = func(trigger.Binding, trigger.Firing) error { panic("boom") }
	r.bind(r.durable, "1", "a::on", `{"topic":"t","queue_config":{"maxRetries":0}}`)
	r.publish("t", `{"a":1}`)
	r.until("a dead letter", func() bool { return r.stats(subscription("t", "a::on")).DeadLetters == 1 })
}

func TestConstructorsWantTheirParts(t *testing.T) {
	t.Parallel()
	var want error
	for _, err := range constructWithout(t) {
		want = errors.Join(want, err)
		if err == nil {
			t.Error("made without what it needs")
		}
	}
	if want == nil {
		t.Error("no error at all")
	}
	if !json.Valid(newRig(t).durable.Description().Config) || !json.Valid(newRig(t).live.Description().Config) {
		t.Error("a type without schema")
	}
}
