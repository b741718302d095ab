package viewer

import (
	"context"
	"runtime"
	"time"

	"github.com/iii-aws/harness/engine/clock"
)

func newFakeClock() *clock.Fake { return clock.NewFake(time.Now().Truncate(time.Millisecond)) }

// yield lets other goroutines go on while a test polls a condition that nobody
// signals.
func yield() { runtime.Gosched() }

func contextOf(w *world) (context.Context, context.CancelFunc) { return context.WithCancel(w.ctx) }
