package turn

import (
	"context"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// target counts the effects of a function by idempotency key.
type target struct {
	mu      sync.Mutex
	effects []string
	datas   []string
}

// target serves a function that answers with what it was given.
func (w *world) target(id string, m bus.Meta, kind bus.Kind) *target {
	x := &target{}
	w.bus.onMeta(id, m, kind, func(_ context.Context, c *bus.Call) (any, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.effects = append(x.effects, c.IdempotencyKey)
		x.datas = append(x.datas, string(c.Data))
		return map[string]any{"content": []agent.Block{agent.Text("did " + id + " " + string(c.Data))}}, nil
	})
	return x
}

func (w *world) simple(id string) *target { return w.target(id, bus.Meta{}, bus.KindBuiltin) }

func (x *target) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.effects)
}

func (x *target) data(n int) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.datas[n]
}

// results are the function results of a transcript, in order.
func (w *world) results(session string) []agent.Message {
	var out []agent.Message
	for _, e := range w.session.path(session) {
		if e.Message.Role == agent.RoleFunctionResult {
			out = append(out, e.Message)
		}
	}
	return out
}

// legalPath checks that every call has exactly one result, in call order.
func (w *world) legalPath(session string) {
	w.t.Helper()
	var open, got []string
	for _, e := range w.session.path(session) {
		switch e.Message.Role {
		case agent.RoleAssistant:
			for _, b := range e.Message.Calls() {
				open = append(open, b.ID)
			}
		case agent.RoleFunctionResult:
			got = append(got, e.Message.FunctionCallID)
		}
	}
	if len(open) != len(got) {
		w.t.Errorf("%d calls, %d results", len(open), len(got))
		return
	}
	for i := range open {
		if open[i] != got[i] {
			w.t.Errorf("result %d is of %s, want %s", i, got[i], open[i])
		}
	}
	if len(w.session.refusals) > 0 {
		w.t.Errorf("the session refused: %v", w.session.refusals)
	}
}

// awaiting is the ids of the calls that wait for a person.
func (w *world) awaiting(session string) []string {
	w.t.Helper()
	var view *agent.TurnStateView
	w.must("turn::get_state", SessionRequest{session}, &view)
	if view == nil {
		return nil
	}
	var out []string
	for _, a := range view.AwaitingApproval {
		out = append(out, a.FunctionCallID)
	}
	return out
}

func text(m agent.Message) string { return textOf(m) }

func blockWorld(t *testing.T, w *world, id string) (began <-chan struct{}, letGo func()) {
	t.Helper()
	b, g := make(chan struct{}), make(chan struct{})
	var once, start sync.Once
	w.bus.on(id, func(ctx context.Context, _ *bus.Call) (any, error) {
		start.Do(func() { close(b) })
		select {
		case <-g:
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	letGo = func() { once.Do(func() { close(g) }) }
	t.Cleanup(letGo)
	return b, letGo
}

var stateAll = state.ListOptions{}

func failing(code, message string) handler {
	return func(context.Context, *bus.Call) (any, error) { return nil, &bus.Error{Code: code, Message: message} }
}

func answers(v any) handler {
	return func(context.Context, *bus.Call) (any, error) { return v, nil }
}
