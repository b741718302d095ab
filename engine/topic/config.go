package topic

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/trigger"
)

// The trigger types.
const (
	TypeSubscribe = "subscribe"
	TypeDurable   = "durable:subscriber"
)

// group is the one group of a fifo subscription, which makes it serial.
const group = "all"

// maxAttempts is what a queue allows.
const maxAttempts = 1000

type subscribeConfig struct {
	Topic     string `json:"topic"`
	Condition string `json:"condition_function_id,omitempty"`
}

type durableConfig struct {
	Topic     string          `json:"topic" alias:"queue"`
	Condition string          `json:"condition_function_id,omitempty"`
	Queue     json.RawMessage `json:"queue_config,omitempty"`
	// MaxRetries and BackoffMS mean the same as those of queue_config, which go first.
	MaxRetries *int   `json:"max_retries,omitempty"`
	BackoffMS  *int64 `json:"backoff_ms,omitempty"`
}

// queueConfig says how a subscription is worked on. What it does not have is ignored.
type queueConfig struct {
	// Type is fifo, or else concurrent.
	Type string `json:"type,omitempty"`
	// MaxRetries counts the attempts after the first; 2.
	MaxRetries *int `json:"maxRetries,omitempty"`
	// Concurrency is how many messages are worked on at a time, 10; 0 pauses.
	Concurrency *int `json:"concurrency,omitempty"`
	// BackoffDelayMS is the pause before the second attempt, doubled each time; 1000.
	BackoffDelayMS *int64 `json:"backoffDelayMs,omitempty"`
}

// Description of the type subscribe, for trigger.Table.Provide.
func (*Live) Description() trigger.Type {
	return trigger.Type{ID: TypeSubscribe, Description: "Subscribe to a topic", Config: input.Schema(reflect.TypeFor[subscribeConfig]())}
}

// Description of the type durable:subscriber, for trigger.Table.Provide.
func (*Durable) Description() trigger.Type {
	return trigger.Type{
		ID: TypeDurable, Description: "Subscribe to a topic whose messages are stored until they are handled",
		Config: input.Schema(reflect.TypeFor[durableConfig]()),
	}
}

// readSubscribe is the topic of a binding.
func readSubscribe(raw json.RawMessage) (string, error) {
	var c subscribeConfig
	if detail := input.Read(raw, &c); detail != "" {
		return "", unread(detail)
	}
	return c.Topic, bindable(c.Topic)
}

// readDurable is the config of the queue of a binding.
func readDurable(b trigger.Binding) (queue.Config, error) {
	var c durableConfig
	var q queueConfig
	detail := input.Read(b.Config, &c)
	if detail == "" {
		if detail = input.Read(c.Queue, &q); detail != "" {
			detail = "queue_config: " + detail
		}
	}
	if detail != "" {
		return queue.Config{}, unread(detail)
	}
	if err := bindable(c.Topic); err != nil {
		return queue.Config{}, err
	}
	if q.MaxRetries == nil {
		q.MaxRetries = c.MaxRetries
	}
	if q.BackoffDelayMS == nil {
		q.BackoffDelayMS = c.BackoffMS
	}
	return q.config(queue.Subscription{Topic: c.Topic, FunctionID: b.FunctionID, Namespace: b.Namespace})
}

func (q queueConfig) config(s queue.Subscription) (queue.Config, error) {
	c := queue.Config{Name: s.QueueName(), Subscription: s, Internal: true}
	if q.Type == string(queue.FIFO) {
		c.Type = queue.FIFO
	}
	if q.MaxRetries != nil {
		if *q.MaxRetries < 0 || *q.MaxRetries >= maxAttempts {
			return c, failed("Invalid maxRetries: expected 0 to 999")
		}
		c.MaxReceives = *q.MaxRetries + 1
	}
	if q.Concurrency != nil {
		if *q.Concurrency < 0 {
			return c, failed("Invalid concurrency: expected 0 or more")
		}
		if c.Concurrency = *q.Concurrency; c.Concurrency == 0 {
			c.Concurrency = queue.Paused
		}
	}
	if q.BackoffDelayMS != nil {
		const most = int64(queue.MaxVisibility / time.Millisecond)
		if *q.BackoffDelayMS < 0 || *q.BackoffDelayMS > most {
			return c, failed("Invalid backoffDelayMs: expected 0 to 43200000, which is 12 hours")
		}
		if c.Backoff = time.Duration(*q.BackoffDelayMS) * time.Millisecond; c.Backoff == 0 {
			c.Backoff = queue.NoBackoff
		}
	}
	return c.WithDefaults(), nil
}

func bindable(topic string) error {
	switch {
	case topic == "":
		return failed("Topic is required")
	case len(topic) > MaxName:
		return failed("Topic is too long: at most 256 bytes are allowed")
	}
	return nil
}

func unread(detail string) error { return failed("Failed to parse trigger config: " + detail) }

func failed(message string) error {
	return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: message}
}
