package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/trigger"
)

// feed makes a Source of an embedded feed.
type feed struct{ f *embedded.Feed }

func (s feed) Next(ctx context.Context) (trigger.Row, error) {
	row, err := s.f.Next(ctx)
	return trigger.Row{Change: row.Change, Event: row.Event, Done: func() { s.f.Done(row.ID) }}, err
}

// TestRunDeliversTheFeed drives the whole way from a write to the function, in order per key.
func TestRunDeliversTheFeed(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.db.SetTriggered(g.Triggered, g.StreamTriggered)
	g.declare("state", "f::state", `{"scope":"s"}`)
	g.declare("stream", "f::stream", `{"stream_name":"log"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, kind := range []embedded.FeedKind{embedded.FeedState, embedded.FeedStream} {
		running.Go(func() { g.Run(ctx, feed{g.db.Feed(kind)}, 8) })
	}
	const keys, n = 5, 20
	var writers sync.WaitGroup
	for k := range keys {
		writers.Go(func() {
			for i := range n {
				value := json.RawMessage(fmt.Sprint(i))
				if _, err := state.Do(t.Context(), g.store, state.Set("s", fmt.Sprint("k", k), value)); err != nil {
					t.Error(err)
				}
				if _, err := state.Do(t.Context(), g.store, state.Set("untriggered", "k", value)); err != nil {
					t.Error(err)
				}
				if _, err := g.db.Streams().Submit(t.Context(), stream.Write{Key: stream.Key{Stream: "log", Group: fmt.Sprint("g", k), Item: "i"}, Kind: state.KindSet, Data: value}).Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := map[string]int{}
	for range 2 * keys * n {
		in := g.calls.next(t)
		var p struct {
			Key   string `json:"key"`
			New   int    `json:"new_value"`
			Group string `json:"groupId"`
			Event struct{ Data int }
		}
		if err := json.Unmarshal(in.Data, &p); err != nil {
			t.Fatal(err)
		}
		lane := p.Key + p.Group
		if got := p.New + p.Event.Data; got != next[lane] {
			t.Fatalf("%s got %d, want %d", lane, got, next[lane])
		}
		next[lane]++
	}
	writers.Wait()
	cancel()
	running.Wait()
	g.calls.none(t)
}

// broken is a source that fails now and then.
type broken struct {
	rows chan any
}

func (b broken) Next(ctx context.Context) (trigger.Row, error) {
	select {
	case r := <-b.rows:
		if err, ok := r.(error); ok {
			return trigger.Row{}, err
		}
		return r.(trigger.Row), nil
	case <-ctx.Done():
		return trigger.Row{}, ctx.Err()
	}
}

func TestRunOutlastsFaults(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.declare("state", "f::on", `{"scope":"s"}`)
	ctx, cancel := context.WithCancel(t.Context())
	source := broken{make(chan any, 3)}
	finished := make(chan struct{})
	go func() {
		g.Run(ctx, source, 0)
		close(finished)
	}()
	done := make(chan struct{}, 2)
	c := change("s", "k", "", "1")
	source.rows <- errDisk
	source.rows <- trigger.Row{Change: &c, Done: func() { done <- struct{}{} }}
	source.rows <- trigger.Row{Done: func() { done <- struct{}{} }}
	g.clock.BlockUntil(1)
	g.clock.Advance(time.Second)
	<-done
	<-done
	g.calls.next(t)
	if !g.log.has("alarm=trigger_source") {
		t.Error("the fault was not logged")
	}
	// A row whose delivery is cut short is not done.
	blocked := make(chan struct{})
	g.calls.on("f::on", func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		close(blocked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	source.rows <- trigger.Row{Change: &c, Done: func() { t.Error("the row is done") }}
	<-blocked
	cancel()
	<-finished
}
