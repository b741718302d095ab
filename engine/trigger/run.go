package trigger

import (
	"context"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// sourcePause is how long Run waits after a source has failed.
const sourcePause = time.Second

// Row is one change of a Source; Change or Event is set.
type Row struct {
	Change *state.Change
	Event  *stream.Event
	// Done ends the row. Until then the source hands out no later change of the same key or group.
	Done func()
}

// Source hands out changes, at least once, in order per key or group.
type Source interface {
	// Next waits for a row. An error of ctx ends the source; any other may pass.
	Next(ctx context.Context) (Row, error)
}

// Run delivers what a source hands out, up to parallel rows at a time, until ctx ends. It returns when all deliveries
// have ended; a row that was not delivered then is not done.
func (d *Dispatcher) Run(ctx context.Context, s Source, parallel int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, max(parallel, 1))
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		row, err := s.Next(ctx)
		if err != nil {
			<-free
			if ctx.Err() != nil {
				return
			}
			d.Logger.Error("changes cannot be read", "alarm", "trigger_source", "error", err)
			d.pause(ctx)
			continue
		}
		wg.Go(func() {
			defer func() { <-free }()
			if d.row(ctx, row) == nil {
				row.Done()
			}
		})
	}
}

func (d *Dispatcher) row(ctx context.Context, row Row) error {
	if row.Change != nil {
		return d.State(ctx, *row.Change)
	}
	if row.Event != nil {
		return d.Stream(ctx, *row.Event)
	}
	return nil
}

func (d *Dispatcher) pause(ctx context.Context) {
	timer := d.Clock.NewTimer(sourcePause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
