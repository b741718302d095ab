package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/protocol"
)

// Buffer limits, in messages.
const (
	DefaultBuffer = 64
	MaxBuffer     = 1024
)

// Ref names one end of a channel.
type Ref = protocol.ChannelRef

// The directions of a Ref.
const (
	Write = protocol.DirectionWrite
	Read  = protocol.DirectionRead
)

// Message is one message of a channel.
type Message struct {
	Data   []byte
	Binary bool
	// Socket: it came over a socket of a connection.
	Socket bool
}

// Writer is the writing end. One goroutine at a time.
type Writer interface {
	// Write waits while the buffer is full. ErrReaderGone once the reader
	// has left.
	Write(ctx context.Context, m Message) error
	// Close ends the channel; what was written is still delivered. A second
	// Close does nothing.
	Close() error
}

// Reader is the reading end. One goroutine at a time.
type Reader interface {
	// Read waits for a message; io.EOF after the writer closed and all was
	// read.
	Read(ctx context.Context) (Message, error)
	// Close leaves; the writer's next write fails.
	Close() error
}

// Broker makes channels. Each end can be opened once. Implementations are safe
// for concurrent use.
type Broker interface {
	// Create makes a channel; buffer 0 is DefaultBuffer, clamped to
	// 1..MaxBuffer.
	Create(ctx context.Context, buffer int) (writer, reader Ref, err error)
	// OpenWriter and OpenReader take an end by its ref. Errors: ErrUnknown
	// for an unknown id, key or direction, ErrTaken for an end in use.
	OpenWriter(ref Ref) (Writer, error)
	OpenReader(ref Ref) (Reader, error)
}

// Errors of channels.
var (
	ErrUnknown    = errors.New("channel: unknown channel or key")
	ErrTaken      = errors.New("channel: this end is already in use")
	ErrReaderGone = errors.New("channel: the reader has left")
	ErrClosed     = errors.New("channel: the writer is closed")
)

// LimitError is an owner with too many open channels.
type LimitError struct{}

// Error is the text of the error.
func (*LimitError) Error() string {
	return fmt.Sprintf("channel: more than %d channels are open", MaxOwned)
}

// ErrorCode is channels_exhausted.
func (*LimitError) ErrorCode() string { return "channels_exhausted" }

// Retryable is true: channels end.
func (*LimitError) Retryable() bool { return true }
