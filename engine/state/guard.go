package state

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// Guard decides who may have to do with values that belong to somebody. It is
// asked by the functions over a store, for every value. Implementations are
// safe for concurrent use.
type Guard interface {
	// Read reports whether the caller may know of a value; of any other it hears
	// what it would hear if there were none. An empty key asks for the scope.
	Read(ctx context.Context, call *bus.Call, scope, key string) (bool, error)
	// Write is nil, or the error that the caller gets.
	Write(ctx context.Context, call *bus.Call, scope, key string) error
}

// Option changes Endpoints.
type Option func(*endpoints)

// WithGuard asks a guard; without one everybody may everything.
func WithGuard(g Guard) Option { return func(e *endpoints) { e.guard = g } }

// Open is the guard that lets everybody do everything.
type Open struct{}

// Read is true.
func (Open) Read(context.Context, *bus.Call, string, string) (bool, error) { return true, nil }

// Write is nil.
func (Open) Write(context.Context, *bus.Call, string, string) error { return nil }
