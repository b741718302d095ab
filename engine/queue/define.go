package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type defineRequest struct {
	Queue string `json:"queue"`
	// Topic is an alias of queue.
	Topic  string        `json:"topic,omitempty"`
	Config *configFields `json:"config,omitempty"`
}

// configFields is a queue's config as it travels. Absent members take their
// defaults.
type configFields struct {
	Type              *string `json:"type,omitempty"`
	MaxRetries        *int    `json:"max_retries,omitempty"`
	BackoffMS         *int64  `json:"backoff_ms,omitempty"`
	Concurrency       *int    `json:"concurrency,omitempty"`
	MessageGroupField *string `json:"message_group_field,omitempty"`
	TimeoutMS         *int64  `json:"timeout_ms,omitempty"`
	// Members for other brokers are checked and otherwise ignored.
	PollIntervalMS *int64  `json:"poll_interval_ms,omitempty"`
	MaxPriority    *int    `json:"max_priority,omitempty"`
	PriorityField  *string `json:"priority_field,omitempty"`
}

type defineResponse struct {
	Queue   string `json:"queue"`
	Changed bool   `json:"changed"`
}

// define creates or changes a queue.
func (e *endpoints) define(ctx context.Context, call *bus.Call, req defineRequest) (defineResponse, error) {
	name := first(req.Queue, req.Topic)
	if name == "" {
		return defineResponse{}, protocol.MissingField(FunctionDefine, "queue")
	}
	if c, ok := e.q.Config(name); ok && c.Internal {
		return defineResponse{}, protocol.BadInput(FunctionDefine, "invalid value for `queue`: "+strconv.Quote(name)+" belongs to the bus, expected another name")
	}
	if req.Config == nil {
		req.Config = &configFields{}
	}
	c, err := req.Config.config(name)
	if err != nil {
		return defineResponse{}, err
	}
	changed, err := e.q.Define(ctx, c)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return defineResponse{}, badField(wireName(invalid.Field), invalid.Allowed)
	}
	if err != nil {
		return defineResponse{}, err
	}
	if changed {
		e.defined(name)
	}
	return defineResponse{Queue: name, Changed: changed}, nil
}

func (f *configFields) config(name string) (Config, error) {
	c := Config{Name: name}
	if f.Type != nil {
		c.Type = Type(*f.Type)
		if c.Type != Standard && c.Type != FIFO {
			return c, badField("config.type", "standard or fifo")
		}
	}
	for _, m := range []struct {
		field string
		value *int
		to    *int
	}{{"config.max_retries", f.MaxRetries, &c.MaxReceives}, {"config.concurrency", f.Concurrency, &c.Concurrency}} {
		if m.value == nil {
			continue
		}
		if *m.value < 1 {
			return c, badField(m.field, "1 or more")
		}
		*m.to = *m.value
	}
	if f.BackoffMS != nil {
		if c.Backoff = NoBackoff; *f.BackoffMS > 0 {
			c.Backoff = millis(*f.BackoffMS)
		}
		if *f.BackoffMS < 0 {
			return c, badField("config.backoff_ms", "0 or more")
		}
	}
	if f.TimeoutMS != nil {
		if *f.TimeoutMS < 1 {
			return c, badField("config.timeout_ms", "1 or more")
		}
		c.Timeout = millis(*f.TimeoutMS)
	}
	if f.PollIntervalMS != nil && *f.PollIntervalMS < 1 {
		return c, badField("config.poll_interval_ms", "1 or more")
	}
	c.GroupField = text(f.MessageGroupField)
	if c.Type == FIFO && c.GroupField == "" {
		return c, badField("config.message_group_field", "the name of a member of the data: the queue is fifo")
	}
	return c, nil
}

// configOf is the inverse of config.
func configOf(c Config) configFields {
	kind, backoff, timeout := string(c.Type), max(c.Backoff, 0).Milliseconds(), c.Timeout.Milliseconds()
	f := configFields{Type: &kind, MaxRetries: &c.MaxReceives, BackoffMS: &backoff, Concurrency: &c.Concurrency, TimeoutMS: &timeout}
	if c.GroupField != "" {
		f.MessageGroupField = &c.GroupField
	}
	return f
}

// wireName is the name on the wire of a Config's field.
func wireName(field string) string {
	switch field {
	case "name":
		return "queue"
	case "max_receives":
		return "config.max_retries"
	case "backoff", "timeout":
		return "config." + field + "_ms"
	case "group_field":
		return "config.message_group_field"
	}
	return "config." + field
}

// millis saturates: a Duration holds 292 years.
func millis(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

func badField(field, allowed string) error {
	return protocol.BadInput(FunctionDefine, "invalid value for `"+field+"`: expected "+allowed)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
