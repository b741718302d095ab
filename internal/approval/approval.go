package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
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

// Endpoints is the functions of the worker. Each takes the bare object or an
// HTTP-like {body: {...}}.
func (g *Gate) Endpoints() map[string]bus.Endpoint {
	resolve := bus.Typed(g.resolve)
	resolve.Handle = g.handleResolve
	return map[string]bus.Endpoint{
		"approval::resolve": bus.Unwrapped(resolve),
		"approval::list":    bus.Unwrapped(bus.Typed(g.list)),
		"approval::grants":  bus.Unwrapped(bus.Typed(g.grants)),
		"approval::revoke":  bus.Unwrapped(bus.Typed(g.revoke)),
	}
}

// sees reports whether a session exists that a principal may see, and on whose
// calls it may decide: an operator all, an owner its own, an approver what its
// globs name.
func (g *Gate) sees(ctx context.Context, p bus.Principal, session string) (bool, error) {
	item, ok, err := g.State.Get(ctx, state.Key{Scope: agent.ScopeSessionTreeMeta, Key: session})
	if err != nil || !ok {
		return false, err
	}
	var m struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(item.Value, &m); err != nil {
		return false, fmt.Errorf("approval: session %s: %w", session, err)
	}
	return access.Sees(p, m.Owner, session), nil
}

// maxID is the longest id of a session or a call, in bytes.
const maxID = 256

// validID checks an id that becomes a part of keys; the text is what is
// allowed, empty if it is valid.
func validID(id string) string {
	if id == "" || len(id) > maxID {
		return "a text of 1 to 256 bytes"
	}
	for _, r := range id {
		if r == '/' || !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return "printable characters without a slash"
		}
	}
	return ""
}
