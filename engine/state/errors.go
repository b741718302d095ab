package state

import "fmt"

// ConflictError means that the condition of a write did not hold. A failed condition and
// a cancelled transaction are the same conflict.
type ConflictError struct {
	Key
	// Index of the write in its transaction.
	Index int
	// Current is the stored item, nil if absent or not known.
	Current *Item
}

// Error is the text of the error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("state: conflict on %s/%s", e.Scope, e.Key.Key)
}

// ErrorCode is CONFLICT.
func (e *ConflictError) ErrorCode() string { return "CONFLICT" }

// Retryable reports that a retry may succeed, after reading again.
func (e *ConflictError) Retryable() bool { return true }

// TooLargeError is a value above MaxValue. It is permanent.
type TooLargeError struct {
	Key
	Size int
}

// Error is the text of the error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("state: value of %s/%s has %d bytes, at most %d are allowed", e.Scope, e.Key.Key, e.Size, MaxValue)
}

// ErrorCode is VALUE_TOO_LARGE.
func (e *TooLargeError) ErrorCode() string { return "VALUE_TOO_LARGE" }

// InvalidKeyError is a scope or key that cannot be stored.
type InvalidKeyError struct {
	Field   string // "scope" or "key"
	Allowed string
}

// Error is the text of the error.
func (e *InvalidKeyError) Error() string {
	return fmt.Sprintf("state: invalid %s: must be %s", e.Field, e.Allowed)
}

// ErrorCode is SET_ERROR.
func (e *InvalidKeyError) ErrorCode() string { return "SET_ERROR" }

// StorageError means that the store failed. Ambiguous: the write may have been applied.
type StorageError struct {
	Op        string
	Ambiguous bool
	Retry     bool
	Err       error
}

// Error is the text of the error.
func (e *StorageError) Error() string { return fmt.Sprintf("state: %s: %v", e.Op, e.Err) }

// Unwrap is the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// ErrorCode is STORAGE_ERROR.
func (e *StorageError) ErrorCode() string { return "STORAGE_ERROR" }

// Retryable reports whether the same call may succeed later.
func (e *StorageError) Retryable() bool { return e.Retry }
