package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/iii-aws/harness/engine/commit"
)

// Subscription is one subscriber of a topic: a function in a namespace. Each has a queue of its own, which gets a copy of
// what is published.
type Subscription struct {
	Topic      string `json:"topic"`
	FunctionID string `json:"function_id"`
	Namespace  string `json:"namespace"`
}

// subscriptionMark begins the names of the queues of subscriptions, and no other name.
const subscriptionMark = "@"

// QueueName is the name of the subscription's queue. It does not show what it is made of, because topics may have any
// text as their name.
func (s Subscription) QueueName() string {
	parts, err := json.Marshal([]string{s.Topic, s.FunctionID, s.Namespace})
	if err != nil {
		panic(err) // texts always marshal
	}
	sum := sha256.Sum256(parts)
	return subscriptionMark + hex.EncodeToString(sum[:20])
}

// String names the subscription as the iii engine does: topic::function@namespace.
func (s Subscription) String() string { return s.Topic + "::" + s.FunctionID + "@" + s.Namespace }

// IsZero reports whether there is no subscription.
func (s Subscription) IsZero() bool { return s == Subscription{} }

// valid reports whether the queue of the subscription may have a name.
func (s Subscription) valid(name string) bool {
	return s.Topic != "" && s.FunctionID != "" && s.Namespace != "" && name == s.QueueName()
}

// Batcher is implemented by queues that can store messages of several queues at once.
type Batcher interface {
	// SubmitAll is Submit for several messages: all are stored, or none.
	SubmitAll(ctx context.Context, ms []Message, after ...commit.Ticket) *commit.Promise[[]Sent]
}

// SubmitAll sends several messages, at once if q can do that. Otherwise some may have been sent when there is an error:
// the first one's, in the order of ms. What it returns waits for the messages; they are in line before it returns.
func SubmitAll(ctx context.Context, q Queue, ms []Message) func(context.Context) error {
	if b, ok := q.(Batcher); ok {
		sent := b.SubmitAll(ctx, ms)
		return func(ctx context.Context) error {
			_, err := sent.Wait(ctx)
			return err
		}
	}
	tickets := make([]commit.Ticket, len(ms))
	for i, m := range ms {
		tickets[i] = q.Submit(ctx, m)
	}
	return func(ctx context.Context) error { return commit.Wait(ctx, tickets...) }
}
