package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Function ids of Endpoints.
const (
	FunctionEnqueue        = "engine::queue::enqueue"
	FunctionDefine         = "queue::define"
	FunctionRedrive        = "iii::queue::redrive"
	FunctionRedriveMessage = "iii::queue::redrive_message"
	FunctionDiscardMessage = "iii::queue::discard_message"
	FunctionListTopics     = "engine::queue::list_topics"
	FunctionTopicStats     = "engine::queue::topic_stats"
	FunctionDLQTopics      = "engine::queue::dlq_topics"
	FunctionDLQMessages    = "engine::queue::dlq_messages"
)

// Option changes Endpoints.
type Option func(*endpoints)

// WithAuthorize asks f whether a call of engine::queue::enqueue may name the
// function it wants called: the queue calls it later in the name of the bus.
// f's error is the answer.
func WithAuthorize(f func(call *bus.Call, namespace, functionID string) error) Option {
	return func(e *endpoints) { e.authorize = f }
}

// WithDefined tells f of each queue that queue::define has made or changed, so
// that a new one gets its consumer. f may be called more than once for a name.
func WithDefined(f func(name string)) Option {
	return func(e *endpoints) { e.defined = f }
}

// WithBound asks f whether the queue of a subscription has a subscriber now. Without it, all have one.
func WithBound(f func(name string) bool) Option {
	return func(e *endpoints) { e.bound = f }
}

type endpoints struct {
	q         Queue
	bound     func(name string) bool
	defined   func(name string)
	authorize func(call *bus.Call, namespace, functionID string) error
}

// Endpoints serves the functions of the bus over q, by id. Calls from a
// connection do not see internal queues: to them they do not exist. Queues of
// subscriptions are seen as their topic, and nothing can be enqueued on them.
func Endpoints(q Queue, opts ...Option) map[string]bus.Endpoint {
	e := &endpoints{
		q:         q,
		bound:     func(string) bool { return true },
		defined:   func(string) {},
		authorize: func(*bus.Call, string, string) error { return nil },
	}
	for _, o := range opts {
		o(e)
	}
	return map[string]bus.Endpoint{
		FunctionEnqueue:        builtin(FunctionEnqueue, e.enqueue),
		FunctionDefine:         builtin(FunctionDefine, e.define),
		FunctionRedrive:        builtin(FunctionRedrive, e.redrive),
		FunctionRedriveMessage: builtin(FunctionRedriveMessage, e.redriveMessage),
		FunctionDiscardMessage: builtin(FunctionDiscardMessage, e.discardMessage),
		FunctionListTopics:     builtin(FunctionListTopics, e.listTopics),
		FunctionTopicStats:     builtin(FunctionTopicStats, e.topicStats),
		FunctionDLQTopics:      builtin(FunctionDLQTopics, e.dlqTopics),
		FunctionDLQMessages:    builtin(FunctionDLQMessages, e.dlqMessages),
	}
}

// builtin is the endpoint of a built-in function: bad input is answered as
// built-ins answer it. Null counts as {}.
func builtin[Req, Res any](id string, f func(context.Context, *bus.Call, Req) (Res, error)) bus.Endpoint {
	return bus.Endpoint{
		Handle: func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
			var req Req
			if err := decode(id, call.Data, &req); err != nil {
				return nil, err
			}
			res, err := f(ctx, call, req)
			if err != nil {
				return nil, err
			}
			return bus.Encode(res)
		},
		Request:  schemaOf(reflect.TypeFor[Req]()),
		Response: schemaOf(reflect.TypeFor[Res]()),
	}
}

func decode(id string, data json.RawMessage, v any) error {
	if b := bytes.TrimSpace(data); len(b) == 0 || bytes.Equal(b, []byte("null")) {
		return nil
	}
	err := json.Unmarshal(data, v)
	var t *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &t) && t.Field != "":
		return protocol.BadInput(id, "invalid type for `"+t.Field+"`: "+t.Value+", expected "+kindName(t.Type.Kind()))
	case errors.As(err, &t):
		return protocol.BadInput(id, "invalid type: "+t.Value+", expected an object")
	}
	return protocol.BadInput(id, err.Error())
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		return "an integer"
	}
}

// schemaOf is the JSON Schema of a request or a response; nil if it has none.
func schemaOf(t reflect.Type) json.RawMessage {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{IgnoreInvalidTypes: true})
	if err != nil {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}
