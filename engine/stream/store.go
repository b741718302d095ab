package stream

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// Key names one item.
type Key struct{ Stream, Group, Item string }

// Item is a stored item. Lists give them in the order of their ids.
type Item struct {
	Key
	Data json.RawMessage
	// EventID and By are those of Append; empty for other writes.
	EventID string
	By      string
	// At is when it was written.
	At time.Time
}

// LogEvent is one event for Append.
type LogEvent struct {
	// ID is derived from the cause: the same id is stored once.
	ID   string
	Data json.RawMessage
	// CopyTo names a stream that gets the same item id and data.
	CopyTo string
}

// Append adds events to the log of a group. A log's items are named
// "<group>-%08d" by a sequence from 0 without a gap.
type Append struct {
	Stream, Group string
	Events        []LogEvent
	// Base is the tail when the events were made (-1 for an empty log): ids
	// are compared only behind it.
	Base int64
	// By is kept with each item; "step" marks what its writer also pushed.
	By     string
	Origin state.Origin
}

// Appended is the result: the sequence of each event, in order.
type Appended struct {
	Seqs  []int64
	Epoch string
}

// Head describes a log.
type Head struct {
	// Tail is the last sequence, -1 for an empty log.
	Tail int64
	// Epoch is a random id made with the log; it changes only when the log
	// was deleted or restored. Empty if there is no log.
	Epoch string
}

// EventKind is the kind of a change.
type EventKind string

// The kinds of a change.
const (
	Create EventKind = "create"
	Change EventKind = "update"
	Remove EventKind = "delete"
	// Ephemeral is a sent event that is not stored.
	Ephemeral EventKind = "event"
)

// Event is what reaches the stream triggers.
type Event struct {
	Key
	Kind EventKind
	// Data is the new value, the old one for Remove, {"type","data"} for
	// Ephemeral.
	Data   json.RawMessage
	At     time.Time
	By     string
	Origin state.Origin
}

// Write is a plain write of an item.
type Write struct {
	Key
	Kind state.WriteKind
	Data json.RawMessage
	Ops  []state.Op
	// Expect compares existence only (Absent) or the item's version.
	Expect state.Expect
	Origin state.Origin
}

// Result is what a plain write did.
type Result struct {
	Old, New json.RawMessage
	OpErrors []state.OpError
}

// Store is the port for streams. Implementations are safe for concurrent use.
//
// Append is idempotent by event id behind Base, in order, and atomic: all of
// its events are stored or none. Readers see the events of a log in sequence
// order and never one before all earlier ones.
type Store interface {
	Get(ctx context.Context, key Key) (Item, bool, error)
	// List is all items of a group in id order.
	List(ctx context.Context, stream, group string) ([]Item, error)
	// Groups is the groups of a stream, sorted.
	Groups(ctx context.Context, stream string) ([]string, error)
	// Streams is every stream that holds an item, sorted.
	Streams(ctx context.Context) ([]string, error)
	// Submit makes a plain write.
	Submit(ctx context.Context, w Write, after ...commit.Ticket) *commit.Promise[Result]
	// SubmitAppend appends to a log.
	SubmitAppend(ctx context.Context, a Append, after ...commit.Ticket) *commit.Promise[Appended]
	// Send fires an event that is not stored.
	Send(ctx context.Context, e Event) error
	// Head is strongly consistent.
	Head(ctx context.Context, stream, group string) (Head, error)
	// Read is the items of a log from a sequence on, at most limit and about
	// maxBytes (at least one item), strongly consistent.
	Read(ctx context.Context, stream, group string, from int64, limit, maxBytes int) ([]Item, error)
	// Watch signals after writes to the group, as state.Store.Watch does.
	Watch(ctx context.Context, stream, group string) <-chan struct{}
}
