package credential

import (
	"errors"
	"fmt"
)

// Error is a credential store that failed, or holds what cannot be read. Its
// text never holds a value.
type Error struct {
	// Provider whose credential it is, * for all.
	Provider string
	// Damaged: the stored form cannot be read; set the credential again.
	Damaged bool
	Err     error
}

// Error is the text of the error.
func (e *Error) Error() string {
	if e.Damaged {
		return fmt.Sprintf("credential of %s: the stored form cannot be read: set it again", e.Provider)
	}
	return fmt.Sprintf("credential of %s: %v", e.Provider, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode is STORAGE_ERROR.
func (e *Error) ErrorCode() string { return "STORAGE_ERROR" }

// Retryable reports whether the same call may succeed later: a store that
// failed may work again, a damaged credential stays so.
func (e *Error) Retryable() bool { return !e.Damaged }

func storeError(provider string, err error) error { return &Error{Provider: provider, Err: err} }

func damaged(provider string) error {
	return &Error{Provider: provider, Damaged: true, Err: errDamaged}
}

var errDamaged = errors.New("credential: damaged")
