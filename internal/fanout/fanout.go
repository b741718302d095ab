package fanout

import (
	"errors"
	"log/slog"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/viewer"
)

// The functions of the worker.
const (
	FunctionTrigger        = "harness::trigger"
	FunctionSubscribe      = "ui::subscribe"
	FunctionUnsubscribe    = "ui::unsubscribe"
	FunctionEvent          = "harness::fanout::agent_event_handler"
	FunctionSessionCreated = "harness::fanout::session_created"
	FunctionPolicy         = "policy::check_permissions"
)

// Deps is what a Fanout works with. All are required but Logger and Policy.
type Deps struct {
	// State is read for the owners of sessions.
	State  state.Store
	Bus    bus.Invoker
	Hub    *viewer.Hub
	Poster bus.Poster
	// Channels is where files come from that are read inline.
	Channels channel.Broker
	Logger   *slog.Logger
	// Policy serves policy::check_permissions, which this worker hosts; without
	// a handler nobody does.
	Policy bus.Endpoint
}

// Fanout is the worker harness.
type Fanout struct{ Deps }

// New checks the dependencies.
func New(d Deps) (*Fanout, error) {
	for name, missing := range map[string]bool{"State": d.State == nil, "Bus": d.Bus == nil, "Hub": d.Hub == nil, "Channels": d.Channels == nil, "Poster": d.Poster == nil} {
		if missing {
			return nil, errors.New("fanout: Deps." + name + " is required")
		}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Fanout{d}, nil
}

// Endpoints is the functions of the worker by id.
func (f *Fanout) Endpoints() map[string]bus.Endpoint {
	out := map[string]bus.Endpoint{
		FunctionTrigger:           bus.Unwrapped(bus.Typed(f.trigger)),
		FunctionSubscribe:         bus.Unwrapped(bus.Typed(f.subscribe)),
		FunctionUnsubscribe:       bus.Unwrapped(bus.Typed(f.unsubscribe)),
		FunctionReadInline:        bus.Unwrapped(bus.Typed(f.readInline)),
		FunctionModelsSubscribe:   bus.Unwrapped(bus.Typed(f.modelsSubscribe)),
		FunctionModelsUnsubscribe: bus.Unwrapped(bus.Typed(f.modelsUnsubscribe)),
		FunctionModelsChanged:     bus.Typed(f.modelsChanged),
		FunctionEvent:             bus.Typed(f.event),
		FunctionSessionCreated:    bus.Typed(f.sessionCreated),
	}
	if f.Policy.Handle != nil {
		out[FunctionPolicy] = f.Policy
	}
	return out
}
