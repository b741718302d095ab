// Package commit orders durable writes across ports.
//
// # Contract
//
// A port write is submitted and gives a Ticket at once; the caller waits for
// it when, and only if, it needs to know. A write may name tickets that it
// comes after: it is applied only if all of them were applied, and fails with
// ErrSkipped otherwise.
//
// # Ordering and delivery
//
// A backend with one committer applies chained writes in the order they were
// submitted, usually in one commit. A remote backend waits for the earlier
// answers before it sends. Writes that are not chained have no order.
//
// # Failure and retry
//
// A ticket whose write may or may not have been applied (a lost answer) ends
// with an error whose Ambiguous is true; the caller reads back.
package commit

import (
	"context"
	"errors"
)

// ErrSkipped: a write that this one comes after was not applied.
var ErrSkipped = errors.New("commit: skipped, an earlier write of the chain was not applied")

// Ticket stands for one submitted write.
type Ticket interface {
	// Done is closed when the write was applied or has failed.
	Done() <-chan struct{}
	// Err is nil if the write was applied. Valid after Done.
	Err() error
}

// Wait waits for all tickets and returns the first error in their order. The
// writes go on when ctx ends.
func Wait(ctx context.Context, tickets ...Ticket) error {
	for _, t := range tickets {
		if t == nil {
			continue
		}
		select {
		case <-t.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, t := range tickets {
		if t != nil && t.Err() != nil {
			return t.Err()
		}
	}
	return nil
}

// Promise is the Ticket of a backend: a write with a result of type T.
type Promise[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// NewPromise is an open promise.
func NewPromise[T any]() *Promise[T] { return &Promise[T]{done: make(chan struct{})} }

// Resolved is a promise that has already ended.
func Resolved[T any](value T, err error) *Promise[T] {
	p := NewPromise[T]()
	p.Resolve(value, err)
	return p
}

// Resolve ends the promise. It must be called once.
func (p *Promise[T]) Resolve(value T, err error) {
	p.value, p.err = value, err
	close(p.done)
}

// Done is closed when the promise has ended.
func (p *Promise[T]) Done() <-chan struct{} { return p.done }

// Err is the error of an ended promise.
func (p *Promise[T]) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait waits for the result. The write goes on when ctx ends.
func (p *Promise[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-p.done:
		return p.value, p.err
	default:
	}
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// Then gives a promise of f's result. f runs once p was applied, on a
// goroutine of its own.
func Then[T, U any](p *Promise[T], f func(T) (U, error)) *Promise[U] {
	out := NewPromise[U]()
	go func() {
		<-p.done
		if p.err != nil {
			var zero U
			out.Resolve(zero, p.err)
			return
		}
		out.Resolve(f(p.value))
	}()
	return out
}
