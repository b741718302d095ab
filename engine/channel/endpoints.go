package channel

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
)

// FunctionCreate makes a channel.
const FunctionCreate = "engine::channels::create"

type createRequest struct {
	BufferSize *uint `json:"buffer_size,omitempty"`
}

type createResponse struct {
	Writer Ref `json:"writer"`
	Reader Ref `json:"reader"`
}

// Endpoints serves engine::channels::create. A buffer of 0 messages counts as 1.
func Endpoints(b Broker) map[string]bus.Endpoint {
	create := func(ctx context.Context, _ *bus.Call, req createRequest) (createResponse, error) {
		size := DefaultBuffer
		if req.BufferSize != nil {
			size = int(min(max(*req.BufferSize, 1), MaxBuffer))
		}
		writer, reader, err := b.Create(ctx, size)
		return createResponse{Writer: writer, Reader: reader}, err
	}
	return map[string]bus.Endpoint{FunctionCreate: input.Endpoint(FunctionCreate, create)}
}
