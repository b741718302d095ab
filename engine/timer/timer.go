// Package timer is the port for durable timers.
//
// # Contract
//
// A timer sends one queue message when its time has come. It is idempotent by
// id: setting it again with the same id replaces time and message as long as
// it has not fired.
//
// # Ordering and delivery
//
// At least once: the message is stored before the timer is forgotten. Never
// early by the wall clock; late by as much as the host was down.
package timer

import (
	"context"
	"time"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// Timer is one timer.
type Timer struct {
	ID      string
	At      time.Time
	Message queue.Message
}

// Port sets and cancels timers. Implementations are safe for concurrent use.
type Port interface {
	// Submit sets a timer, after the given tickets.
	Submit(ctx context.Context, t Timer, after ...commit.Ticket) *commit.Promise[struct{}]
	// Cancel forgets a timer; one that fired or never was is no error.
	Cancel(ctx context.Context, id string, after ...commit.Ticket) *commit.Promise[struct{}]
}
