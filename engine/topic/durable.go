package topic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/trigger"
)

// MaxSubscriptions is how many subscriptions there may be, those without a binding that hold messages included.
const MaxSubscriptions = 10_000

// MaxCopies is how many bytes the copies of one message may have together.
const MaxCopies = 256 << 20

// DurableConfig is what a Durable needs.
type DurableConfig struct {
	Queue queue.Queue
	Firer Firer
	Clock clock.Clock
	// Serves reports whether somebody serves a function now.
	Serves func(namespace, functionID string) bool
	// Logger may be nil.
	Logger *slog.Logger
	// Lost hears of messages that nobody got; nil: nobody hears.
	Lost func(n int)
	// Drain is how long running functions may go on when their subscription ends; queue.DefaultDrain if 0.
	Drain time.Duration
}

// Durable stores what is published for each subscription, and delivers it. It is safe for concurrent use. It implements
// trigger.Provider.
type Durable struct {
	cfg  DurableConfig
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	// changing orders what defines and removes queues. It is taken before mu.
	changing sync.Mutex
	// known has the queues of all subscriptions, those without a binding included; changing guards it.
	known   map[string]bool
	mu      sync.RWMutex
	closed  bool
	byID    map[string]*subscription // by binding
	byQueue map[string]*subscription
	byTopic map[string]map[string]*subscription // by topic, then by queue
}

// subscription is one with a binding.
type subscription struct {
	queue.Subscription
	name string
	// bindings, oldest first: the first one counts. Never empty.
	bindings []bound
	// stop ends the consumer.
	stop context.CancelFunc
}

// bound is a binding with the config that it asks for.
type bound struct {
	trigger.Binding
	config queue.Config
}

