package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

type appendRequest struct {
	SessionID string          `json:"session_id"`
	ParentID  *string         `json:"parent_id,omitempty"`
	Message   json.RawMessage `json:"message"`
	EntryID   string          `json:"entry_id,omitempty"`
}

// Validate names the first wrong field.
func (r appendRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	if len(r.Message) == 0 {
		return bus.Missing("message")
	}
	if r.EntryID != "" {
		return validID("entry_id", r.EntryID)
	}
	return nil
}

type appendResponse struct {
	EntryID string `json:"entry_id"`
}

// append adds one message.
func (s *Session) append(ctx context.Context, call *bus.Call, r appendRequest) (appendResponse, error) {
	batch := batchRequest{SessionID: r.SessionID, ParentID: r.ParentID, Messages: []json.RawMessage{r.Message}, single: true}
	if r.EntryID != "" {
		batch.EntryIDs = []string{r.EntryID}
	}
	out, err := s.appendBatch(ctx, call, batch)
	if err != nil {
		return appendResponse{}, err
	}
	return appendResponse{out.EntryIDs[0]}, nil
}

type batchRequest struct {
	SessionID string            `json:"session_id"`
	ParentID  *string           `json:"parent_id,omitempty"`
	Messages  []json.RawMessage `json:"messages"`
	EntryIDs  []string          `json:"entry_ids,omitempty"`

	single bool // it was made of an append
}

// Validate names the first wrong field.
func (r batchRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	switch {
	case r.Messages == nil:
		return bus.Missing("messages")
	case len(r.Messages) > maxBatch:
		return bus.Invalid("messages", "at most 1000")
	case r.EntryIDs != nil && len(r.EntryIDs) != len(r.Messages):
		return bus.Invalid("entry_ids", "one for each message")
	}
	for _, id := range r.EntryIDs {
		if err := validID("entry_ids", id); err != nil {
			return err
		}
	}
	return nil
}

type batchResponse struct {
	EntryIDs []string `json:"entry_ids"`
}

// appendBatch adds messages that hang on one another. What fits into one
// transaction is stored whole or not at all; a longer batch may be left in
// part, and goes on where it was when it is sent again with the same ids.
func (s *Session) appendBatch(ctx context.Context, call *bus.Call, r batchRequest) (batchResponse, error) {
	b, err := s.batch(r)
	if err != nil {
		return batchResponse{}, err
	}
	b.loose = ofTurn(call)
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return batchResponse{}, err
	}
	if len(b.nodes) == 0 {
		if _, err := s.idle(ctx, call, r.SessionID); err != nil {
			return batchResponse{}, err
		}
	}
	for len(b.nodes) > 0 {
		if err := s.appendSome(ctx, call, b); err != nil {
			return batchResponse{}, err
		}
	}
	return batchResponse{b.done}, nil
}

// appendSome stores the first nodes of a batch, as many as a transaction takes.
func (s *Session) appendSome(ctx context.Context, call *bus.Call, b *batch) error {
	var last error
	for range attempts {
		if last = s.tryAppend(ctx, call, b); last == nil {
			return nil
		}
		if !unsettled(last) {
			return last
		}
		if err := s.skipStored(ctx, b); err != nil {
			return err
		}
		if len(b.nodes) == 0 {
			return nil
		}
	}
	return storage(b.session, "append: other writers were first each time", last)
}
