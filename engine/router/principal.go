package router

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// principalOf is for whom a socket's call is made.
//
// A call that the socket was given and has not answered lends its principal: the one that parent_invocation_id names,
// or else the calls of the same trace, if they agree. Otherwise the socket acts for itself. A socket that may act for
// others may name whom, and then acts as itself for that person.
func principalOf(p *peer, f *protocol.InvokeFunction) bus.Principal {
	own := p.conn().Principal()
	if f.Metadata != nil {
		if person := onBehalfOf(p, f.Metadata); person != "" {
			own.OnBehalfOf = person
			return own
		}
		if id := member(f.Metadata, protocol.MetadataParentInvocationID); id != "" {
			if parent := p.given(id); parent != nil {
				return parent.Principal
			}
		}
	}
	if trace := traceID(f.Traceparent); trace != "" {
		if same, ok := agreed(p.traced(trace)); ok {
			return same
		}
	}
	return own
}

// onBehalfOf is the person that a trusted socket acts for.
func onBehalfOf(p *peer, metadata json.RawMessage) string {
	claim, ok := protocol.Member(metadata, protocol.MetadataPrincipal)
	if !ok || !p.conn().MayActForOthers() {
		return ""
	}
	return member(claim, "on_behalf_of")
}

// agreed is the principal of all calls, if there is one.
func agreed(calls []*call) (bus.Principal, bool) {
	if len(calls) == 0 {
		return bus.Principal{}, false
	}
	first := calls[0].Principal
	for _, c := range calls[1:] {
		if !equal(c.Principal, first) {
			return bus.Principal{}, false
		}
	}
	return first, true
}

// equal compares who is meant.
func equal(a, b bus.Principal) bool {
	return a.ID == b.ID && a.Role == b.Role && a.WorkspaceID == b.WorkspaceID && a.OnBehalfOf == b.OnBehalfOf
}
