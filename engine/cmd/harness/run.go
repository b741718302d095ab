package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/trigger"
)

const (
	sweepEvery = time.Minute
	// parallelTriggers is how many changes of one feed are delivered at once.
	parallelTriggers = 64
)

// start takes work: queues, change feeds and the sweep.
func (s *stack) start(ctx context.Context) error {
	s.consuming.Lock()
	s.consumers = map[string]bool{}
	s.consuming.Unlock()
	if err := s.provideTriggers(); err != nil {
		return err
	}
	for _, name := range s.queues.Names() {
		if c, ok := s.queues.Config(name); ok && c.Subscription.IsZero() { // topics see to those of subscriptions
			s.consume(name)
		}
	}
	for _, kind := range []embedded.FeedKind{embedded.FeedState, embedded.FeedStream} {
		s.loop(func() { s.dispatch.Run(s.work, changes{s.db.Feed(kind)}, parallelTriggers) })
	}
	s.loop(s.sweep)
	if s.policy != nil {
		s.loop(func() { s.policy.Watch(s.work) })
	}
	return nil
}

// consume drains a queue, once however often it is called for a name. Before start it does nothing: start asks for every
// queue.
func (s *stack) consume(name string) {
	s.consuming.Lock()
	defer s.consuming.Unlock()
	if s.consumers == nil || s.consumers[name] || s.work.Err() != nil {
		return
	}
	s.consumers[name] = true
	c := queue.NewConsumer(s.queues, queue.ConsumerConfig{Queue: name, Clock: s.clock, Logger: s.logger, Drain: drainSteps, Serve: s.serve})
	s.loop(func() {
		if err := c.Run(s.work); err != nil {
			s.logger.Error("queue not drained", "queue", name, "error", err)
		}
	})
}

func (s *stack) loop(f func()) {
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		f()
	}()
}

// serve runs one message.
func (s *stack) serve(ctx context.Context, d queue.Delivery) error {
	return s.router.ServeQueue(ctx, d)
}

// changes is a change feed of the data as the triggers take it.
type changes struct{ feed *embedded.Feed }

// Next waits for a change.
func (c changes) Next(ctx context.Context) (trigger.Row, error) {
	row, err := c.feed.Next(ctx)
	if err != nil {
		return trigger.Row{}, err
	}
	return trigger.Row{Change: row.Change, Event: row.Event, Done: func() {
		c.feed.Done(row.ID) // its ticket is not waited for: a repeat is harmless
	}}, nil
}

// sweep looks at start and every minute for what nobody woke.
func (s *stack) sweep() {
	for {
		s.sweepOnce()
		t := s.clock.NewTimer(sweepEvery)
		select {
		case <-t.C():
		case <-s.work.Done():
			t.Stop()
			return
		}
	}
}

func (s *stack) sweepOnce() {
	s.router.Sweep()
	s.channels.Sweep()
	system := bus.System()
	_, err := s.router.Worker("engine").Invoke(s.work, bus.Invocation{FunctionID: "turn::sweep", Data: json.RawMessage(`{}`), Principal: &system})
	if err != nil && s.work.Err() == nil {
		s.logger.Error("sweep failed", "alarm", "sweep", "error", redact.Text(err.Error()))
	}
}

// drainSteps is how long running steps may go on to their next stored write.
const drainSteps = 5 * time.Second

// stop takes no new work, lets running steps store what they did, and closes
// sockets and data.
func (s *stack) stop(ctx context.Context) error {
	s.consuming.Lock() // no loop starts while they are waited for
	s.endWork()
	s.consuming.Unlock()
	done := make(chan struct{})
	go func() {
		s.loops.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.New("steps did not end in time; they go on at the next start")
	}
	return errors.Join(err, s.close(ctx))
}

// close releases everything, last opened first.
func (s *stack) close(ctx context.Context) error {
	s.endWork()
	var errs []error
	if s.gateway != nil {
		s.router.EndGrace() // nobody comes back
		errs = append(errs, s.gateway.Close(ctx))
	}
	if s.jobs != nil {
		errs = append(errs, s.jobs.close(ctx))
	}
	s.cancel()
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i](ctx))
	}
	return errors.Join(errs...)
}
