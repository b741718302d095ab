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
// Connections of one principal share a limit, if the broker knows one.
func Endpoints(b Broker) map[string]bus.Endpoint {
	owned, _ := b.(interface {
		CreateOwned(ctx context.Context, owner string, buffer int) (writer, reader Ref, err error)
	})
	create := func(ctx context.Context, call *bus.Call, req createRequest) (createResponse, error) {
		size := DefaultBuffer
		if req.BufferSize != nil {
			size = int(min(max(*req.BufferSize, 1), MaxBuffer))
		}
		if owned != nil && call.Connection != "" {
			writer, reader, err := owned.CreateOwned(ctx, call.Principal.ID, size)
			return createResponse{Writer: writer, Reader: reader}, err
		}
		writer, reader, err := b.Create(ctx, size)
		return createResponse{Writer: writer, Reader: reader}, err
	}
	return map[string]bus.Endpoint{FunctionCreate: input.Endpoint(FunctionCreate, create)}
}
