package telemetry

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Keys of attributes and baggage members.
const (
	KeySession  = "iii.session.id"
	KeyMessage  = "iii.message.id"
	KeyFunction = "iii.function.id"
)

type ids struct{ session, message string }

// extract finds the ids of a payload: at the top or in body; if both are
// absent there, one level down in payload.
func extract(data json.RawMessage) ids {
	var top struct {
		SessionID json.RawMessage `json:"session_id"`
		MessageID json.RawMessage `json:"message_id"`
		Body      json.RawMessage `json:"body"`
		Payload   json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(data, &top) != nil {
		return ids{}
	}
	found := ids{valid(top.SessionID), valid(top.MessageID)}
	for _, inner := range []json.RawMessage{top.Body, top.Payload} {
		if found != (ids{}) {
			break
		}
		if len(inner) == 0 {
			continue
		}
		var in struct {
			SessionID json.RawMessage `json:"session_id"`
			MessageID json.RawMessage `json:"message_id"`
		}
		if json.Unmarshal(inner, &in) == nil {
			found = ids{valid(in.SessionID), valid(in.MessageID)}
		}
	}
	return found
}

// valid is an id of 1 to 128 printable ASCII characters, else empty.
func valid(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) == 0 || len(s) > 128 {
		return ""
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return ""
		}
	}
	return s
}

// withIDs puts ids into the baggage, over what is there.
func withIDs(b baggage.Baggage, function string, found ids) baggage.Baggage {
	for _, kv := range [][2]string{{KeySession, found.session}, {KeyMessage, found.message}, {KeyFunction, function}} {
		if kv[1] == "" {
			continue
		}
		m, err := baggage.NewMemberRaw(kv[0], kv[1])
		if err != nil {
			continue // not sayable in baggage: the span still has it
		}
		if next, err := b.SetMember(m); err == nil {
			b = next
		}
	}
	return b
}

// baggageProcessor copies the ids of the baggage onto every span.
type baggageProcessor struct{}

func (baggageProcessor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	b := baggage.FromContext(ctx)
	for _, key := range []string{KeySession, KeyMessage, KeyFunction} {
		if v := b.Member(key).Value(); v != "" {
			s.SetAttributes(attribute.String(key, v))
		}
	}
}

func (baggageProcessor) OnEnd(sdktrace.ReadOnlySpan)      {}
func (baggageProcessor) Shutdown(context.Context) error   { return nil }
func (baggageProcessor) ForceFlush(context.Context) error { return nil }
