package fanout

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// byStep marks the events that a step stored: it posts them itself.
const byStep = "step"

// EventRequest is what a stream trigger delivers, or {group_id, data}.
type EventRequest struct {
	GroupID string `json:"groupId"`
	Group   string `json:"group_id"`
	By      string `json:"by"`
	Event   struct {
		Type stream.EventKind `json:"type"`
	} `json:"event"`
}

// event serves the stream trigger on the events of sessions: it lets the
// viewers of the session have what no running step wrote.
func (f *Fanout) event(ctx context.Context, _ *bus.Call, r EventRequest) (bus.None, error) {
	session := r.GroupID
	if session == "" {
		session = r.Group
	}
	switch {
	case session == "":
		f.Logger.Warn("event of no session dropped")
		return bus.None{}, nil
	case r.By == byStep, r.Event.Type == stream.Remove, r.Event.Type == stream.Ephemeral:
		return bus.None{}, nil
	}
	return bus.None{}, f.Hub.Serve(ctx, session)
}

// SessionRequest is what a state trigger delivers.
type SessionRequest struct {
	EventType state.EventType `json:"event_type"`
	Key       string          `json:"key"`
}

// sessionCreated serves the state trigger on the marks of new sessions: it tells
// the viewers of all sessions.
func (f *Fanout) sessionCreated(ctx context.Context, _ *bus.Call, r SessionRequest) (bus.None, error) {
	if r.EventType != state.Created || r.Key == "" {
		return bus.None{}, nil
	}
	return bus.None{}, f.Hub.Announce(ctx, r.Key)
}
