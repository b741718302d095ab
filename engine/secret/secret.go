// Package secret is the port for credentials.
//
// # Contract
//
// A secret is a JSON value under a name. Writers of different names never lose
// each other's write. Values never appear in errors.
package secret

import (
	"context"
	"encoding/json"
	"fmt"
)

// Store is the port. Implementations are safe for concurrent use.
type Store interface {
	// Get reads a secret; ok is false if there is none.
	Get(ctx context.Context, name string) (value json.RawMessage, ok bool, err error)
	// Set stores a secret durably before it returns.
	Set(ctx context.Context, name string, value json.RawMessage) error
	// Delete removes a secret; an absent one is no error.
	Delete(ctx context.Context, name string) error
	// Names is the names of all secrets, sorted.
	Names(ctx context.Context) ([]string, error)
}

// StoreError: the store cannot be read or written. Field is what to mend.
type StoreError struct {
	Path string
	Op   string
	Err  error
}

// Error is the text of the error.
func (e *StoreError) Error() string { return fmt.Sprintf("secret: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap is the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// ErrorCode is STORAGE_ERROR.
func (e *StoreError) ErrorCode() string { return "STORAGE_ERROR" }
