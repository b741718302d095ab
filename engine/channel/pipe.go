package channel

import (
	"context"
	"io"
	"sync"
	"time"
)

// maxQueued is how many bytes wait in a channel before its writer has to, if
// there is more than one message. It bounds what a fast writer costs, whatever
// the buffer.
const maxQueued = 4 << 20

// pipe is one channel.
type pipe struct {
	id, key, owner string
	made           time.Duration
	buffer         int

	mu    sync.Mutex
	queue []Message
	bytes int
	// ended is set by the writer, left by the reader.
	ended, left bool
	// changed is closed at the next change; nil if nobody waits for one.
	changed chan struct{}

	// The broker's lock guards these.
	hasWriter, hasReader bool
	done                 bool // the reader is
}

// wait gives what is closed at the next change. With the lock.
func (p *pipe) wait() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// change wakes who waits. With the lock.
func (p *pipe) change() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.change()
}

// leave drops what waits: nobody will read it.
func (p *pipe) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.queue, p.bytes = true, nil, 0
	p.change()
}

// put adds a message, or gives what to wait for.
func (p *pipe) put(m Message) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left: // a swept channel has ended and was left: to its writer, the reader is gone
		return nil, ErrReaderGone
	case p.ended:
		return nil, ErrClosed
	case len(p.queue) >= p.buffer, len(p.queue) > 0 && p.bytes+len(m.Data) > maxQueued:
		return p.wait(), nil
	}
	p.queue = append(p.queue, m)
	p.bytes += len(m.Data)
	p.change()
	return nil, nil
}

// take takes the first message, or gives what to wait for; io.EOF at the end.
func (p *pipe) take() (Message, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) > 0:
		m := p.queue[0]
		p.queue[0] = Message{}
		p.queue = p.queue[1:]
		p.bytes -= len(m.Data)
		p.change()
		return m, nil, nil
	case p.ended, p.left:
		return Message{}, nil, io.EOF
	}
	return Message{}, p.wait(), nil
}

func (p *pipe) write(ctx context.Context, m Message) error {
	for {
		changed, err := p.put(m)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipe) read(ctx context.Context) (Message, error) {
	for {
		m, changed, err := p.take()
		if changed == nil {
			return m, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}
