package session

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
)

type drainRequest struct {
	inboxRequest
	// IDs to take; null takes all.
	IDs []string `json:"ids,omitempty"`
}

type drainResponse struct {
	Items []json.RawMessage `json:"items"`
}

// drain takes items out, all or the named ones, in one write: what is pushed
// meanwhile stays. When the store fails, nothing was taken and the list is
// empty; only the turn, which has said the words, hears of it and tries again.
func (s *Session) drain(ctx context.Context, call *bus.Call, r drainRequest) (drainResponse, error) {
	out := drainResponse{Items: []json.RawMessage{}}
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return out, err
	}
	var items []json.RawMessage
	err := s.change(ctx, r.inboxRequest, func(b *inbox) (bool, error) {
		items = b.take(r.IDs)
		return len(items) > 0, nil
	})
	if err != nil {
		if ofTurn(call) {
			return out, err
		}
		s.Logger.Error("inbox not drained", "alarm", "inbox_drain", "session", r.SessionID, "error", err)
		return out, nil
	}
	out.Items = append(out.Items, items...)
	return out, nil
}

// take takes items out and remembers the last ids that callers gave.
func (b *inbox) take(ids []string) []json.RawMessage {
	var items []json.RawMessage
	var rest []letter
	for _, l := range b.Items {
		if ids != nil && !slices.Contains(ids, l.ID) {
			rest = append(rest, l)
			continue
		}
		items = append(items, l.Item)
		if l.Named {
			b.Taken = append(b.Taken, receipt{l.ID, sum(l.Item)})
		}
	}
	b.Items = rest
	if n := len(b.Taken); n > maxTaken {
		b.Taken = slices.Clone(b.Taken[n-maxTaken:])
	}
	return items
}
