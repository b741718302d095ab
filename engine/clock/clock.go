// Package clock is the port for time, identifiers and randomness. Code that
// decides anything takes a Clock and a Source from its constructor, so that a
// test can replay it byte for byte.
package clock

import "time"

// Clock tells the time and waits.
type Clock interface {
	// Now is the wall clock. It may jump.
	Now() time.Time
	// Monotonic is the time since an arbitrary start. It never goes back and
	// does not count wall clock jumps.
	Monotonic() time.Duration
	// NewTimer fires once after d on its channel. Stop it when it is no
	// longer needed.
	NewTimer(d time.Duration) Timer
}

// Timer is a one-shot timer.
type Timer interface {
	C() <-chan time.Time
	// Stop reports whether it stopped the timer before it fired.
	Stop() bool
}

// Millis is t in epoch milliseconds, the unit of every stored timestamp.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// FromMillis is the inverse of Millis; 0 is the zero time.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// System is the machine's clock.
func System() Clock { return system{start: time.Now()} }

type system struct{ start time.Time }

func (s system) Now() time.Time                 { return time.Now() }
func (s system) Monotonic() time.Duration       { return time.Since(s.start) }
func (s system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }
