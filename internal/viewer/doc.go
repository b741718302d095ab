// Package viewer posts the events and deltas of a session to those who watch
// it. It is a library, shared by the turn (which notifies it) and by the
// functions that take subscriptions; no worker of its own.
//
// # Contract
//
// A subscription is a stored [Row]. It names the connection that asked, and the
// sequence of the next event that it gets. A [Hub] runs one pump per
// connection and session: it reads the event log from there and posts what it
// finds to ui::session::event::<browser id> of that connection. A step that
// holds the turn opens a [Step], tells it how far the log reaches, and hands it
// the deltas of the message that is being streamed; it never posts itself.
// Where no step runs, [Hub.Serve] does the same for events of other writers.
//
// One push carries {session_id, epoch, seq|null, rev?, event}, or for a viewer
// that takes batches {session_id, epoch, events: [{seq|null, rev?, event}]}.
//
// A viewer of all sessions gets the stored events of those that it may see,
// and no deltas.
//
// # Ordering and delivery
//
// Per connection and session: events in the order of the log without a gap,
// and the deltas of a message behind all events that were told before the
// first of them. One post is in flight per connection. Deltas are not queued
// per viewer: a pump has a place in the text so far, so that a slow viewer gets
// what it missed as one larger delta, and what is left when the message is
// complete is dropped if it is more than a page. Events are never dropped. A
// viewer that joins in mid-message first gets snapshots of the blocks so far.
// Deltas of a superseded step are ignored.
//
// Revisions never go down. They repeat only where one delta or one snapshot
// needs several pages; block and offset (in runes) always tell the place.
//
// A viewer may get an event twice only if two processes serve it at once, or if
// one ended before it saved how far it got: it drops what is not above the last
// sequence that it saw.
//
// # Failure and retry
//
// A connection that is gone for good ([Hub.Forget], or a post finds it so), or
// does not serve the function id, loses its row; the removal depends on the row
// being that very subscription. An event above the frame limit is stored as a
// blob and goes as {type, $blob}.
// Any other failure is tried again with growing pauses; after that the row
// stays where it is, and the next event starts over. Nothing here fails a turn
// or makes it wait, but [Step.Flush], which is bounded.
//
// # Limits
//
// Text of a delta or snapshot: [PageBytes] as JSON text. A batch: [FrameBytes].
// A row expires [Config].RowTTL after it was last written; it is written when
// it is made and when a step ends that moved it.
package viewer