// NewDurable is a Durable without bindings. It removes queues of subscriptions that hold nothing: they are made again
// when they are bound. Errors: those of the queue.
func NewDurable(ctx context.Context, cfg DurableConfig) (*Durable, error) {
	if cfg.Queue == nil || cfg.Firer == nil || cfg.Clock == nil || cfg.Serves == nil {
		return nil, errors.New("topic: Queue, Firer, Clock and Serves are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Lost == nil {
		cfg.Lost = func(int) {}
	}
	d := &Durable{
		cfg: cfg, known: map[string]bool{},
		byID: map[string]*subscription{}, byQueue: map[string]*subscription{}, byTopic: map[string]map[string]*subscription{},
	}
	if err := d.load(ctx); err != nil {
		return nil, fmt.Errorf("topic: remove an empty queue: %w", err)
	}
	d.base, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// load finds the queues of earlier subscriptions, and removes those that hold nothing.
func (d *Durable) load(ctx context.Context) error {
	type outcome struct {
		name    string
		removed bool
		err     error
	}
	outcomes := make(chan outcome)
	free := make(chan struct{}, 64) // so many share a commit
	n := 0
	for _, name := range d.cfg.Queue.Names() {
		if c, ok := d.cfg.Queue.Config(name); !ok || c.Subscription.IsZero() {
			continue
		}
		n++
		go func() {
			free <- struct{}{}
			removed, err := d.cfg.Queue.Remove(ctx, name)
			<-free
			outcomes <- outcome{name, removed, err}
		}()
	}
	var errs []error
	for range n {
		o := <-outcomes
		errs = append(errs, o.err)
		if !o.removed {
			d.known[o.name] = true
		}
	}
	return errors.Join(errs...)
}

// Bind implements trigger.Provider.
func (d *Durable) Bind(ctx context.Context, b trigger.Binding) error {
	c, err := readDurable(b)
	if err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.RLock()
	closed, old, s := d.closed, d.byID[b.ID], d.byQueue[c.Name]
	d.mu.RUnlock()
	if closed {
		return failed("The bus is shutting down.")
	}
	if s == nil || s == old && s.bindings[0].ID == b.ID { // its config counts
		if err := d.define(ctx, c); err != nil {
			return err
		}
	}
	if old != nil && old != s {
		d.unbind(b.ID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old != nil && old == s {
		i := slices.IndexFunc(s.bindings, func(o bound) bool { return o.ID == b.ID })
		s.bindings[i] = bound{b, c}
		return nil
	}
	if s == nil {
		s = &subscription{Subscription: c.Subscription, name: c.Name}
		d.add(s)
	}
	s.bindings = append(s.bindings, bound{b, c})
	d.byID[b.ID] = s
	return nil
}

// define makes the queue of a subscription, or gives it a config. The caller holds changing.
func (d *Durable) define(ctx context.Context, c queue.Config) error {
	if !d.known[c.Name] && len(d.known) >= MaxSubscriptions {
		return failed(fmt.Sprintf("At most %d subscriptions of topics may exist.", MaxSubscriptions))
	}
	_, err := d.cfg.Queue.Define(ctx, c)
	if err == nil {
		d.known[c.Name] = true
		return nil
	}
	var invalid *queue.InvalidError
	if errors.As(err, &invalid) {
		return failed("Invalid queue_config." + invalid.Field + ": expected " + invalid.Allowed)
	}
	return err
}

// add makes a subscription known and starts its consumer. The caller holds mu.
func (d *Durable) add(s *subscription) {
	d.byQueue[s.name] = s
	if d.byTopic[s.Topic] == nil {
		d.byTopic[s.Topic] = map[string]*subscription{}
	}
	d.byTopic[s.Topic][s.name] = s
	ctx, stop := context.WithCancel(d.base)
	s.stop = stop
	c := queue.NewConsumer(d.cfg.Queue, queue.ConsumerConfig{
		Queue: s.name, Clock: d.cfg.Clock, Logger: d.cfg.Logger.With("topic", s.Topic), Serve: d.serve, Drain: d.cfg.Drain,
	})
	d.wg.Go(func() {
		defer stop()
		if err := c.Run(ctx); err != nil {
			d.cfg.Logger.Error("queue of a topic not drained", "topic", s.Topic, "function_id", s.FunctionID, "error", err)
		}
		d.tidy(s.name)
	})
}

// tidy removes the queue of a subscription that has ended, if it holds nothing.
func (d *Durable) tidy(name string) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.RLock()
	again := d.closed || d.byQueue[name] != nil
	d.mu.RUnlock()
	if again {
		return
	}
	removed, err := d.cfg.Queue.Remove(d.base, name)
	if removed {
		delete(d.known, name)
	}
	if err != nil && d.base.Err() == nil {
		d.cfg.Logger.Warn("the empty queue of a topic was not removed", "queue", name, "error", err)
	}
}

// Unbind implements trigger.Provider.
func (d *Durable) Unbind(id string) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.unbind(id)
}

// unbind is Unbind; the caller holds changing.
func (d *Durable) unbind(id string) {
	d.mu.Lock()
	s := d.byID[id]
	if s == nil {
		d.mu.Unlock()
		return
	}
	counted := s.bindings[0].ID == id
	d.leave(s, id)
	if !counted || len(s.bindings) == 0 {
		d.mu.Unlock()
		return
	}
	next := s.bindings[0]
	d.mu.Unlock()
	if err := d.define(d.base, next.config); err != nil {
		d.cfg.Logger.Warn("a subscription goes on with the queue_config of a trigger that has gone", "topic", s.Topic,
			"function_id", s.FunctionID, "trigger_id", next.ID, "error", err)
	}
}

// leave takes a binding from its subscription, which ends with the last. The caller holds mu.
func (d *Durable) leave(s *subscription, id string) {
	delete(d.byID, id)
	s.bindings = slices.DeleteFunc(s.bindings, func(o bound) bool { return o.ID == id })
	if len(s.bindings) > 0 {
		return
	}
	s.stop()
	delete(d.byQueue, s.name)
	delete(d.byTopic[s.Topic], s.name)
	if len(d.byTopic[s.Topic]) == 0 {
		delete(d.byTopic, s.Topic)
	}
}

// publish answers when every subscription has its copy, durably. Without a subscription the message is lost.
func (d *Durable) publish(ctx context.Context, call *bus.Call, req durablePublishRequest) error {
	if err := named(FunctionDurablePublish, req.Topic); err != nil {
		return err
	}
	if len(req.Data) > state.MaxValue {
		return &bus.Error{Code: protocol.CodeValueTooLarge, Message: fmt.Sprintf("%d bytes of data, at most %d are allowed", len(req.Data), state.MaxValue)}
	}
	d.mu.RLock()
	ms := make([]queue.Message, 0, len(d.byTopic[req.Topic]))
	for _, s := range d.byTopic[req.Topic] {
		ms = append(ms, queue.Message{
			Queue: s.name, Group: group, FunctionID: s.FunctionID, Namespace: s.Namespace, Data: req.Data, Principal: call.Principal,
			External: true, Traceparent: call.Traceparent, Baggage: call.Baggage,
		})
	}
	if len(ms) == 0 {
		d.mu.RUnlock()
		d.cfg.Lost(1)
		return nil
	}
	if len(ms)*len(req.Data) > max(MaxCopies, len(req.Data)) {
		d.mu.RUnlock()
		return &bus.Error{Code: protocol.CodeValueTooLarge, Message: fmt.Sprintf(
			"%d bytes for each of %d subscribers: at most %d bytes are stored for one message", len(req.Data), len(ms), MaxCopies)}
	}
	// Under the lock: a queue is removed after what was published to it.
	stored := queue.SubmitAll(ctx, d.cfg.Queue, ms)
	d.mu.RUnlock()
	return stored(ctx)
}

// serve delivers one message.
func (d *Durable) serve(ctx context.Context, m queue.Delivery) error {
	d.mu.RLock()
	s := d.byQueue[m.Queue]
	var b trigger.Binding
	if s != nil {
		b = s.bindings[0].Binding
	}
	d.mu.RUnlock()
	if s == nil || !d.cfg.Serves(m.Namespace, m.FunctionID) {
		return queue.ErrNoTarget
	}
	if m.Traceparent != "" || m.Baggage != "" {
		ctx = bus.WithCall(ctx, &bus.Call{Traceparent: m.Traceparent, Baggage: m.Baggage})
	}
	f := trigger.Firing{Payload: m.Data, IdempotencyKey: m.ID, Timeout: queue.DefaultTimeout}
	_, _, err := d.cfg.Firer.Fire(ctx, as(b, m.Principal), f)
	return err
}

// Bound reports whether the queue of a subscription has a binding.
func (d *Durable) Bound(queueName string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byQueue[queueName] != nil
}

// Close ends all consumers, which drain, and waits for them until ctx ends.
func (d *Durable) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	return wait(ctx, &d.wg)
}
