package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// handler is a function on the fake bus.
type handler func(ctx context.Context, call *bus.Call) (any, error)

type function struct {
	run  bus.Handler
	meta bus.Meta
	kind bus.Kind
	proc *process // whose death ends its calls, nil for none
	// worker is who serves it.
	worker string
}

// fakeBus calls functions in process and keeps the promises of bus.Invoker.
type fakeBus struct {
	w     *world
	mu    sync.Mutex
	funcs map[string]function
	calls map[string][]bus.Call
}

func newFakeBus(w *world) *fakeBus {
	return &fakeBus{w: w, funcs: map[string]function{}, calls: map[string][]bus.Call{}}
}

// on serves a function.
func (b *fakeBus) on(id string, h handler) { b.onMeta(id, bus.Meta{}, bus.KindBuiltin, h) }

func (b *fakeBus) onMeta(id string, m bus.Meta, k bus.Kind, h handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.funcs[id] = function{meta: m, kind: k, run: func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
		v, err := h(ctx, c)
		if err != nil {
			return nil, err
		}
		return bus.Encode(v)
	}}
}

func (b *fakeBus) off(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.funcs, id)
}

func (b *fakeBus) serve(all map[string]bus.Endpoint, p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, e := range all {
		b.funcs[id] = function{run: e.Handle, kind: bus.KindBuiltin, proc: p}
	}
}

// seen are the calls that a function got.
func (b *fakeBus) seen(id string) []bus.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]bus.Call(nil), b.calls[id]...)
}

func (b *fakeBus) Lookup(_, id string) (bus.Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.funcs[id]
	return bus.Entry{FunctionID: id, Kind: f.kind, Meta: f.meta, WorkerID: f.worker}, ok
}

func (b *fakeBus) List(string) []bus.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []bus.Entry
	for id, f := range b.funcs {
		out = append(out, bus.Entry{FunctionID: id, Kind: f.kind, Meta: f.meta, WorkerID: f.worker})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].FunctionID < out[j].FunctionID })
	return out
}

type reply struct {
	data json.RawMessage
	err  error
}

func (b *fakeBus) Invoke(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	b.mu.Lock()
	f, ok := b.funcs[in.FunctionID]
	c := b.newCall(ctx, in)
	b.calls[in.FunctionID] = append(b.calls[in.FunctionID], *c)
	b.mu.Unlock()
	if !ok {
		return nil, protocol.FunctionNotFound(in.FunctionID, "", nil)
	}
	if in.Action == bus.Void {
		go b.run(context.WithoutCancel(ctx), f, c)
		return nil, nil
	}
	done := make(chan reply, 1)
	inner := ctx
	if in.Reply != nil {
		inner = context.WithoutCancel(ctx)
	}
	go func() { done <- b.run(inner, f, c) }()
	var after <-chan time.Time
	if in.Reply != nil && (f.meta.Slow || f.kind == bus.KindSocket) {
		d := time.Duration(in.Reply.AfterMS) * time.Millisecond
		if f.meta.Slow {
			d = 0
		}
		t := b.w.clock.NewTimer(d)
		defer t.Stop()
		after = t.C()
	}
	select {
	case r := <-done:
		return r.data, r.err
	case <-after:
		go func() { b.w.land(*in.Reply, <-done) }()
		return nil, bus.ErrAwaiting
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *fakeBus) newCall(ctx context.Context, in bus.Invocation) *bus.Call {
	c := &bus.Call{FunctionID: in.FunctionID, Data: in.Data, IdempotencyKey: in.IdempotencyKey, Reply: in.Reply}
	if len(c.Data) == 0 {
		c.Data = json.RawMessage("null")
	}
	switch parent := bus.CallFrom(ctx); {
	case in.Principal != nil:
		c.Principal = *in.Principal
	case parent != nil:
		c.Principal = parent.Principal
	}
	return c
}

func (b *fakeBus) run(ctx context.Context, f function, c *bus.Call) (r reply) {
	defer func() {
		if v := recover(); v != nil {
			r = reply{err: &bus.Error{Code: protocol.CodeInvocationFailed, Message: fmt.Sprint(v)}}
		}
	}()
	data, err := f.run(bus.WithCall(ctx, c), c)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = bus.AsError(err)
	}
	return reply{data, err}
}

// deliver runs a message of the queue in a process.
func (b *fakeBus) deliver(ctx context.Context, p *process, d queue.Delivery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	c := &bus.Call{FunctionID: d.FunctionID, Data: d.Data, Principal: d.Principal}
	_, err := p.turn.Endpoints()[d.FunctionID].Handle(bus.WithCall(ctx, c), c)
	return err
}

// land stores the result of a call that nobody waits for, and fires the
// trigger on it.
func (w *world) land(r bus.Reply, got reply) {
	row := agent.CallResult{Run: r.Run, Source: "target", Result: got.data, AtMS: clock.Millis(w.clock.Now())}
	if got.err != nil {
		e := bus.AsError(got.err)
		row.Result, row.Error = nil, &agent.CallError{Code: e.Code, Message: e.Message}
	}
	key := r.SessionID + "/" + r.FunctionCallID
	if _, err := state.Do(context.Background(), w.db.State(), state.Set(agent.ScopeCallResults, key, encode(row)).IfAbsent()); err != nil {
		return
	}
	w.fire("turn::on_call_result", key, encode(row))
}

func (w *world) fire(id, key string, value json.RawMessage) {
	_, _ = w.bus.Invoke(context.Background(), bus.Invocation{
		FunctionID: id, Data: encode(map[string]any{"type": "state", "event_type": "state:created", "key": key, "new_value": value}),
	})
}
