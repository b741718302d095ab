package state

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
)

// InlineLimit is the size in bytes above which a backend keeps a value as a
// blob; callers do not notice.
const InlineLimit = 256 << 10

// MaxValue is the largest value in bytes. Above it a write fails for good with
// a *TooLargeError.
const MaxValue = 20 << 20

// MaxTx is the largest number of writes in one transaction.
const MaxTx = 100

// Key names one item.
type Key struct{ Scope, Key string }

// Item is a stored value.
type Item struct {
	Key
	Value json.RawMessage
	// Version starts at 1 and grows by 1 with every write of the key. A
	// deleted key starts again at 1.
	Version int64
	// Due is the item's place in the index of Due; zero if it has none.
	Due time.Time
	// Expires is when the item counts as absent; zero if never.
	Expires time.Time
}

// Expect is the condition of a write; the zero value is no condition.
type Expect struct {
	Absent  bool  `json:"absent,omitempty"`
	Version int64 `json:"version,omitempty"`
}

// IsZero reports whether there is no condition.
func (e Expect) IsZero() bool { return !e.Absent && e.Version == 0 }

// WriteKind says what a write does.
type WriteKind string

// The kinds of a write.
const (
	KindSet    WriteKind = "set"
	KindUpdate WriteKind = "update"
	KindDelete WriteKind = "delete"
	// KindCheck writes nothing: the transaction depends on its condition.
	KindCheck WriteKind = "check"
)

// Origin is who wrote and under which trace; it reaches the triggers.
type Origin struct {
	Principal   bus.Principal `json:"principal"`
	Traceparent string        `json:"traceparent,omitempty"`
	Baggage     string        `json:"baggage,omitempty"`
}

// Write is one change of one key. Make it by Set, Update, Delete or Check.
type Write struct {
	Key
	Kind   WriteKind
	Value  json.RawMessage
	Ops    []Op
	Expect Expect
	// Due puts the item into the index of Store.Due; zero takes it out.
	Due time.Time
	// Expires makes the item absent from then on.
	Expires time.Time
	Origin  Origin
}

// Set stores value.
func Set(scope, key string, value json.RawMessage) Write {
	return Write{Key: Key{scope, key}, Kind: KindSet, Value: value}
}

// Update applies ops to the stored value, atomically.
func Update(scope, key string, ops ...Op) Write {
	return Write{Key: Key{scope, key}, Kind: KindUpdate, Ops: ops}
}

// Delete removes the key; deleting an absent key succeeds.
func Delete(scope, key string) Write {
	return Write{Key: Key{scope, key}, Kind: KindDelete}
}

// If adds a condition.
func (w Write) If(e Expect) Write { w.Expect = e; return w }

// IfAbsent makes the write a create.
func (w Write) IfAbsent() Write { return w.If(Expect{Absent: true}) }

// IfVersion makes the write depend on the stored version.
func (w Write) IfVersion(v int64) Write { return w.If(Expect{Version: v}) }

// EventType is what a change was.
type EventType string

// The event types of a change.
const (
	Created EventType = "state:created"
	Updated EventType = "state:updated"
	Deleted EventType = "state:deleted"
)

// Change is what one write did.
type Change struct {
	Key
	Type EventType
	// Old is nil if the key did not exist, New is nil if it does not any more.
	Old, New json.RawMessage
	// Version is the version after the write, 0 after a delete.
	Version int64
	// OpErrors are the ops of an update that were skipped.
	OpErrors []OpError
	Origin   Origin
}

// Pending is a submitted transaction; its result has one change per write.
type Pending = commit.Promise[[]Change]

// ReadOption changes how a read is made.
type ReadOption func(*ReadOptions)

// ReadOptions is what the options set.
type ReadOptions struct{ Eventual bool }

// Eventual allows a read that misses the latest writes, where that is cheaper.
func Eventual(o *ReadOptions) { o.Eventual = true }

// ListOptions bounds a list.
type ListOptions struct {
	// Prefix of the key.
	Prefix string
	// After is the key that the list starts behind.
	After string
	// Limit 0 means all.
	Limit int
}

// Store is the port for state. Implementations are safe for concurrent use.
//
// Reads are strongly consistent unless Eventual is asked for: they see every
// write whose ticket ended without an error. List, Groups and Due may be
// eventual. Expired items count as absent everywhere.
type Store interface {
	// Get reads one key; ok is false if it does not exist.
	Get(ctx context.Context, key Key, opts ...ReadOption) (Item, bool, error)
	// List is the items of a scope in key order.
	List(ctx context.Context, scope string, o ListOptions) ([]Item, error)
	// Groups is every scope that holds an item, sorted.
	Groups(ctx context.Context) ([]string, error)
	// Due is the items of a scope whose Due is not after t, oldest first.
	Due(ctx context.Context, scope string, t time.Time, limit int) ([]Item, error)
	// Submit applies the writes all or none, after the given tickets, see
	// package commit. Errors: *ConflictError if a condition failed or, with a
	// backend that reports it so, another transaction was in the way;
	// *TooLargeError; *InvalidKeyError. No key may occur twice. Errors are
	// those of the ticket; Submit itself does not block on storage.
	Submit(ctx context.Context, writes []Write, after ...commit.Ticket) *Pending
	// Watch signals after changes of the key, once or more per burst; it also
	// signals once at the start. A remote backend polls (once a second).
	// The watch ends with ctx, after which the channel is closed.
	Watch(ctx context.Context, key Key) <-chan struct{}
}

// Do submits one write and waits for it.
func Do(ctx context.Context, s Store, w Write, after ...commit.Ticket) (Change, error) {
	changes, err := s.Submit(ctx, []Write{w}, after...).Wait(ctx)
	if err != nil {
		return Change{}, err
	}
	return changes[0], nil
}
