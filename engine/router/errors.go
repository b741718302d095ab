package router

import "github.com/iii-aws/harness/engine/bus"

// noTargetError says that nobody serves the function. The call was given to nobody.
type noTargetError struct{ err *bus.Error }

func (e *noTargetError) Error() string { return e.err.Error() }
func (e *noTargetError) Unwrap() error { return e.err }

// refusedError says that the bus refused a call. It was given to nobody.
type refusedError struct{ err *bus.Error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
