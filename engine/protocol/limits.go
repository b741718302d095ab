package protocol

import "time"

// Limits of the local server.
const (
	// MaxFrame is the largest WebSocket frame in bytes.
	MaxFrame = 16 << 20
	// MaxMessage is the largest WebSocket message in bytes, all fragments together.
	MaxMessage = 64 << 20
	// OutboundQueue is how many messages wait for one connection before its senders are held back.
	OutboundQueue = 64
	// MaxDepth is how deep the arrays and objects of a frame may nest, the frame included. It leaves room below the
	// 10,000 levels of encoding/json for frames that carry frames.
	MaxDepth = 1000
)

// Limits of API Gateway WebSocket connections, in both directions. See
// https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-execution-service-websocket-limits-table.html.
const (
	// GatewayMaxFrame is the largest WebSocket frame in bytes.
	GatewayMaxFrame = 32 << 10
	// GatewayMaxMessage is the largest message in bytes.
	GatewayMaxMessage = 128 << 10
)

// Bounds of chunked messages, per connection.
const (
	// MaxChunkData is how many bytes of a frame's text one chunk carries at most.
	MaxChunkData = 24 << 10
	// MaxChunkedMessage is the largest frame in bytes that may travel in chunks.
	MaxChunkedMessage = 20 << 20
	// MaxChunks is the largest number of chunks of one message.
	MaxChunks = MaxChunkedMessage >> 10
	// MaxChunkID is the longest id of a chunked message in bytes.
	MaxChunkID = 64
	// MaxOpenChunked is how many unfinished messages a connection may have.
	MaxOpenChunked = 8
	// ChunkTTL is how long a message may stay unfinished, counted from its first chunk.
	ChunkTTL = 60 * time.Second
)
