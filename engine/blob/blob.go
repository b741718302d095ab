package blob

import (
	"context"
	"fmt"
	"io"
	"time"
)

// MaxSize is the largest blob in bytes.
const MaxSize = 64 << 20

// Ref points at a blob, in the form that values carry.
type Ref struct {
	Blob Info `json:"$blob"`
}

// Info describes a blob.
type Info struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
	MIME string `json:"mime"`
}

// Store is the port for blobs: immutable byte strings that belong to a
// session. Implementations are safe for concurrent use.
type Store interface {
	// Put stores a blob durably before it returns. The id is derived from
	// session and content, so a repeat gives the same blob. Errors:
	// *TooLargeError.
	Put(ctx context.Context, session, mime string, r io.Reader) (Info, error)
	// PutAs is Put under an id that was given out before the content was known: the lower-case hex text of 20 bytes that
	// nobody can guess. An id that is in use is an *ExistsError.
	PutAs(ctx context.Context, id, session, mime string, r io.Reader) (Info, error)
	// Stat describes a blob and tells the session it belongs to. Errors:
	// *NotFoundError.
	Stat(ctx context.Context, id string) (Info, string, error)
	// Open reads from an offset on. Errors: *NotFoundError.
	Open(ctx context.Context, id string, offset int64) (io.ReadCloser, error)
	// Delete removes a blob; an absent one is no error.
	Delete(ctx context.Context, id string) error
	// Expire marks a blob for deletion at t; zero keeps it.
	Expire(ctx context.Context, id string, t time.Time) error
}

// NotFoundError means that there is no such blob.
type NotFoundError struct{ ID string }

// Error is the text of the error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("blob: not found: %q", e.ID) }

// ErrorCode is not_found.
func (e *NotFoundError) ErrorCode() string { return "not_found" }

// ExistsError means that there is a blob of that id.
type ExistsError struct{ ID string }

// Error is the text of the error.
func (e *ExistsError) Error() string { return fmt.Sprintf("blob: exists already: %q", e.ID) }

// ErrorCode is CONFLICT.
func (e *ExistsError) ErrorCode() string { return "CONFLICT" }

// TooLargeError is a blob above MaxSize.
type TooLargeError struct{ Limit int64 }

// Error is the text of the error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("blob: larger than the %d bytes allowed", e.Limit)
}

// ErrorCode is VALUE_TOO_LARGE.
func (e *TooLargeError) ErrorCode() string { return "VALUE_TOO_LARGE" }
