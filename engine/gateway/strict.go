package gateway

import (
	"time"

	"github.com/iii-aws/harness/engine/protocol"
)

// What API Gateway does to a connection. See
// https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-execution-service-websocket-limits-table.html.
const (
	// IdleLimit is how long a connection lives without a message in either
	// direction. Control frames are no messages: nobody says whether they count.
	IdleLimit = 10 * time.Minute
	// LifeLimit is how long a connection lives at all.
	LifeLimit = 2 * time.Hour
)

const (
	// Keepalive is how long the bus leaves a connection without a message. Some
	// SDKs drop a connection on which nothing came for 60 s.
	Keepalive = 45 * time.Second
	// Spread is how much later than another, at most, a frame of the same
	// connection that came before may be handled.
	Spread = 4 * time.Millisecond
	// maxInFlight is how many frames of a connection are handled at once; the
	// next ones wait in the socket.
	maxInFlight = 64
	// maxChunksInFlight keeps the pieces that overtake each other within
	// protocol.MaxOpenChunked messages.
	maxChunksInFlight = protocol.MaxOpenChunked
)

// Strict makes a Server behave as API Gateway does.
type Strict struct {
	// Stage is the only path, without slashes.
	Stage string
	// Seed decides in which order frames are handled: the same one gives the
	// same order for the same frames.
	Seed uint64
}

// path is the only path that is served.
func (s *Server) path() string {
	if s.cfg.Strict != nil {
		return "/" + s.cfg.Strict.Stage
	}
	return "/"
}

// limits are those of every socket.
func (s *Server) limits() limits {
	if s.cfg.Strict != nil {
		return limits{frame: protocol.GatewayMaxFrame, message: protocol.GatewayMaxMessage, text: true}
	}
	return limits{frame: protocol.MaxFrame, message: protocol.MaxMessage}
}
