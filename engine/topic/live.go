package topic

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/trigger"
)

// MaxInFlight is how many live messages may be with one binding at a time.
const MaxInFlight = 256

// LiveConfig is what a Live needs.
type LiveConfig struct {
	Firer Firer
	// Logger may be nil.
	Logger *slog.Logger
	// Lost hears of messages that nobody got, or one subscriber did not; nil: nobody hears.
	Lost func(n int)
}

// Live hands what is published to those who listen. It is safe for concurrent use. It implements trigger.Provider.
type Live struct {
	cfg  LiveConfig
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	byID    map[string]*listener
	byTopic map[string]map[string]*listener
}

// listener is one binding.
type listener struct {
	trigger.Binding
	topic string
	busy  atomic.Int64
	// full is set while messages are dropped, so that the log tells of it once.
	full atomic.Bool
}

// NewLive is a Live without bindings.
func NewLive(cfg LiveConfig) (*Live, error) {
	if cfg.Firer == nil {
		return nil, errors.New("topic: Firer is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Lost == nil {
		cfg.Lost = func(int) {}
	}
	l := &Live{cfg: cfg, byID: map[string]*listener{}, byTopic: map[string]map[string]*listener{}}
	l.base, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Bind implements trigger.Provider.
func (l *Live) Bind(_ context.Context, b trigger.Binding) error {
	topic, err := readSubscribe(b.Config)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return failed("The bus is shutting down.")
	}
	l.remove(b.ID)
	one := &listener{Binding: b, topic: topic}
	l.byID[b.ID] = one
	if l.byTopic[topic] == nil {
		l.byTopic[topic] = map[string]*listener{}
	}
	l.byTopic[topic][b.ID] = one
	return nil
}

// Unbind implements trigger.Provider.
func (l *Live) Unbind(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(id)
}

// remove forgets a binding; the caller holds mu.
func (l *Live) remove(id string) {
	one := l.byID[id]
	if one == nil {
		return
	}
	delete(l.byID, id)
	delete(l.byTopic[one.topic], id)
	if len(l.byTopic[one.topic]) == 0 {
		delete(l.byTopic, one.topic)
	}
}

// publish answers at once; who listens is called meanwhile.
func (l *Live) publish(_ context.Context, call *bus.Call, req publishRequest) error {
	if err := named(FunctionPublish, req.Topic); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil
	}
	if len(l.byTopic[req.Topic]) == 0 {
		l.cfg.Lost(1)
		return nil
	}
	for _, one := range l.byTopic[req.Topic] {
		if one.busy.Add(1) > MaxInFlight {
			one.busy.Add(-1)
			l.cfg.Lost(1)
			if !one.full.Swap(true) {
				l.cfg.Logger.Error("a subscriber is too slow: messages are dropped", "alarm", "topic_dropped", "trigger_id", one.ID, "function_id", one.FunctionID)
			}
			continue
		}
		b := as(one.Binding, call.Principal)
		l.wg.Go(func() { l.fire(one, b, req.Data) })
	}
	return nil
}

func (l *Live) fire(one *listener, b trigger.Binding, data json.RawMessage) {
	defer func() {
		if one.busy.Add(-1) < MaxInFlight/2 {
			one.full.Store(false)
		}
	}()
	_, _, err := l.cfg.Firer.Fire(l.base, b, trigger.Firing{Payload: data})
	if err != nil && l.base.Err() == nil {
		l.cfg.Logger.Info("a subscriber failed", "trigger_id", one.ID, "function_id", one.FunctionID, "code", bus.Code(err))
	}
}

// Close ends what is being delivered, and waits for it until ctx ends.
func (l *Live) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	return wait(ctx, &l.wg)
}

func wait(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
