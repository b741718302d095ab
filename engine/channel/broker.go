package channel

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// OpenWithin is how long an end may stay unopened.
const OpenWithin = 5 * time.Minute

// MaxOwned is how many channels of one owner may be open at once.
const MaxOwned = 1024

// Local is the broker of one process.
type Local struct {
	clock clock.Clock
	ids   clock.IDs

	mu    sync.Mutex
	open  map[string]*pipe
	owned map[string]int
}

// NewLocal makes a broker. What was left half open is dropped whenever a
// channel is made, and by Sweep.
func NewLocal(c clock.Clock, ids clock.IDs) *Local {
	return &Local{clock: c, ids: ids, open: map[string]*pipe{}, owned: map[string]int{}}
}

// Create makes a channel that belongs to nobody.
func (l *Local) Create(ctx context.Context, buffer int) (writer, reader Ref, err error) {
	return l.CreateOwned(ctx, "", buffer)
}

// CreateOwned makes a channel for an owner, of whom MaxOwned may be open; an
// empty owner has no limit. The owner has no rights: whoever has a ref may open
// its end. Errors: *LimitError.
func (l *Local) CreateOwned(_ context.Context, owner string, buffer int) (writer, reader Ref, err error) {
	if buffer == 0 {
		buffer = DefaultBuffer
	}
	p := &pipe{id: l.ids.UUID(), key: l.ids.UUID(), owner: owner, made: l.clock.Monotonic(), buffer: max(1, min(buffer, MaxBuffer))}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	if owner != "" {
		if l.owned[owner] >= MaxOwned {
			return Ref{}, Ref{}, &LimitError{}
		}
		l.owned[owner]++
	}
	l.open[p.id] = p
	return Ref{ChannelID: p.id, AccessKey: p.key, Direction: Write}, Ref{ChannelID: p.id, AccessKey: p.key, Direction: Read}, nil
}

// Sweep drops the channels of which an end was not opened in time.
func (l *Local) Sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
}

// sweep is Sweep with the lock.
func (l *Local) sweep() {
	now := l.clock.Monotonic()
	for _, p := range l.open {
		if now-p.made >= OpenWithin && !(p.hasWriter && p.hasReader) {
			l.drop(p)
			p.end()
			p.leave()
		}
	}
}

// drop forgets a channel. With the lock.
func (l *Local) drop(p *pipe) {
	if l.open[p.id] != p {
		return
	}
	delete(l.open, p.id)
	if p.owner == "" {
		return
	}
	if l.owned[p.owner]--; l.owned[p.owner] == 0 {
		delete(l.owned, p.owner)
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
		l.drop(p)
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
		l.drop(p)
	}
}

type writer struct{ p *pipe }

func (w *writer) Write(ctx context.Context, m Message) error { return w.p.write(ctx, m) }

func (w *writer) Close() error {
	w.p.end()
	return nil
}

type reader struct {
	l *Local
	p *pipe
}

func (r *reader) Read(ctx context.Context) (Message, error) {
	m, err := r.p.read(ctx)
	if errors.Is(err, io.EOF) {
		r.l.forget(r.p)
	}
	return m, err
}

func (r *reader) Close() error {
	r.l.forget(r.p)
	return nil
}
