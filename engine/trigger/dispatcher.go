package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// Attempts is how often a delivery is tried, with pauses from firstPause on, doubled each time.
const (
	Attempts   = 5
	firstPause = 200 * time.Millisecond
)

// Delivery is what a Dispatcher needs.
type Delivery struct {
	Table *Table
	// Invoker calls for the bus itself.
	Invoker bus.Invoker
	Clock   clock.Clock
	// Logger may be nil.
	Logger *slog.Logger
	// Owns says whether a session, which is the group of a stream, belongs to a principal; nil says no to everybody.
	Owns func(ctx context.Context, p bus.Principal, session string) (bool, error)
	// SessionStream says whether the groups of a stream are sessions; nil says so of those that start with agent::.
	SessionStream func(name string) bool
	// Reads says whether a principal may know of a value; nil says yes to everybody. It is asked for bindings that a
	// connection made.
	Reads func(ctx context.Context, p bus.Principal, scope, key string) (bool, error)
	// Worker says whether a principal that is no worker has a worker's rights too, as programs on the machine of a local
	// server have; nil says no to everybody.
	Worker func(p bus.Principal) bool
	// Trace puts the trace of a write into the context of what it triggers; nil puts it where nested calls of the bus
	// find it.
	Trace func(ctx context.Context, traceparent, baggage string) context.Context
}

// Dispatcher calls the functions of bindings. It is safe for concurrent use.
type Dispatcher struct{ Delivery }

// NewDispatcher delivers to the bindings of a table.
func NewDispatcher(d Delivery) (*Dispatcher, error) {
	if d.Table == nil || d.Invoker == nil || d.Clock == nil {
		return nil, errors.New("trigger: Table, Invoker and Clock are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Worker == nil {
		d.Worker = func(bus.Principal) bool { return false }
	}
	if d.Owns == nil {
		d.Owns = func(context.Context, bus.Principal, string) (bool, error) { return false, nil }
	}
	if d.SessionStream == nil {
		d.SessionStream = func(name string) bool { return strings.HasPrefix(name, "agent::") }
	}
	if d.Trace == nil {
		d.Trace = func(ctx context.Context, traceparent, baggage string) context.Context {
			return bus.WithCall(ctx, &bus.Call{Traceparent: traceparent, Baggage: baggage})
		}
	}
	return &Dispatcher{d}, nil
}

// firing is one change on its way to the bindings that it concerns.
type firing struct {
	payload json.RawMessage
	origin  state.Origin
	// lane is within what the order is kept.
	lane string
	// event is the event of a stream; nil for state.
	event *stream.Event
	// change is the change of the state; nil for a stream.
	change *state.Change
}

// State delivers a change of the state. It returns when every stored binding has it, or was given up; bindings of
// connections get it on their own time. The error is that of ctx: then the change must be delivered again.
func (d *Dispatcher) State(ctx context.Context, c state.Change) error {
	bindings := d.Table.forState(c.Key)
	if len(bindings) == 0 {
		return nil
	}
	payload, err := payloadOf(c)
	if err != nil {
		d.Logger.Error("a change is no payload", "alarm", "trigger_given_up", "scope", c.Scope, "key", c.Key.Key, "error", err)
		return nil
	}
	return d.fire(ctx, bindings, firing{payload: payload, origin: c.Origin, lane: c.Scope + "\x00" + c.Key.Key, change: &c})
}

// Stream delivers an event of a stream, as State does.
func (d *Dispatcher) Stream(ctx context.Context, e stream.Event) error {
	bindings := d.Table.forStream(e.Key)
	if len(bindings) == 0 {
		return nil
	}
	payload, err := payloadOfEvent(e)
	if err != nil {
		d.Logger.Error("an event is no payload", "alarm", "trigger_given_up", "stream", e.Stream, "group", e.Group, "error", err)
		return nil
	}
	return d.fire(ctx, bindings, firing{payload: payload, origin: e.Origin, lane: e.Stream + "\x00" + e.Group, event: &e})
}

func (d *Dispatcher) fire(ctx context.Context, bindings []*binding, f firing) error {
	var wg sync.WaitGroup
	for _, b := range bindings {
		if b.origin != connected {
			wg.Go(func() { d.deliver(ctx, b, f) })
			continue
		}
		if !b.lanes.add(f.lane, func() { d.deliver(b.life, b, f) }) {
			d.dropped(b)
		}
	}
	wg.Wait()
	return ctx.Err()
}

func (d *Dispatcher) dropped(b *binding) {
	d.Logger.Error("the function of a trigger is too slow: a change was dropped", "alarm", "trigger_dropped",
		"trigger_id", b.id, "function_id", b.functionID)
}

// deliver tries until the binding has the change, is given up, or ctx ends.
func (d *Dispatcher) deliver(ctx context.Context, b *binding, f firing) {
	ctx = d.Trace(ctx, f.origin.Traceparent, f.origin.Baggage)
	pause := firstPause
	for try := 1; ctx.Err() == nil && b.life.Err() == nil; try++ {
		err := d.try(ctx, b, f)
		if err == nil || ctx.Err() != nil || b.life.Err() != nil {
			return
		}
		if final(err) || try == Attempts {
			d.giveUp(b, err, try)
			return
		}
		timer := d.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
		case <-b.life.Done():
		}
		timer.Stop()
		pause *= 2
	}
}

