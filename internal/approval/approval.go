package approval

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/pattern"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Deps is what a Gate needs.
type Deps struct {
	State  state.Store
	Bus    bus.Invoker
	Clock  clock.Clock
	Logger *slog.Logger
}

// Gate is the worker.
type Gate struct{ Deps }

// New makes the worker.
func New(d Deps) (*Gate, error) {
	if d.State == nil || d.Bus == nil || d.Clock == nil {
		return nil, errors.New("approval: State, Bus and Clock are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gate{d}, nil
}

// Endpoints is the functions of the worker.
func (g *Gate) Endpoints() map[string]bus.Endpoint {
	resolve := bus.Typed(g.resolve)
	resolve.Handle = g.handleResolve
	return map[string]bus.Endpoint{
		"approval::resolve": bus.Unwrapped(resolve),
		"approval::list":    bus.Unwrapped(bus.Typed(g.list)),
	}
}

// sees reports whether a principal may see a session and decide on its calls:
// an operator all, an owner its own, an approver what its globs name.
func (g *Gate) sees(ctx context.Context, p bus.Principal, session string) (bool, error) {
	item, ok, err := g.State.Get(ctx, state.Key{Scope: agent.ScopeSessionTreeMeta, Key: session})
	if err != nil || !ok {
		return false, err
	}
	if p.SeesAll() {
		return true, nil
	}
	var m struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(item.Value, &m); err != nil {
		return false, err
	}
	if p.ID != "" && p.ID == m.Owner {
		return true, nil
	}
	for _, glob := range p.Sessions {
		if x, err := pattern.Compile(glob); err == nil && x.Match(session) {
			return true, nil
		}
	}
	return false, nil
}
