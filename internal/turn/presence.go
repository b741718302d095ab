package turn

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// The topics of hooks.
const (
	TopicBefore = "agent::before_function_call"
	TopicAfter  = "agent::after_function_call"
)

// presenceTTL is how long it is remembered who subscribes to a topic.
const presenceTTL = 30 * time.Second

// presence remembers how many subscribers a topic has.
type presence struct {
	mu     sync.Mutex
	topics map[string]presenceEntry
}

type presenceEntry struct {
	subscribers int
	at          time.Duration
}

// unknownSubscribers stands for some subscribers: nobody could be asked.
const unknownSubscribers = -1

// subscribers is how many subscribers a topic has; unknownSubscribers, which
// is not remembered, if that cannot be told.
func (t *Turn) subscribers(ctx context.Context, topic string) int {
	now := t.Clock.Monotonic()
	t.presence.mu.Lock()
	e, ok := t.presence.topics[topic]
	t.presence.mu.Unlock()
	if ok && now-e.at < presenceTTL {
		return e.subscribers
	}
	system := bus.System()
	raw, err := t.within(ctx, bus.Invocation{
		FunctionID: "engine::registered-triggers::list", Principal: &system,
		Data: encode(map[string]any{"trigger_type": "durable:subscriber", "include_internal": true}),
	})
	if err != nil {
		t.Logger.Warn("subscribers unknown, taken as present", "topic", topic, "error", clean(err))
		return unknownSubscribers
	}
	n, err := countSubscribers(raw, topic)
	if err != nil {
		t.Logger.Warn("subscribers unknown, taken as present", "topic", topic, "error", err)
		return unknownSubscribers
	}
	t.presence.mu.Lock()
	t.presence.topics[topic] = presenceEntry{subscribers: n, at: now}
	t.presence.mu.Unlock()
	return n
}

// forget makes the next question ask again.
func (t *Turn) forget(topic string) {
	t.presence.mu.Lock()
	defer t.presence.mu.Unlock()
	delete(t.presence.topics, topic)
}

// countSubscribers counts the bindings of a topic, parked ones too.
func countSubscribers(raw json.RawMessage, topic string) (int, error) {
	var res struct {
		Triggers []struct {
			Type   string `json:"trigger_type"`
			Config struct {
				Topic string `json:"topic"`
				Queue string `json:"queue"`
			} `json:"config"`
		} `json:"registered_triggers"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return 0, err
	}
	n := 0
	for _, t := range res.Triggers {
		if t.Type == "durable:subscriber" && (t.Config.Topic == topic || t.Config.Queue == topic) {
			n++
		}
	}
	return n, nil
}
