package topic_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/topic"
	"github.com/iii-aws/harness/engine/trigger"
)

func constructWithout(t *testing.T) []error {
	_, live := topic.NewLive(topic.LiveConfig{})
	_, durable := topic.NewDurable(t.Context(), topic.DurableConfig{})
	return []error{live, durable}
}

func (r *rig) say(topic, data string) {
	r.Helper()
	if out, err := r.call(r.live.Endpoints(), "publish", `{"topic":"`+topic+`","data":`+data+`}`); out != "" || err != nil {
		r.Fatalf("publish: %s, %v", out, err)
	}
}

// Every binding fires, also two of one function; a slow one keeps nobody waiting.
func TestEveryBindingFires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.live, "1", "a::on", `{"topic":"t"}`)
	r.bind(r.live, "2", "a::on", `{"topic":"t"}`)
	r.bind(r.live, "3", "b::on", `{"topic":"t"}`)
	r.bind(r.live, "4", "b::on", `{"topic":"other"}`)
	r.say("t", `{"p":1}`)
	var ids []string
	var open []fired
	for range 3 {
		c := r.next()
		open, ids = append(open, c), append(ids, c.ID)
		if string(c.Payload) != `{"p":1}` || c.Firing.Metadata || c.Principal.ID != publisher.ID || !c.External {
			t.Errorf("got %s for %+v, external %v", c.Payload, c.Principal, c.External)
		}
	}
	slices.Sort(ids)
	if want := []string{"1", "2", "3"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	for _, c := range open {
		c.answer <- errBoom
	}
	r.bind(r.live, "3", "b::on", `{"topic":"other"}`) // moves
	r.live.Unbind("1")
	r.live.Unbind("2")
	r.live.Unbind("unknown")
	r.say("t", `2`)
	if r.lost.Load() != 1 {
		t.Errorf("%d lost, want 1", r.lost.Load())
	}
}

// A binding that does not keep up loses messages, which are counted, and nothing else does.
func TestSlowBindingLosesMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	r.serve["slow::on"] = func(trigger.Binding, trigger.Firing) error { <-release; return nil }
	r.bind(r.live, "1", "slow::on", `{"topic":"t"}`)
	for range topic.MaxInFlight + 7 {
		r.say("t", `1`)
	}
	if r.lost.Load() != 7 {
		t.Errorf("%d lost, want 7", r.lost.Load())
	}
	if got := strings.Count(r.log.String(), "topic_dropped"); got != 1 {
		t.Errorf("%d alarms, want 1", got)
	}
	close(release)
}

func TestBadSubscribe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, config := range []string{`{}`, `{"topic":""}`, `{"topic":null}`, `7`} {
		if err := r.live.Bind(t.Context(), binding("1", "a::on", config)); bus.Code(err) != "trigger_registration_failed" {
			t.Errorf("%s: %v", config, err)
		}
	}
	for data, want := range map[string]string{`{"topic":"","data":1}`: "topic_not_set", `{}`: "deserialization_error", `{"queue":"t","data":1}`: "deserialization_error"} {
		if _, err := r.call(r.live.Endpoints(), "publish", data); bus.Code(err) != want {
			t.Errorf("%s: got %v, want %s", data, err, want)
		}
	}
}

// Close ends what runs, and nothing fires after it.
func TestClosedLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bind(r.live, "1", "a::on", `{"topic":"t"}`)
	r.say("t", `1`)
	r.next() // ended by Close
	if err := r.live.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.say("t", `2`)
	if err := r.live.Bind(t.Context(), binding("2", "a::on", `{"topic":"t"}`)); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
}

// A caller that does not wait for the end hears so.
func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release, called := make(chan struct{}), make(chan json.RawMessage)
	r.serve["a::on"] = func(_ trigger.Binding, f trigger.Firing) error { called <- f.Payload; <-release; return nil }
	r.bind(r.live, "1", "a::on", `{"topic":"t"}`)
	r.say("t", `1`)
	<-called
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.live.Close(ctx); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	close(release)
}
