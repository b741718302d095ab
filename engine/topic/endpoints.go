package topic

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/trigger"
)

// Function ids of the endpoints.
const (
	FunctionPublish        = "publish"
	FunctionDurablePublish = "iii::durable::publish"
)

// MaxName is the longest name of a topic in bytes.
const MaxName = 256

// Firer calls the function of a binding. A trigger.Dispatcher is one.
type Firer interface {
	Fire(ctx context.Context, b trigger.Binding, f trigger.Firing) (json.RawMessage, bool, error)
}

type publishRequest struct {
	Topic string          `json:"topic"`
	Data  json.RawMessage `json:"data"`
}

type durablePublishRequest struct {
	Topic string          `json:"topic" alias:"queue"`
	Data  json.RawMessage `json:"data"`
}

// named checks the name of a topic that is published to.
func named(function, topic string) error {
	switch {
	case topic == "":
		return &bus.Error{Code: protocol.CodeTopicNotSet, Message: "Topic is not set"}
	case len(topic) > MaxName:
		return protocol.BadInput(function, "invalid value for `topic`: expected at most 256 bytes")
	}
	return nil
}

// Endpoints is publish.
func (l *Live) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{FunctionPublish: endpoint(FunctionPublish, l.publish)}
}

// Endpoints is iii::durable::publish.
func (d *Durable) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{FunctionDurablePublish: endpoint(FunctionDurablePublish, d.publish)}
}

// endpoint is that of a function without a result.
func endpoint[Req any](function string, f func(context.Context, *bus.Call, Req) error) bus.Endpoint {
	e := input.Endpoint(function, func(ctx context.Context, call *bus.Call, req Req) (struct{}, error) {
		return struct{}{}, f(ctx, call, req)
	})
	return bus.Endpoint{
		Handle: func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
			_, err := e.Handle(ctx, call)
			return nil, err
		},
		Request: e.Request,
	}
}

// as is a binding whose function is called for who published. Whoever that is, it reaches no function that is internal to
// the bus.
func as(b trigger.Binding, p bus.Principal) trigger.Binding {
	b.Principal, b.External = p, true
	return b
}
