package channel

import (
	"context"
	"crypto/subtle"
	"io"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// OpenWithin is how long an end may stay unopened.
const OpenWithin = 5 * time.Minute

// Local is the broker of one process.
type Local struct {
	clock clock.Clock
	ids   clock.IDs

	mu   sync.Mutex
	open map[string]*pipe
}

// NewLocal makes a broker. What was left half open is dropped whenever a
// channel is made, so an idle broker does nothing.
func NewLocal(c clock.Clock, ids clock.IDs) *Local {
	return &Local{clock: c, ids: ids, open: map[string]*pipe{}}
}

// pipe is one channel.
type pipe struct {
	id, key string
	made    time.Duration
	queue   chan Message
	// ended is closed by the writer, left by the reader.
	ended, left          chan struct{}
	endOnce, leaveOnce   sync.Once
	hasWriter, hasReader bool
	done                 bool // the reader is
}

func (p *pipe) end()   { p.endOnce.Do(func() { close(p.ended) }) }
func (p *pipe) leave() { p.leaveOnce.Do(func() { close(p.left) }) }

// Create makes a channel.
func (l *Local) Create(_ context.Context, buffer int) (writer, reader Ref, err error) {
	if buffer == 0 {
		buffer = DefaultBuffer
	}
	buffer = max(1, min(buffer, MaxBuffer))
	p := &pipe{id: l.ids.UUID(), key: l.ids.UUID(), made: l.clock.Monotonic(), queue: make(chan Message, buffer), ended: make(chan struct{}), left: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	l.open[p.id] = p
	return Ref{ChannelID: p.id, AccessKey: p.key, Direction: Write}, Ref{ChannelID: p.id, AccessKey: p.key, Direction: Read}, nil
}

// sweep drops channels that were never fully opened in time. With the lock.
func (l *Local) sweep() {
	now := l.clock.Monotonic()
	for id, p := range l.open {
		if now-p.made >= OpenWithin && !(p.hasWriter && p.hasReader) {
			delete(l.open, id)
			p.end()
			p.leave()
		}
	}
}

// take finds a channel and marks one end as taken.
func (l *Local) take(ref Ref, want protocol.Direction) (*pipe, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	p := l.open[ref.ChannelID]
	if p == nil || ref.Direction != want || subtle.ConstantTimeCompare([]byte(p.key), []byte(ref.AccessKey)) != 1 {
		return nil, ErrUnknown
	}
	taken := &p.hasReader
	if want == Write {
		taken = &p.hasWriter
	}
	if *taken {
		return nil, ErrTaken
	}
	*taken = true
	if p.hasWriter && p.done {
		delete(l.open, p.id)
	}
	return p, nil
}

// OpenWriter takes the writing end.
func (l *Local) OpenWriter(ref Ref) (Writer, error) {
	p, err := l.take(ref, Write)
	if err != nil {
		return nil, err
	}
	return &writer{p}, nil
}

// OpenReader takes the reading end.
func (l *Local) OpenReader(ref Ref) (Reader, error) {
	p, err := l.take(ref, Read)
	if err != nil {
		return nil, err
	}
	return &reader{l, p}, nil
}

// forget drops a channel whose reader is done. A writer that has not opened its
// end yet may still do so, and hears at its first write that the reader left.
func (l *Local) forget(p *pipe) {
	p.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	p.done = true
	if p.hasWriter {
		delete(l.open, p.id)
	}
}

type writer struct{ p *pipe }

func (w *writer) Write(ctx context.Context, m Message) error {
	// A swept channel has ended and was left: to its writer, the reader is gone.
	select {
	case <-w.p.left:
		return ErrReaderGone
	default:
	}
	select {
	case <-w.p.ended:
		return ErrClosed
	default:
	}
	select {
	case w.p.queue <- m:
		return nil
	case <-w.p.left:
		return ErrReaderGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) Close() error {
	w.p.end()
	return nil
}

type reader struct {
	l *Local
	p *pipe
}

func (r *reader) Read(ctx context.Context) (Message, error) {
	select {
	case m := <-r.p.queue:
		return m, nil
	default:
	}
	select {
	case m := <-r.p.queue:
		return m, nil
	case <-r.p.ended:
	case <-r.p.left:
		return Message{}, io.EOF
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
	// The writer has ended: nothing is added any more.
	select {
	case m := <-r.p.queue:
		return m, nil
	default:
		r.l.forget(r.p)
		return Message{}, io.EOF
	}
}

func (r *reader) Close() error {
	r.l.forget(r.p)
	return nil
}
