package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

// maxSummary is the longest summary of a compaction, in bytes.
const maxSummary = 128 << 10

type compactRequest struct {
	SessionID    string          `json:"session_id"`
	Summary      string          `json:"summary"`
	TokensBefore int64           `json:"tokens_before,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	ParentID     *string         `json:"parent_id,omitempty"`
	TailStartID  *string         `json:"tail_start_id,omitempty"`
}

// Validate names the first wrong field.
func (r compactRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	switch {
	case r.Summary == "":
		return bus.Missing("summary")
	case len(r.Summary) > maxSummary:
		return bus.Invalid("summary", "at most 131072 bytes")
	case r.TokensBefore < 0:
		return bus.Invalid("tokens_before", "0 or more")
	case len(r.Details) > 0 && r.Details[0] != '{' && string(r.Details) != "null":
		return bus.Invalid("details", "an object")
	}
	return nil
}

// compact adds an entry that stands for all before it, or before its tail.
func (s *Session) compact(ctx context.Context, call *bus.Call, r compactRequest) (appendResponse, error) {
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return appendResponse{}, err
	}
	e := Entry{Type: TypeCompaction, Summary: r.Summary, TokensBefore: r.TokensBefore, TailStartID: unlessBlank(r.TailStartID), Details: object(r.Details)}
	if e.TailStartID != nil {
		if _, ok, err := s.entry(ctx, r.SessionID, *e.TailStartID); err != nil || !ok {
			return appendResponse{}, orEntryNotFound(r.SessionID, *e.TailStartID, err)
		}
	}
	id := s.IDs.UUID()
	b := &batch{session: r.SessionID, parent: unlessBlank(r.ParentID), loose: true, done: []string{}, nodes: []node{{id: id, content: e}}}
	if err := s.appendSome(ctx, call, b); err != nil {
		return appendResponse{}, err
	}
	return appendResponse{id}, nil
}

func orEntryNotFound(session, id string, err error) error {
	if err != nil {
		return err
	}
	return &Error{Kind: EntryNotFound, Session: session, Detail: id}
}

func unlessBlank(id *string) *string {
	if id == nil || *id == "" {
		return nil
	}
	return id
}

// object is an object, {} for none.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

type compactionsRequest struct {
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r compactionsRequest) Validate() error { return validID("session_id", r.SessionID) }

type compactionRow struct {
	ID           string          `json:"id"`
	Summary      string          `json:"summary"`
	TokensBefore int64           `json:"tokens_before"`
	TailStartID  *string         `json:"tail_start_id"`
	Details      json.RawMessage `json:"details"`
	Timestamp    int64           `json:"timestamp"`
}

type compactionsResponse struct {
	Entries []compactionRow `json:"entries"`
}

// compactions is those of all branches, oldest first.
func (s *Session) compactions(ctx context.Context, call *bus.Call, r compactionsRequest) (compactionsResponse, error) {
	out := compactionsResponse{Entries: []compactionRow{}}
	_, t, err := s.source(ctx, call, r.SessionID)
	if err != nil {
		return out, err
	}
	for _, e := range t.entries {
		if e.Type == TypeCompaction {
			out.Entries = append(out.Entries, compactionRow{e.ID, e.Summary, e.TokensBefore, e.TailStartID, object(e.Details), e.Timestamp})
		}
	}
	return out, nil
}