// try makes one attempt.
func (d *Dispatcher) try(ctx context.Context, b *binding, f firing) error {
	if f.change != nil && d.Reads != nil && b.external && !b.principal.SeesAll() {
		if reads, err := d.Reads(ctx, b.principal, f.change.Scope, f.change.Key.Key); err != nil || !reads {
			return err
		}
	}
	if f.event != nil && d.bounded(b, f.event.Stream) {
		if owns, err := d.Owns(ctx, b.principal, f.event.Group); err != nil || !owns {
			return err
		}
	}
	_, _, err := d.Fire(ctx, b.view(), Firing{Payload: f.payload, Metadata: true})
	return err
}

// bounded reports whether a binding gets only the events of its principal's sessions: that of a client or an approver on
// whatever stream, that of a worker on streams of sessions.
func (d *Dispatcher) bounded(b *binding, name string) bool {
	if !b.external || b.principal.SeesAll() {
		return false
	}
	worker := b.principal.Role == bus.RoleWorker || d.Worker(b.principal)
	return !worker || d.SessionStream(name)
}

func (d *Dispatcher) call(ctx context.Context, b Binding, f Firing, functionID string, metadata json.RawMessage) (json.RawMessage, error) {
	in := bus.Invocation{
		FunctionID: functionID, Namespace: b.Namespace, Data: f.Payload, Metadata: metadata, Principal: &b.Principal, Timeout: f.Timeout,
	}
	if functionID == b.FunctionID {
		in.IdempotencyKey = f.IdempotencyKey
	}
	return d.Invoker.Invoke(ctx, in)
}

// Blocks reports whether the answer of a condition says no: only false does.
func Blocks(answer json.RawMessage) bool { return strings.TrimSpace(string(answer)) == "false" }

// final reports whether trying again is of no use.
func final(err error) bool {
	switch bus.Code(err) {
	case protocol.CodeFunctionNotFound, protocol.CodeForbidden:
		return true
	}
	return false
}

func (d *Dispatcher) giveUp(b *binding, err error, tries int) {
	attrs := []any{"trigger_id", b.id, "trigger_type", b.kind, "function_id", b.functionID, "code", bus.Code(err), "attempts", tries}
	if bus.Code(err) == protocol.CodeFunctionNotFound {
		d.Logger.Warn("nobody serves the function of a trigger", attrs...)
		return
	}
	d.Logger.Error("a change did not reach its trigger", append(attrs, "alarm", "trigger_given_up")...)
}
