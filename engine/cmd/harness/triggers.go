package main

import (
	"errors"

	"github.com/iii-aws/harness/engine/cron"
	"github.com/iii-aws/harness/engine/trigger"
)

// provideTriggers starts the trigger types that fire by themselves. Bindings
// wait for it, so that nothing fires before every worker is there.
func (s *stack) provideTriggers() error {
	var err error
	if s.cron, err = cron.New(cron.Config{Firer: s.dispatch, Clock: s.clock, Logger: s.logger}); err != nil {
		return err
	}
	if err := s.triggers.Provide(cron.Description(), s.cron); err != nil {
		return err
	}
	if s.available, err = trigger.NewAvailable(s.dispatch, s.registry); err != nil {
		return err
	}
	if err := s.provideTopics(); err != nil {
		return err
	}
	s.loop(func() { s.available.Run(s.work) })
	s.loop(func() {
		<-s.work.Done()
		if err := errors.Join(s.cron.Close(s.ctx), s.available.Close(s.ctx)); err != nil {
			s.logger.Warn("triggers did not end in time", "error", err)
		}
	})
	return nil
}

// workerEvent tells the triggers of a worker.
func (s *stack) workerEvent(event, workerID string) {
	if s.available != nil && s.work.Err() == nil {
		s.available.WorkerEvent(event, workerID)
	}
}
