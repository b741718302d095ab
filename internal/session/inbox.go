package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// The inboxes of a session.
const (
	steering = "steering"
	followup = "followup"
)

const (
	// maxInbox is how many items wait at most.
	maxInbox = 1000
	// maxTaken is how many ids of items that were taken an inbox remembers.
	maxTaken = 100
)

// inbox is a row of scope inbox, under <session>/<name>. It is absent while it
// has nothing to say.
type inbox struct {
	Items []letter `json:"items,omitempty"`
	// Taken lets a push that is sent again know that it was taken meanwhile:
	// the turn has said these words.
	Taken []receipt `json:"taken,omitempty"`
}

// letter is an item that waits.
type letter struct {
	ID   string          `json:"id"`
	Item json.RawMessage `json:"item"`
	// Named: the caller gave the id, and may send the item again under it.
	Named bool `json:"named,omitempty"`
}

// receipt is an item that was taken.
type receipt struct {
	ID  string `json:"id"`
	Sum string `json:"sum"`
}

func sum(item json.RawMessage) string {
	if v, ok := spoken(item); ok {
		item = encode(v)
	}
	h := sha256.Sum256(item)
	return hex.EncodeToString(h[:8])
}

// find looks for an item, waiting or taken: whether there is one under the id,
// and whether it says the same.
func (b *inbox) find(id string, item json.RawMessage) (found, same bool) {
	for _, l := range b.Items {
		if l.ID == id {
			return true, sameMessage(l.Item, item)
		}
	}
	for _, r := range b.Taken {
		if r.ID == id {
			return true, r.Sum == sum(item)
		}
	}
	return false, false
}

type inboxRequest struct {
	Name      string `json:"name"`
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r inboxRequest) Validate() error {
	if r.Name == "" {
		return bus.Missing("name")
	}
	if r.Name != steering && r.Name != followup {
		return bus.Invalid("name", "steering or followup")
	}
	return validID("session_id", r.SessionID)
}

func (r inboxRequest) key() state.Key {
	return state.Key{Scope: agent.ScopeInbox, Key: r.SessionID + "/" + r.Name}
}

// other is the session's other inbox.
func (r inboxRequest) other() inboxRequest {
	if r.Name == steering {
		return inboxRequest{Name: followup, SessionID: r.SessionID}
	}
	return inboxRequest{Name: steering, SessionID: r.SessionID}
}

// inbox reads a row, strongly consistent; version 0 means that there is none.
func (s *Session) inbox(ctx context.Context, r inboxRequest) (inbox, int64, error) {
	var b inbox
	version, err := s.read(ctx, r.SessionID, "inbox", r.key(), &b)
	return b, version, err
}

// change rewrites an inbox under its version, all or nothing. f answers whether
// it changed anything; it runs again on a fresh copy when another writer was
// first.
func (s *Session) change(ctx context.Context, r inboxRequest, f func(*inbox) (bool, error)) error {
	var last error
	for range attempts {
		b, version, err := s.inbox(ctx, r)
		if err != nil {
			return err
		}
		changed, err := f(&b)
		if err != nil || !changed {
			return err
		}
		w := state.Write{Key: r.key(), Kind: state.KindSet, Value: encode(b)}
		if len(b.Items) == 0 && len(b.Taken) == 0 {
			w = state.Write{Key: r.key(), Kind: state.KindDelete}
		}
		if version == 0 {
			w = w.IfAbsent()
		} else {
			w = w.IfVersion(version)
		}
		if _, last = state.Do(ctx, s.State, w); last == nil {
			return nil
		}
		if !unsettled(last) {
			break
		}
		if !isConflict(last) && s.holds(ctx, w) {
			return nil
		}
	}
	return storage(r.SessionID, "write inbox", last)
}

// holds reports whether a write whose answer was lost was applied, and nothing
// since.
func (s *Session) holds(ctx context.Context, w state.Write) bool {
	item, ok, err := s.State.Get(ctx, w.Key)
	if err != nil {
		return false
	}
	if w.Kind == state.KindDelete {
		return !ok
	}
	return ok && bytes.Equal(item.Value, w.Value)
}
