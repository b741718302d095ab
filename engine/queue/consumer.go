package queue

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
)

// Defaults of a ConsumerConfig.
const (
	DefaultDrain         = 10 * time.Second
	DefaultNoTargetPause = time.Second
	// receiveBatch is the most messages asked for at once, the limit of SQS.
	receiveBatch = 10
	// receiveRetry is the pause after a receive that failed.
	receiveRetry = time.Second
)

// ConsumerConfig says what a Consumer does. Zero durations take the defaults
// named.
type ConsumerConfig struct {
	// Queue is the queue's name.
	Queue string
	// Clock is the source of time; the machine's.
	Clock clock.Clock
	// Logger gets what goes wrong; none. A message that is given up is an
	// error with the attribute alarm=dead_letter.
	Logger *slog.Logger
	// Serve handles one delivery. Its context carries the [Handle] (see
	// [DeliveryFrom]) and ends when the receipt is stale, the queue's timeout
	// is over or the consumer has drained; context.Cause tells which. Panics
	// count as errors.
	Serve func(ctx context.Context, d Delivery) error
	// Visibility is what each renewal asks for; the queue's.
	Visibility time.Duration
	// RenewEvery is the time between renewals; a third of Visibility.
	RenewEvery time.Duration
	// Drain is how long running handlers may go on after Run's context has
	// ended; 10 s.
	Drain time.Duration
	// NoTargetPause is how long a message waits after ErrNoTarget; 1 s.
	NoTargetPause time.Duration
}

// Consumer serves one queue. It keeps up to the queue's concurrency of handlers
// running, renews the visibility of what they hold, acknowledges when a handler
// returns nil and fails the receive when it returns an error.
type Consumer struct {
	q       Queue
	cfg     ConsumerConfig
	mu      sync.Mutex
	running map[*run]struct{}
	// ended gets a token when a handler has ended.
	ended chan struct{}
}

// run is one handler at work.
type run struct {
	h      *Handle
	cancel context.CancelCauseFunc
	// stop ends the renewals.
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

func (r *run) stopRenewing() { r.stopOnce.Do(func() { close(r.stop) }) }

// NewConsumer is a consumer that is not running yet.
func NewConsumer(q Queue, cfg ConsumerConfig) *Consumer {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("queue", cfg.Queue)
	cfg.Drain = cmp.Or(cfg.Drain, DefaultDrain)
	cfg.NoTargetPause = cmp.Or(cfg.NoTargetPause, DefaultNoTargetPause)
	return &Consumer{q: q, cfg: cfg, running: map[*run]struct{}{}, ended: make(chan struct{}, 1)}
}

// Run receives and serves until ctx ends, then drains. It returns nil when
// every handler has finished, a *DrainError when some have not, an
// *UnknownError if the queue does not exist and an *InvalidError without Serve.
// Run may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	conf, ok := c.q.Config(c.cfg.Queue)
	if !ok {
		return &UnknownError{Queue: c.cfg.Queue}
	}
	if c.cfg.Serve == nil {
		return &InvalidError{Queue: c.cfg.Queue, Field: "serve", Allowed: "a function"}
	}
	if c.cfg.Visibility == 0 {
		c.cfg.Visibility = conf.Visibility
	}
	if c.cfg.RenewEvery == 0 {
		c.cfg.RenewEvery = c.cfg.Visibility / 3
	}
	base := context.WithoutCancel(ctx)
	for {
		free := c.awaitSlot(ctx)
		if free == 0 {
			return c.drain()
		}
		ds, err := c.q.Receive(ctx, c.cfg.Queue, min(free, receiveBatch))
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Error("receive failed", "error", err)
			c.pause(ctx, receiveRetry)
		}
		for _, d := range ds {
			c.start(base, d)
		}
	}
}

// awaitSlot waits until another handler may run and answers how many may; 0
// when ctx has ended.
func (c *Consumer) awaitSlot(ctx context.Context) int {
	for ctx.Err() == nil {
		conf, _ := c.q.Config(c.cfg.Queue)
		if conf.Concurrency <= 0 {
			return 1 // Receive blocks while the queue is paused.
		}
		if free := conf.Concurrency - c.count(); free > 0 {
			return free
		}
		select {
		case <-c.ended:
		case <-ctx.Done():
		}
	}
	return 0
}

func (c *Consumer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

func (c *Consumer) start(base context.Context, d Delivery) {
	h := NewHandle(c.q, d, c.cfg.Clock)
	conf, _ := c.q.Config(c.cfg.Queue)
	if conf.Timeout > 0 {
		h.Deadline = h.wall.Add(conf.Timeout)
	}
	ctx, cancel := context.WithCancelCause(base)
	r := &run{h: h, cancel: cancel, stop: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	c.running[r] = struct{}{}
	c.mu.Unlock()
	go func() {
		defer c.end(r)
		defer cancel(nil)
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			c.keep(base, r, conf)
		}()
		err := c.serve(WithDelivery(ctx, h), d)
		r.stopRenewing()
		<-kept
		if h.settle() {
			c.finish(base, h, err, context.Cause(ctx))
		}
	}()
}

func (c *Consumer) end(r *run) {
	c.mu.Lock()
	delete(c.running, r)
	c.mu.Unlock()
	close(r.done)
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

func (c *Consumer) pause(ctx context.Context, d time.Duration) {
	t := c.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	}
}
