package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

var epoch = time.UnixMilli(1_780_000_000_000)

// alice starts the runs of the tests.
var alice = bus.Principal{ID: "alice", Role: bus.RoleClient}

// world is everything around a turn: real ports on a temporary data folder, a
// bus of plain functions, and a clock that the test moves.
type world struct {
	t        *testing.T
	clock    *clock.Fake
	db       *embedded.DB
	queues   *embedded.Queue
	timers   *embedded.Timer
	channels *channel.Local
	bus      *fakeBus
	session  *fakeSession
	model    *fakeModel
	viewer   *fakeViewer
	stats    *fakeStats
	cfg      Config
	log      *slog.Logger

	mu   sync.Mutex
	proc *process
	all  []*process
}

type option func(*world)

func withConfig(f func(*Config)) option { return func(w *world) { f(&w.cfg) } }

// newWorld makes a world and starts a worker in it.
func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewFake(epoch), cfg: Config{Local: true, FoldWindow: time.Hour}}
	w.log = slog.New(slog.DiscardHandler)
	if os.Getenv("TURN_TEST_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, o := range opts {
		o(w)
	}
	ctx := t.Context()
	var err error
	ids := clock.Sequence(1)
	w.db, err = embedded.Open(ctx, embedded.Options{Dir: t.TempDir(), Clock: w.clock, IDs: ids, NoSync: true})
	w.check(err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.queues, err = embedded.OpenQueue(ctx, w.db)
	w.check(err)
	w.timers, err = embedded.OpenTimer(ctx, w.db, w.queues)
	w.check(err)
	_, err = w.queues.Define(ctx, queue.Config{
		Name: agent.QueueTurnStep, Type: queue.FIFO, GroupField: "session_id", ContentDedup: true, MaxReceives: 5,
		Concurrency: 100, Visibility: time.Minute, Timeout: 1000 * time.Hour, Internal: true,
	})
	w.check(err)
	w.channels = channel.NewLocal(w.clock, clock.Random())
	w.bus = newFakeBus(w)
	w.session = newFakeSession(w)
	w.model = newFakeModel(w)
	w.viewer = &fakeViewer{}
	w.stats = &fakeStats{}
	w.servePolicy()
	w.boot()
	t.Cleanup(func() {
		for _, p := range w.all {
			p.kill()
		}
	})
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// process is one life of the worker. A killed one changes nothing any more.
type process struct {
	w      *world
	turn   *Turn
	ctx    context.Context
	cancel context.CancelFunc
	fault  *fault
	done   chan struct{}
	dead   chan struct{}
	once   sync.Once
}

// boot starts a worker.
func (w *world) boot() *process {
	w.t.Helper()
	p := w.bootIdle()
	p.consume()
	return p
}

// bootIdle starts a worker that takes no messages.
func (w *world) bootIdle() *process {
	w.t.Helper()
	p := &process{w: w, done: make(chan struct{}), dead: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.fault = &fault{p: p}
	tr, err := New(Deps{
		State: faultyState{w.db.State(), p.fault}, Stream: faultyStream{w.db.Streams(), p.fault}, Queue: faultyQueue{w.queues, p.fault},
		Timers: faultyTimers{w.timers, p.fault}, Blobs: w.db.Blobs(), Channels: w.channels,
		Bus: faultyBus{w.bus, p.fault}, Directory: w.bus, Viewer: w.viewer, Clock: w.clock, IDs: clock.Sequence(7), Logger: w.log,
		Stats: w.stats, Alarm: w.stats.alarm, Config: w.cfg,
	})
	w.check(err)
	p.turn = tr
	w.bus.serve(tr.Endpoints(), p)
	w.mu.Lock()
	w.proc, w.all = p, append(w.all, p)
	w.mu.Unlock()
	return p
}

// consume serves the queue.
func (p *process) consume() {
	w := p.w
	c := queue.NewConsumer(faultyQueue{w.queues, p.fault}, queue.ConsumerConfig{
		Queue: agent.QueueTurnStep, Clock: w.clock, Logger: w.log, Drain: time.Nanosecond,
		Serve: func(ctx context.Context, d queue.Delivery) error {
			return w.bus.deliver(ctx, p, d)
		},
	})
	go func() {
		defer close(p.done)
		_ = c.Run(p.ctx)
	}()
}

// kill ends a worker as SIGKILL would.
func (p *process) kill() {
	p.once.Do(func() { close(p.dead) })
	p.cancel()
}

// restart kills the worker and starts another one, which gets the message of
// the dead one when its visibility ends.
func (w *world) restart() {
	w.t.Helper()
	w.proc.kill()
	w.boot()
	w.clock.Advance(61 * time.Second)
}

// call calls a function as a person.
func (w *world) call(p bus.Principal, id string, payload any) (json.RawMessage, error) {
	return w.bus.Invoke(w.t.Context(), bus.Invocation{FunctionID: id, Data: encode(payload), Principal: &p})
}

// must calls a function as alice and decodes its answer.
func (w *world) must(id string, payload, into any) {
	w.t.Helper()
	raw, err := w.call(alice, id, payload)
	w.check(err)
	if into != nil {
		w.check(json.Unmarshal(raw, into))
	}
}

// start starts a run with one user message.
func (w *world) start(session, text string, extra ...map[string]any) StartResponse {
	w.t.Helper()
	payload := map[string]any{
		"session_id": session, "provider": "test", "model": "m1",
		"messages": []agent.Message{agent.User(text, clock.Millis(w.clock.Now()))},
	}
	for _, e := range extra {
		for k, v := range e {
			payload[k] = v
		}
	}
	var res StartResponse
	w.must("run::start", payload, &res)
	return res
}

// record is the stored record of a session.
func (w *world) record(session string) *step.Record {
	w.t.Helper()
	item, ok, err := w.db.State().Get(w.t.Context(), state.Key{Scope: agent.ScopeTurnState, Key: session})
	w.check(err)
	if !ok {
		return nil
	}
	r, err := step.Parse(item.Value, item.Version)
	w.check(err)
	return r
}

// until waits until the record fulfils a condition.
func (w *world) until(session, what string, cond func(*step.Record) bool) *step.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	watch := w.db.State().Watch(ctx, state.Key{Scope: agent.ScopeTurnState, Key: session})
	for range watch {
		if r := w.record(session); r != nil && cond(r) {
			return r
		}
	}
	r := w.record(session)
	w.t.Fatalf("session %s: %s did not happen; record: %s", session, what, dump(r))
	return nil
}

func dump(r *step.Record) string {
	if r == nil {
		return "none"
	}
	b, _ := json.MarshalIndent(json.RawMessage(r.Encode()), "", " ")
	return string(b)
}

// ended waits until a run has ended and owes nothing.
func (w *world) ended(session string) *step.Record {
	w.t.Helper()
	return w.until(session, "the end", func(r *step.Record) bool { return r.State.Terminal() && r.Outbox.IsZero() })
}

// parked waits until the turn waits and owes nothing.
func (w *world) parked(session string) *step.Record {
	w.t.Helper()
	return w.until(session, "the park", func(r *step.Record) bool { return r.State == step.Awaiting && r.Outbox.IsZero() })
}

// quiet waits until no message of the queue is left.
func (w *world) quiet() {
	w.t.Helper()
	w.eventually("an empty queue", func() bool {
		s, err := w.queues.Stats(w.t.Context(), agent.QueueTurnStep)
		w.check(err)
		return s.Depth == 0 && s.InFlight == 0
	})
}

// eventually polls what has no signal to wait for.
func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			stats, _ := w.queues.Stats(w.t.Context(), agent.QueueTurnStep)
			w.t.Fatalf("%s did not happen; queue %+v; record %s", what, stats, dump(w.record("s1")))
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// advanceUntil moves the clock in steps until something has happened, and gives
// the goroutines that a step wakes time to work before the next one.
func (w *world) advanceUntil(what string, by time.Duration, cond func() bool) {
	w.t.Helper()
	next := time.Now()
	w.eventually(what, func() bool {
		if cond() {
			return true
		}
		if now := time.Now(); now.After(next) {
			w.clock.Advance(by)
			next = now.Add(5 * time.Millisecond)
		}
		return false
	})
}

// told waits until every event of the record is in the log.
func (w *world) told(session string) {
	w.t.Helper()
	w.eventually("the events", func() bool {
		head, err := w.db.Streams().Head(w.t.Context(), agent.StreamEvents, session)
		return err == nil && head.Tail+1 >= w.record(session).EventSeq
	})
}

// events are the stored events of a session.
func (w *world) events(session string) []map[string]any {
	w.t.Helper()
	items, err := w.db.Streams().Read(w.t.Context(), agent.StreamEvents, session, 0, 100000, 1<<30)
	w.check(err)
	out := make([]map[string]any, 0, len(items))
	for i, it := range items {
		if want := fmt.Sprintf("%s-%08d", session, i); it.Item != want {
			w.t.Fatalf("event %d has id %q, want %q", i, it.Item, want)
		}
		var e map[string]any
		w.check(json.Unmarshal(it.Data, &e))
		out = append(out, e)
	}
	return out
}

// types is the types of events, without the given ones.
func types(events []map[string]any, without ...string) []string {
	var out []string
next:
	for _, e := range events {
		for _, x := range without {
			if e["type"] == x {
				continue next
			}
		}
		out = append(out, e["type"].(string))
	}
	return out
}

// states is the states that turn_state_changed events told.
func states(events []map[string]any) []string {
	var out []string
	for _, e := range events {
		if e["type"] == agent.EventTurnStateChanged {
			out = append(out, e["new_value"].(map[string]any)["state"].(string))
		}
	}
	return out
}
