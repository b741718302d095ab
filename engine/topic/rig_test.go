package topic_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/topic"
	"github.com/iii-aws/harness/engine/trigger"
)

const patience = 20 * time.Second

// fired is a call of a Firer.
type fired struct {
	trigger.Binding
	trigger.Firing
	call *bus.Call
	// answer ends the call.
	answer chan<- error
}

// firer hands its calls to the test, unless a function answers by itself.
type firer struct {
	calls chan fired
	mu    sync.Mutex
	serve map[string]func(trigger.Binding, trigger.Firing) error
}

func (f *firer) Fire(ctx context.Context, b trigger.Binding, firing trigger.Firing) (json.RawMessage, bool, error) {
	f.mu.Lock()
	serve := f.serve[b.FunctionID]
	f.mu.Unlock()
	if serve != nil {
		return nil, false, serve(b, firing)
	}
	answer := make(chan error, 1)
	select {
	case f.calls <- fired{b, firing, bus.CallFrom(ctx), answer}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	select {
	case err := <-answer:
		return nil, false, err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// rig is topics over a queue of the embedded ring.
type rig struct {
	*testing.T
	*firer
	dir     string
	clock   *clock.Fake
	queue   *embedded.Queue
	live    *topic.Live
	durable *topic.Durable
	lost    atomic.Int64
	away    sync.Map // functions that nobody serves
	log     *lines
	close   func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir(), clock: clock.NewFake(time.Unix(1_760_000_000, 0)), log: &lines{}}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.Helper()
	ctx := context.Background()
	r.firer = &firer{calls: make(chan fired), serve: map[string]func(trigger.Binding, trigger.Firing) error{}}
	db, err := embedded.Open(ctx, embedded.Options{Dir: r.dir, Clock: r.clock, NoSync: true})
	if err != nil {
		r.Fatal(err)
	}
	if r.queue, err = embedded.OpenQueue(ctx, db); err != nil {
		r.Fatal(err)
	}
	lost := func(n int) { r.lost.Add(int64(n)) }
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	if r.live, err = topic.NewLive(topic.LiveConfig{Firer: r.firer, Lost: lost, Logger: logger}); err != nil {
		r.Fatal(err)
	}
	r.durable, err = topic.NewDurable(ctx, topic.DurableConfig{
		Queue: r.queue, Firer: r.firer, Clock: clock.System(), Lost: lost, Logger: logger, Drain: time.Millisecond,
		Serves: func(_, id string) bool { _, away := r.away.Load(id); return !away },
	})
	if err != nil {
		r.Fatal(err)
	}
	live, durable := r.live, r.durable
	r.close = func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, err := range []error{live.Close(ctx), durable.Close(ctx), db.Close()} {
			if err != nil {
				r.Error(err)
			}
		}
	}
}

func (r *rig) reopen() {
	r.Helper()
	r.close()
	r.open()
}

var maker = bus.Principal{ID: "maker", Role: bus.RoleWorker}

func binding(id, function, config string) trigger.Binding {
	return trigger.Binding{ID: id, Namespace: "default", FunctionID: function, Config: json.RawMessage(config), Principal: maker}
}

func (r *rig) bind(p trigger.Provider, id, function, config string) {
	r.Helper()
	if err := p.Bind(r.Context(), binding(id, function, config)); err != nil {
		r.Fatal(err)
	}
}

var publisher = bus.Principal{ID: "ann", Role: bus.RoleClient, WorkspaceID: "w"}

// call makes a call of an endpoint.
func (r *rig) call(endpoints map[string]bus.Endpoint, id, data string) (string, error) {
	r.Helper()
	out, err := endpoints[id].Handle(r.Context(), &bus.Call{
		FunctionID: id, Data: json.RawMessage(data), Principal: publisher, Connection: "c1",
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Baggage: "k=v",
	})
	return string(out), err
}

func (r *rig) publish(topic, data string) {
	r.Helper()
	out, err := r.call(r.durable.Endpoints(), "iii::durable::publish", `{"topic":"`+topic+`","data":`+data+`}`)
	if out != "" || err != nil {
		r.Fatalf("publish: %s, %v", out, err)
	}
}

// next is the next call that a function of the test gets.
func (r *rig) next() fired {
	r.Helper()
	select {
	case c := <-r.calls:
		return c
	case <-time.After(patience):
		r.Fatal("nothing was called")
	}
	return fired{}
}

// subscription is the queue of a function in the default namespace.
func subscription(topic, function string) string {
	return queue.Subscription{Topic: topic, FunctionID: function, Namespace: "default"}.QueueName()
}

func (r *rig) stats(name string) queue.Stats {
	r.Helper()
	s, err := r.queue.Stats(r.Context(), name)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// until waits for a change that nothing tells of.
func (r *rig) until(what string, holds func() bool) {
	r.Helper()
	again, end := time.NewTicker(time.Millisecond), time.After(patience)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-end:
			r.Fatalf("never: %s", what)
		}
	}
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
