package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
)

// target is what a caller names: a queue, or a topic with the queues of its subscriptions, sorted by function. Never
// without a queue.
type target struct {
	name   string
	topic  bool
	queues []Config
}

// What list_topics says of named queues and of topics.
const (
	brokerQueue = "function_queue"
	brokerTopic = "builtin"
)

func (t target) broker() string {
	if t.topic {
		return brokerTopic
	}
	return brokerQueue
}

// visible is the queue or the topic of a name, of which the caller may know. A queue goes before a topic of its name. One
// subscription of a topic is named topic::function@namespace.
func (e *endpoints) visible(call *bus.Call, name string) (target, error) {
	if c, ok := e.q.Config(name); ok && c.Subscription.IsZero() && (!c.Internal || call.Connection == "") {
		return target{name: name, queues: []Config{c}}, nil
	}
	t := target{name: name, topic: true}
	for _, c := range e.subscriptions() {
		if c.Subscription.Topic == name || c.Subscription.String() == name {
			t.queues = append(t.queues, c)
		}
	}
	if len(t.queues) == 0 {
		return target{}, &UnknownError{Queue: name}
	}
	return t, nil
}

// subscriptions is the queues of topics, sorted by topic, then by function.
func (e *endpoints) subscriptions() []Config {
	var out []Config
	for _, name := range e.q.Names() {
		if c, ok := e.q.Config(name); ok && !c.Subscription.IsZero() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Config) int {
		x, y := a.Subscription, b.Subscription
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.FunctionID, y.FunctionID), cmp.Compare(x.Namespace, y.Namespace))
	})
	return out
}

// shown is the queues that the caller may know of, by name, and then the topics.
func (e *endpoints) shown(call *bus.Call) []target {
	var out []target
	for _, name := range e.q.Names() {
		c, ok := e.q.Config(name)
		if ok && c.Subscription.IsZero() && (!c.Internal || call.Connection == "") {
			out = append(out, target{name: name, queues: []Config{c}})
		}
	}
	var last *target
	for _, c := range e.subscriptions() {
		if last == nil || last.name != c.Subscription.Topic {
			out = append(out, target{name: c.Subscription.Topic, topic: true})
			last = &out[len(out)-1]
		}
		last.queues = append(last.queues, c)
	}
	return out
}

// consumers is the concurrency of a queue, or how many subscriptions of a topic have a binding.
func (e *endpoints) consumers(t target) int {
	if !t.topic {
		return max(t.queues[0].Concurrency, 0)
	}
	n := 0
	for _, c := range t.queues {
		if e.bound(c.Name) {
			n++
		}
	}
	return n
}

// stats is the sum over the queues. One that was removed meanwhile held nothing.
func (e *endpoints) stats(ctx context.Context, t target) (sum Stats, err error) {
	return sum, e.each(t, func(c Config) error {
		s, err := e.q.Stats(ctx, c.Name)
		sum.Depth += s.Depth
		sum.InFlight += s.InFlight
		sum.DeadLetters += s.DeadLetters
		return err
	})
}

// each does f for the queues, until there is an error. Those that were removed meanwhile held nothing.
func (e *endpoints) each(t target, f func(c Config) error) error {
	for _, c := range t.queues {
		err := f(c)
		var gone *UnknownError
		if t.topic && errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
