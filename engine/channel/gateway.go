package channel

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

// CodeUnavailable is the code of a channel that no socket could open.
const CodeUnavailable = "channels_unavailable"

// WithoutSockets is engine::channels::create for a server that has no channel
// sockets, as one behind API Gateway: connections hear channels_unavailable,
// workers in the process keep their channels.
func WithoutSockets(create bus.Endpoint) bus.Endpoint {
	handle := create.Handle
	create.Handle = func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
		if call.Connection != "" {
			return nil, &bus.Error{Code: CodeUnavailable, Message: "this server has no channels for connections: send large values by reference (blob::create_upload)"}
		}
		return handle(ctx, call)
	}
	return create
}
