package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/iii-aws/harness/engine/topic"
)

// openTopics makes publish and subscribe. Nobody can subscribe before
// provideTopics.
func (s *stack) openTopics(ctx context.Context) error {
	lost, err := otel.Meter("github.com/iii-aws/harness/engine/topic").Int64Counter("topic.messages.lost",
		metric.WithDescription("Messages that were published and reached no subscriber, or not all"))
	if err != nil {
		return err
	}
	count := func(n int) { lost.Add(s.ctx, int64(n)) }
	if s.live, err = topic.NewLive(topic.LiveConfig{Firer: s.dispatch, Logger: s.logger, Lost: count}); err != nil {
		return err
	}
	s.durable, err = topic.NewDurable(ctx, topic.DurableConfig{
		Queue: s.queues, Firer: s.dispatch, Clock: s.clock, Logger: s.logger, Lost: count, Drain: drainSteps,
		Serves: func(namespace, functionID string) bool {
			_, ok := s.registry.Lookup(namespace, functionID)
			return ok
		},
	})
	return err
}

// provideTopics lets workers subscribe, and delivers what is stored.
func (s *stack) provideTopics() error {
	s.loop(func() {
		<-s.work.Done()
		if err := errors.Join(s.live.Close(s.ctx), s.durable.Close(s.ctx)); err != nil {
			s.logger.Warn("subscribers did not end in time", "error", err)
		}
	})
	return errors.Join(s.triggers.Provide(s.live.Description(), s.live), s.triggers.Provide(s.durable.Description(), s.durable))
}
