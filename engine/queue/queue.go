package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
)

// Message is a function call on a queue.
type Message struct {
	Queue string `json:"queue"`
	// Group orders FIFO messages; taken from Config.GroupField if empty.
	Group string `json:"group,omitempty"`
	// DedupID drops a repeat within DedupWindow, see DedupKey.
	DedupID    string          `json:"dedup_id,omitempty"`
	FunctionID string          `json:"function_id"`
	Namespace  string          `json:"namespace,omitempty"`
	Data       json.RawMessage `json:"data"`
	// Principal is who made the message.
	Principal bus.Principal `json:"principal"`
	// External: a connection sent it, so it reaches no internal function of
	// somebody else, whoever serves the id when it is delivered.
	External    bool   `json:"external,omitempty"`
	Traceparent string `json:"traceparent,omitempty"`
	Baggage     string `json:"baggage,omitempty"`
	// ReceiptID is the id that the sender knows; the message's own if empty.
	ReceiptID string `json:"receipt_id,omitempty"`
}

// Sent is the result of a send.
type Sent struct {
	// ID is the message's own id; of the first message if a duplicate.
	ID string
	// Duplicate: a message with that dedup id was accepted before.
	Duplicate bool
}

// Delivery is one receive of a message.
type Delivery struct {
	Message
	ID string
	// Receipt is replaced by every receive; an older one changes nothing.
	Receipt string
	// Receives counts this one; it starts at 1.
	Receives int
	SentAt   time.Time
}

// DeadLetter is a message that was given up.
type DeadLetter struct {
	Message
	ID       string
	Error    string
	FailedAt time.Time
	Receives int
}

// Stats describes a queue now.
type Stats struct {
	// Depth is the messages that wait, visible or not.
	Depth int
	// InFlight is the messages that are handed out.
	InFlight int
	// DeadLetters is the messages that were given up.
	DeadLetters int
}

// Queue is the port for queues. Delivery is at least once. In a FIFO queue the
// messages of a group are received in the order they were sent, and never two
// at a time; a message that waits for its next receive blocks its group.
// Implementations are safe for concurrent use.
type Queue interface {
	// Define creates or changes a queue; it answers whether anything differs
	// from before. The type of a queue that holds messages cannot change.
	// Errors: *InvalidError.
	Define(ctx context.Context, c Config) (changed bool, err error)
	// Remove deletes a queue that holds nothing, neither messages nor dead
	// letters, and answers whether it did. Receives that wait on it end with
	// *UnknownError. Errors: *InvalidError for a built-in queue.
	Remove(ctx context.Context, name string) (removed bool, err error)
	// Config is a queue's config.
	Config(name string) (Config, bool)
	// Names is every queue, sorted.
	Names() []string
	// Submit sends a message, after the given tickets. Errors: *UnknownError,
	// *InvalidError (group).
	Submit(ctx context.Context, m Message, after ...commit.Ticket) *commit.Promise[Sent]
	// Receive waits for messages that are visible and hides them for the
	// queue's visibility. It returns at least one, or ctx's error, and keeps
	// to the queue's concurrency. A message that was received MaxReceives
	// times becomes a dead letter instead. Errors: *UnknownError.
	Receive(ctx context.Context, queue string, max int) ([]Delivery, error)
	// Ack removes a message, after the given tickets. A stale receipt is
	// ErrStale and changes nothing.
	Ack(ctx context.Context, queue, receipt string, after ...commit.Ticket) *commit.Promise[struct{}]
	// Extend hides a received message for d from now, at most MaxVisibility;
	// 0 makes it visible. Stale receipts: ErrStale.
	Extend(ctx context.Context, queue, receipt string, d time.Duration) error
	// Fail ends a receive with an error: the message becomes visible after
	// its backoff, or a dead letter after MaxReceives. Stale: ErrStale.
	Fail(ctx context.Context, queue, receipt string, cause error) (dead bool, err error)
	// DeadLetters is the given-up messages, oldest first.
	DeadLetters(ctx context.Context, queue string, offset, limit int) ([]DeadLetter, error)
	// Redrive puts dead letters back, with their receives reset; all if id is
	// empty. It answers how many.
	Redrive(ctx context.Context, queue, id string) (int, error)
	// Discard deletes a dead letter.
	Discard(ctx context.Context, queue, id string) (bool, error)
	// Stats counts.
	Stats(ctx context.Context, queue string) (Stats, error)
}

// Releaser is implemented by queues that can end a receive without judging it.
// A consumer extends the visibility instead where the queue has none.
type Releaser interface {
	// Release makes a received message visible after d, at its old place in
	// its group. Unless counted, the receive is taken back. Stale: ErrStale.
	Release(ctx context.Context, queue, receipt string, d time.Duration, counted bool) error
}
