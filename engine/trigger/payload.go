package trigger

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// statePayload is what a state trigger delivers.
type statePayload struct {
	Type      string          `json:"type"`
	EventType state.EventType `json:"event_type"`
	Scope     string          `json:"scope"`
	Key       string          `json:"key"`
	Old       json.RawMessage `json:"old_value"`
	New       json.RawMessage `json:"new_value"`
}

// streamPayload is what a stream trigger delivers. By names the writer of a log's event, where one is known.
type streamPayload struct {
	Type      string      `json:"type"`
	Timestamp int64       `json:"timestamp"`
	Stream    string      `json:"streamName"`
	Group     string      `json:"groupId"`
	Item      *string     `json:"id"`
	Event     streamEvent `json:"event"`
	By        string      `json:"by,omitempty"`
}

// streamEvent has data for what is stored, and event for what was only sent.
type streamEvent struct {
	Type  stream.EventKind `json:"type"`
	Data  json.RawMessage  `json:"data,omitempty"`
	Event json.RawMessage  `json:"event,omitempty"`
}

func payloadOf(c state.Change) (json.RawMessage, error) {
	return bus.Encode(statePayload{
		Type: TypeState, EventType: c.Type, Scope: c.Scope, Key: c.Key.Key, Old: orNull(c.Old), New: orNull(c.New),
	})
}

func payloadOfEvent(e stream.Event) (json.RawMessage, error) {
	p := streamPayload{
		Type: TypeStream, Timestamp: clock.Millis(e.At), Stream: e.Stream, Group: e.Group, Item: unlessEmpty(e.Item), By: e.By,
		Event: streamEvent{Type: e.Kind},
	}
	if e.Kind == stream.Ephemeral {
		p.Event.Event = orNull(e.Data)
	} else {
		p.Event.Data = orNull(e.Data)
	}
	return bus.Encode(p)
}

func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}
