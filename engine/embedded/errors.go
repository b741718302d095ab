package embedded

import (
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/state"
)

// ErrClosed: the DB was closed before the call.
var ErrClosed = errors.New("embedded: closed")

// LockedError: another process has the data folder open.
type LockedError struct {
	Dir string
	// PID is the other process, 0 if it is not known.
	PID int
}

// Error is the text of the error.
func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data folder %s: in use by %s; stop it or choose another folder", e.Dir, who)
}

// ErrorCode is STORAGE_ERROR.
func (e *LockedError) ErrorCode() string { return "STORAGE_ERROR" }

// Retryable: once the other process has ended.
func (e *LockedError) Retryable() bool { return true }

// FolderError: the data folder cannot be used.
type FolderError struct {
	Dir string
	Err error
}

// Error is the text of the error.
func (e *FolderError) Error() string {
	return fmt.Sprintf("data folder %s: must be a folder that this user may write to: %v", e.Dir, e.Err)
}

// Unwrap is the cause.
func (e *FolderError) Unwrap() error { return e.Err }

// ErrorCode is STORAGE_ERROR.
func (e *FolderError) ErrorCode() string { return "STORAGE_ERROR" }

// FormatError: the data file was written by a newer version.
type FormatError struct {
	Path         string
	Found, Known int
}

// Error is the text of the error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("data file %s: format %d is newer than the formats up to %d that this version reads; use the version that wrote it", e.Path, e.Found, e.Known)
}

// ErrorCode is STORAGE_ERROR.
func (e *FormatError) ErrorCode() string { return "STORAGE_ERROR" }

// CorruptError: a file is damaged or is not ours. It was left as it is.
type CorruptError struct {
	Path string
	// What is the record or part that is damaged; empty for the whole file.
	What string
	Err  error
}

// Error is the text of the error.
func (e *CorruptError) Error() string {
	what := ""
	if e.What != "" {
		what = " (" + e.What + ")"
	}
	return fmt.Sprintf("data file %s: damaged or not a harness data file%s: %v; it was left untouched: restore a copy of the folder, or move it away to start empty", e.Path, what, e.Err)
}

// Unwrap is the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// ErrorCode is STORAGE_ERROR.
func (e *CorruptError) ErrorCode() string { return "STORAGE_ERROR" }

// Retryable: no.
func (e *CorruptError) Retryable() bool { return false }

// storageError marks an error of bbolt or the file system as one of the
// storage.
func storageError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &state.StorageError{Op: op, Err: err}
}

// errBacklog: more ephemeral events wait than are kept in memory.
var errBacklog = errors.New("too many events wait for their triggers")
