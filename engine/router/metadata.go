package router

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// busMembers are the members of metadata that the bus alone sets.
var busMembers = []string{
	protocol.MetadataPrincipal, protocol.MetadataDeadlineMS, protocol.MetadataIdempotencyKey, protocol.MetadataReply,
}

// ownMetadata is the caller's metadata without the members of the bus; nil if there is none. What is no object is
// wrapped as {"value": ...}.
func ownMetadata(metadata json.RawMessage) (json.RawMessage, error) {
	if len(metadata) == 0 || string(metadata) == "null" {
		return nil, nil
	}
	own, err := protocol.RemoveMember(protocol.MetadataObject(metadata), busMembers...)
	if err != nil {
		return nil, bus.Invalid("metadata", "JSON")
	}
	return own, nil
}

// principalMember is a principal as callees see it.
type principalMember struct {
	ID          string   `json:"id"`
	Role        bus.Role `json:"role"`
	WorkspaceID string   `json:"workspace_id,omitempty"`
	OnBehalfOf  string   `json:"on_behalf_of,omitempty"`
}

// busMetadata is the metadata that travels to a socket: the caller's own and the members of the bus.
func busMetadata(c *bus.Call) (json.RawMessage, error) {
	principal, err := bus.Encode(principalMember{
		ID: c.Principal.ID, Role: c.Principal.Role, WorkspaceID: c.Principal.WorkspaceID, OnBehalfOf: c.Principal.OnBehalfOf,
	})
	if err != nil {
		return nil, err
	}
	key, err := bus.Encode(c.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	pairs := []protocol.Pair{
		{Key: protocol.MetadataPrincipal, Value: principal},
		{Key: protocol.MetadataDeadlineMS},
		{Key: protocol.MetadataIdempotencyKey, Value: key},
		{Key: protocol.MetadataReply},
	}
	if !c.Deadline.IsZero() {
		pairs[1].Value = strconv.AppendInt(nil, clock.Millis(c.Deadline), 10)
	}
	if c.Reply != nil {
		if pairs[3].Value, err = bus.Encode(c.Reply); err != nil {
			return nil, err
		}
	}
	return protocol.SetMembers(protocol.MetadataObject(c.Metadata), pairs...)
}

// member is a string member of metadata; empty if it is absent or no string.
func member(metadata json.RawMessage, key string) string {
	value, ok := protocol.Member(metadata, key)
	var s string
	if !ok || json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// traceID is the trace id of a W3C traceparent; empty if it is none.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0") == "" {
		return ""
	}
	return strings.ToLower(parts[1])
}
