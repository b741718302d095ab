package trigger

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/internal/lifetime"
	"github.com/iii-aws/harness/engine/registry"
)

// The trigger types that tell of the bus itself.
const (
	TypeFunctions = "engine::functions-available"
	TypeWorkers   = "engine::workers-available"
)

// ChangeWindow is how long changes of what is served are gathered before they are told.
const ChangeWindow = time.Second

// Available provides the types that tell of functions and workers. Their configs are ignored, but for a condition. Events
// of workers reach a binding in their order, one at a time; of changes of functions only the latest is told. Both are
// tried again like changes of state. It is safe for concurrent use.
type Available struct {
	d         *Dispatcher
	registry  *registry.Registry
	life      *lifetime.Lifetime // of deliveries
	functions *listeners
	workers   *listeners
}

// NewAvailable provides both types in the dispatcher's table. The error is that of Provide.
func NewAvailable(d *Dispatcher, r *registry.Registry) (*Available, error) {
	a := &Available{d: d, registry: r, life: lifetime.New(), functions: newListeners(), workers: newListeners()}
	config := input.Schema(reflect.TypeFor[availableConfig]())
	if err := d.Table.Provide(Type{
		ID: TypeFunctions, Description: "Calls a function when functions come or go",
		Config: config, Payload: input.Schema(reflect.TypeFor[functionsPayload]()),
	}, a.functions); err != nil {
		return nil, err
	}
	return a, d.Table.Provide(Type{
		ID: TypeWorkers, Description: "Calls a function when workers connect, announce themselves or leave",
		Config: config, Payload: input.Schema(reflect.TypeFor[workerPayload]()),
	}, a.workers)
}

type availableConfig struct {
	Condition string `json:"condition_function_id,omitempty"`
}

// functionsPayload has every function that is served, internal ones included, sorted by id.
type functionsPayload struct {
	Event     string                     `json:"event"` // functions_changed
	Functions []registry.FunctionSummary `json:"functions"`
}

type workerPayload struct {
	Event    string `json:"event"` // worker_connected, worker_metadata_updated or worker_disconnected
	WorkerID string `json:"worker_id"`
}

// listeners is the provider of one of the types.
type listeners struct {
	mu   sync.Mutex
	byID map[string]*binding
	// due are those that are to hear of a change and have not begun.
	due map[*binding]bool
}

func newListeners() *listeners {
	return &listeners{byID: map[string]*binding{}, due: map[*binding]bool{}}
}

// Bind implements Provider.
func (l *listeners) Bind(_ context.Context, b Binding) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[b.ID] = b.own
	return nil
}

// Unbind implements Provider.
func (l *listeners) Unbind(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, id)
}

// all is the bindings; those that are not yet due, if once.
func (l *listeners) all(once bool) []*binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*binding, 0, len(l.byID))
	for _, b := range l.byID {
		if once && l.due[b] {
			continue
		}
		if once {
			l.due[b] = true
		}
		out = append(out, b)
	}
	return out
}

// begin notes that a binding's delivery begins.
func (l *listeners) begin(b *binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.due, b)
}

// WorkerEvent tells of a worker. It does not wait.
func (a *Available) WorkerEvent(event, workerID string) {
	payload, err := bus.Encode(workerPayload{Event: event, WorkerID: workerID})
	if err != nil {
		a.d.Logger.Error("a worker's event is no payload", "error", err)
		return
	}
	for _, b := range a.workers.all(false) {
		a.tell(b, func() (json.RawMessage, error) { return payload, nil })
	}
}

// Run tells of changes of what is served, until ctx ends.
func (a *Available) Run(ctx context.Context) {
	changed := a.registry.Changed()
	known := a.served()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		timer := a.d.Clock.NewTimer(ChangeWindow)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		changed = a.registry.Changed() // before it is looked at, so that nothing is missed
		now := a.served()
		if slices.Equal(known, now) {
			continue
		}
		known = now
		for _, b := range a.functions.all(true) {
			a.tell(b, func() (json.RawMessage, error) {
				a.functions.begin(b)
				return a.list()
			})
		}
	}
}

// served is what a change is known by: the ids alone, so that a worker that comes back is none.
func (a *Available) served() []string {
	all := a.registry.All()
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.Namespace + "\x00" + e.FunctionID
	}
	return ids
}

func (a *Available) list() (json.RawMessage, error) {
	all := a.registry.All()
	p := functionsPayload{Event: "functions_changed", Functions: make([]registry.FunctionSummary, len(all))}
	for i, e := range all {
		p.Functions[i] = registry.Summary(e)
	}
	return bus.Encode(p)
}

// tell delivers to a binding when its turn has come.
func (a *Available) tell(b *binding, payload func() (json.RawMessage, error)) {
	if !a.life.Begin() {
		return
	}
	added := b.lanes.add("", func() {
		defer a.life.End()
		data, err := payload()
		if err != nil {
			a.d.Logger.Error("an event of the bus is no payload", "trigger_type", b.kind, "error", err)
			return
		}
		a.d.deliver(a.life.Context(), b, firing{payload: data})
	})
	if !added {
		a.life.End()
		a.d.dropped(b)
	}
}

// Close ends what is being delivered, and waits for it until ctx ends.
func (a *Available) Close(ctx context.Context) error { return a.life.Close(ctx) }
