package clock_test

import (
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/enginetest"
)

func TestSuite(t *testing.T) {
	t.Run("system", func(t *testing.T) {
		enginetest.RunClock(t, func(*testing.T) (clock.Clock, func(time.Duration)) {
			c := clock.System()
			return c, func(d time.Duration) { <-c.NewTimer(d).C() }
		})
	})
	t.Run("fake", func(t *testing.T) {
		enginetest.RunClock(t, func(*testing.T) (clock.Clock, func(time.Duration)) {
			c := clock.NewFake(time.UnixMilli(1_780_000_000_000))
			return c, c.Advance
		})
	})
	t.Run("random", func(t *testing.T) {
		enginetest.RunIDs(t, func(*testing.T) clock.IDs { return clock.Random() })
	})
	t.Run("sequence", func(t *testing.T) {
		enginetest.RunIDs(t, func(*testing.T) clock.IDs { return clock.Sequence(3) })
	})
}
