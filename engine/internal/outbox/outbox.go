// Package outbox holds what waits to be written to one connection.
//
// # Limits
//
// A Box takes so many items and so many bytes, though always one item. Who has
// more to send waits for Space.
package outbox

import "sync"

// Box is a bounded queue. It is safe for concurrent use; items of one sender
// keep their order.
type Box[T any] struct {
	items, bytes int // the most

	mu    sync.Mutex
	queue []entry[T]
	used  int
	ready chan struct{}
	space chan struct{} // closed when there is room again; nil while nobody waits for that
}

type entry[T any] struct {
	item T
	size int
}

// New is an empty box for so many items and bytes.
func New[T any](items, bytes int) *Box[T] {
	return &Box[T]{items: items, bytes: bytes, ready: make(chan struct{}, 1)}
}

// Offer queues an item of a size in bytes. If there is no room the channel is
// closed when it is worth another try.
func (b *Box[T]) Offer(item T, size int) (ok bool, space <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 && (len(b.queue) >= b.items || b.used+size > b.bytes) {
		if b.space == nil {
			b.space = make(chan struct{})
		}
		return false, b.space
	}
	b.queue = append(b.queue, entry[T]{item, size})
	b.used += size
	b.wake()
	return true, nil
}

// Return puts an item back before all others.
func (b *Box[T]) Return(item T, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append([]entry[T]{{item, size}}, b.queue...)
	b.used += size
	b.wake()
}

// Ready has an element while there may be an item to take.
func (b *Box[T]) Ready() <-chan struct{} { return b.ready }

// Take is the next item and whether more wait; ok is false if there is none.
func (b *Box[T]) Take() (item T, more, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return item, false, false
	}
	e := b.queue[0]
	b.queue[0] = entry[T]{}
	b.queue = b.queue[1:]
	b.free(e.size)
	return e.item, len(b.queue) > 0, true
}

// Keep drops the items that keep refuses.
func (b *Box[T]) Keep(keep func(T) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest, freed := b.queue[:0:0], 0
	for _, e := range b.queue {
		if keep(e.item) {
			rest = append(rest, e)
		} else {
			freed += e.size
		}
	}
	b.queue = rest
	b.free(freed)
	if len(rest) > 0 {
		b.wake()
	}
}

// free makes room. The caller holds mu.
func (b *Box[T]) free(size int) {
	b.used -= size
	if b.space != nil {
		close(b.space)
		b.space = nil
	}
}

func (b *Box[T]) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}
