package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	// reservedTokens is what a model needs beside the conversation.
	reservedTokens = 20_000
	compactFor     = 60 * time.Second
)

// usable is how many tokens of a window the conversation may take.
func usableTokens(l agent.ModelLimit) int64 {
	switch {
	case l.Context == 0:
		return 0
	case l.Input > 0:
		return max(0, l.Input-reservedTokens)
	default:
		return max(0, l.Context-l.Output)
	}
}

// preflight makes room if the conversation would not fit the model, and gives
// the messages as they are then. Errors: *ContextOverflowError, transient if a
// compaction runs.
func (d *driver) preflight(req *runRequest, r route, messages []agent.Message) ([]agent.Message, error) {
	limit := d.limit()
	if limit == nil {
		return messages, nil
	}
	projected := estimate(messages, req.SystemPrompt, req.Functions)
	if projected < usableTokens(*limit) {
		return messages, nil
	}
	if err := d.drain(); err != nil {
		return nil, err
	}
	raw, err := d.invoke(d.work, "context-compaction::compact_now", encode(map[string]any{
		"session_id": d.rec.SessionID, "projected_tokens": projected, "last_user_message_id": d.lastUserEntry(),
		"model": map[string]any{"id": req.Model, "providerID": r.name, "limit": limit},
	}), compactFor)
	if err != nil && bus.Code(err) == protocol.CodeFunctionNotFound && projected > limit.Context {
		return nil, &ContextOverflowError{Message: fmt.Sprintf(
			"the conversation takes about %d tokens, the model %s has room for %d, and no worker can compact it", projected, req.Model, limit.Context)}
	}
	var res struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &res)
	}
	if err != nil {
		d.t.Logger.Warn("conversation not compacted", "session", d.rec.SessionID, "error", clean(err))
		return messages, nil
	}
	switch res.Status {
	case "overflow":
		return nil, &ContextOverflowError{Message: res.Message}
	case "busy":
		return nil, &TransientError{Code: CodeCompactionBusy, Err: errors.New("a compaction of the session is running")}
	case "ok":
		// The path has grown: what comes next hangs on its new end.
		d.read, d.rec.LeafID = false, ""
		return d.conversation()
	}
	return messages, nil
}

// lastUserEntry is the entry id of the last user message; empty if it cannot
// be had.
func (d *driver) lastUserEntry() string {
	path, err := d.t.readPath(d.work, d.rec.Principal, d.rec.SessionID)
	if err != nil {
		d.t.Logger.Warn("last user message unknown", "session", d.rec.SessionID, "error", clean(err))
		return ""
	}
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Message.Role == agent.RoleUser {
			return path[i].EntryID
		}
	}
	return ""
}
