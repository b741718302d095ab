package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/iii-aws/harness/engine/queue"
)

// testConsumer serves a queue with queue.Consumer: messages are handled until
// they are acknowledged, by the consumer or by their handler, and the last
// failure makes a dead letter.
func testConsumer(s *queueSuite) {
	const messages = 50
	s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 3, Backoff: queue.NoBackoff, Concurrency: 4})
	for i := range messages {
		s.sendText("q", fmt.Sprint(i%7), fmt.Sprint(i))
	}
	ctx, stop := context.WithCancel(s.ctx())
	defer stop()
	var mu sync.Mutex
	receives := map[string]int{}
	running, ended := 0, 0
	end := func() {
		if ended++; ended == messages {
			stop()
		}
	}
	c := queue.NewConsumer(s.q, queue.ConsumerConfig{Queue: "q", Serve: func(ctx context.Context, d queue.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if running++; running > 4 {
			s.Errorf("%d handlers run at once, want at most 4", running)
		}
		defer func() { running-- }()
		receives[textOf(d)]++
		switch n := receives[textOf(d)]; {
		case textOf(d) == "10" && n < 3:
			return errors.New("not yet")
		case textOf(d) == "11":
			if n == 3 {
				end()
			}
			return errors.New("never")
		case textOf(d) == "12":
			if _, err := queue.DeliveryFrom(ctx).Ack().Wait(ctx); err != nil {
				return err
			}
		}
		end()
		return nil
	}})
	s.ok(c.Run(ctx))
	for i := range messages {
		want := 1
		if i == 10 || i == 11 {
			want = 3
		}
		if got := receives[fmt.Sprint(i)]; got != want {
			s.Errorf("message %d was handled %d times, want %d", i, got, want)
		}
	}
	if dead := s.deadLetters("q"); len(dead) != 1 || dead[0].Error != "invocation_failed: never" {
		s.Errorf("dead letters %+v, want one with invocation_failed: never", dead)
	}
	s.wantVisible("q")
}
