package gateway

import (
	"context"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// outbox holds the messages that wait for one socket: so many, and so many
// bytes, though always one.
type outbox struct {
	mu     sync.Mutex
	queue  [][]byte
	bytes  int
	ready  chan struct{} // has an element while there may be a message
	space  chan struct{} // closed when there is room again; nil while nobody waits for that
	closed <-chan struct{}
}

func newOutbox(closed <-chan struct{}) *outbox {
	return &outbox{ready: make(chan struct{}, 1), closed: closed}
}

// put queues a message; it waits while there is no room. Errors: bus.ErrGone
// once the socket is closed, else that of ctx.
func (o *outbox) put(ctx context.Context, b []byte) error {
	for {
		select {
		case <-o.closed:
			return bus.ErrGone
		default:
		}
		o.mu.Lock()
		if len(o.queue) == 0 || len(o.queue) < protocol.OutboundQueue && o.bytes+len(b) <= protocol.MaxMessage {
			o.queue = append(o.queue, b)
			o.bytes += len(b)
			o.mu.Unlock()
			select {
			case o.ready <- struct{}{}:
			default:
			}
			return nil
		}
		if o.space == nil {
			o.space = make(chan struct{})
		}
		space := o.space
		o.mu.Unlock()
		select {
		case <-space:
		case <-o.closed:
			return bus.ErrGone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take is the next message and whether more wait; nil if there is none.
func (o *outbox) take() (b []byte, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil, false
	}
	b = o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= len(b)
	if o.space != nil {
		close(o.space)
		o.space = nil
	}
	return b, len(o.queue) > 0
}
