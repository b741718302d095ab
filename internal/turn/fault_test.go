package turn

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/timer"
)

var errDead = errors.New("the process is dead")

// fault kills a process before or after its nth durable write, or makes single
// operations fail.
type fault struct {
	p  *process
	mu sync.Mutex
	// n counts the writes; at is the one to die at, 0 never.
	n, at int
	after bool
	// hook may fail an operation; a nil error lets it pass.
	hook func(op string, detail any) error
	// lost applies an operation and loses its answer.
	lost func(op string, detail any) bool
	log  []string
}

// write runs a durable write, if the process lives to see it.
func write[T any](f *fault, op string, detail any, do func() *commit.Promise[T]) *commit.Promise[T] {
	var zero T
	f.mu.Lock()
	select {
	case <-f.p.dead:
		f.mu.Unlock()
		return commit.Resolved(zero, errDead)
	default:
	}
	if f.hook != nil {
		if err := f.hook(op, detail); err != nil {
			f.mu.Unlock()
			return commit.Resolved(zero, err)
		}
	}
	f.n++
	f.log = append(f.log, op)
	dies := f.n == f.at
	if dies && !f.after {
		f.mu.Unlock()
		f.p.kill()
		return commit.Resolved(zero, errDead)
	}
	p := do()
	lost := f.lost != nil && f.lost(op, detail)
	f.mu.Unlock()
	if lost {
		<-p.Done()
		return commit.Resolved(zero, error(&state.StorageError{Op: op, Ambiguous: true, Retry: true, Err: errors.New("answer lost")}))
	}
	if !dies {
		return p
	}
	<-p.Done()
	f.p.kill()
	return commit.Resolved(zero, errDead)
}

func (f *fault) alive() error {
	select {
	case <-f.p.dead:
		return errDead
	default:
		return nil
	}
}

type faultyState struct {
	state.Store
	f *fault
}

func (s faultyState) Submit(ctx context.Context, ws []state.Write, after ...commit.Ticket) *state.Pending {
	return write(s.f, "state:"+ws[0].Scope, ws, func() *state.Pending { return s.Store.Submit(ctx, ws, after...) })
}

// Get reads, unless the hook fails it: it hears of reads as "get:" and the scope.
func (s faultyState) Get(ctx context.Context, k state.Key, o ...state.ReadOption) (state.Item, bool, error) {
	s.f.mu.Lock()
	hook := s.f.hook
	var err error
	if hook != nil {
		err = hook("get:"+k.Scope, k)
	}
	s.f.mu.Unlock()
	if err != nil {
		return state.Item{}, false, err
	}
	return s.Store.Get(ctx, k, o...)
}

type faultyStream struct {
	stream.Store
	f *fault
}

func (s faultyStream) SubmitAppend(ctx context.Context, a stream.Append, after ...commit.Ticket) *commit.Promise[stream.Appended] {
	return write(s.f, "events", a, func() *commit.Promise[stream.Appended] { return s.Store.SubmitAppend(ctx, a, after...) })
}

type faultyQueue struct {
	queue.Queue
	f *fault
}

func (q faultyQueue) Submit(ctx context.Context, m queue.Message, after ...commit.Ticket) *commit.Promise[queue.Sent] {
	return write(q.f, "send", m, func() *commit.Promise[queue.Sent] { return q.Queue.Submit(ctx, m, after...) })
}

func (q faultyQueue) Ack(ctx context.Context, name, receipt string, after ...commit.Ticket) *commit.Promise[struct{}] {
	return write(q.f, "ack", receipt, func() *commit.Promise[struct{}] { return q.Queue.Ack(ctx, name, receipt, after...) })
}

func (q faultyQueue) Fail(ctx context.Context, name, receipt string, cause error) (bool, error) {
	if err := q.f.alive(); err != nil {
		return false, err
	}
	return q.Queue.Fail(ctx, name, receipt, cause)
}

func (q faultyQueue) Release(ctx context.Context, name, receipt string, d time.Duration, counted bool) error {
	if err := q.f.alive(); err != nil {
		return err
	}
	return q.Queue.(queue.Releaser).Release(ctx, name, receipt, d, counted)
}

func (q faultyQueue) Extend(ctx context.Context, name, receipt string, d time.Duration) error {
	if err := q.f.alive(); err != nil {
		return err
	}
	return q.Queue.Extend(ctx, name, receipt, d)
}

type faultyTimers struct {
	timer.Port
	f *fault
}

func (t faultyTimers) Submit(ctx context.Context, tm timer.Timer, after ...commit.Ticket) *commit.Promise[struct{}] {
	return write(t.f, "timer", tm, func() *commit.Promise[struct{}] { return t.Port.Submit(ctx, tm, after...) })
}

func (t faultyTimers) Cancel(ctx context.Context, id string, after ...commit.Ticket) *commit.Promise[struct{}] {
	return write(t.f, "untimer", id, func() *commit.Promise[struct{}] { return t.Port.Cancel(ctx, id, after...) })
}

// faultyBus counts the writes that a process makes through the session.
type faultyBus struct {
	bus.Invoker
	f *fault
}

func (b faultyBus) Invoke(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	if err := b.f.alive(); err != nil {
		return nil, err
	}
	switch in.FunctionID {
	case "session-tree::append_batch", "session-inbox::drain", "session-tree::touch":
		p := write(b.f, in.FunctionID, in, func() *commit.Promise[json.RawMessage] {
			return commit.Resolved(b.Invoker.Invoke(ctx, in))
		})
		return p.Wait(ctx)
	}
	if b.f.hook != nil {
		b.f.mu.Lock()
		err := b.f.hook("invoke:"+in.FunctionID, in)
		b.f.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	return b.Invoker.Invoke(ctx, in)
}
