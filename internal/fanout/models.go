package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// The functions for those who watch the catalogue of models.
const (
	FunctionModelsSubscribe   = "ui::models::subscribe"
	FunctionModelsUnsubscribe = "ui::models::unsubscribe"
	FunctionModelsChanged     = "harness::fanout::models_changed"
)

// maxModelBrowsers is how many browsers of one connection may watch.
const maxModelBrowsers = 64

// ModelsRequest names a browser, whose function ui::models::changed::<id> is
// called.
type ModelsRequest struct {
	BrowserID string `json:"browser_id"`
}

// Validate names the first wrong field.
func (r ModelsRequest) Validate() error { return validate(r.BrowserID, nil) }

// OK is the answer.
type OK struct {
	OK bool `json:"ok"`
}

// modelWatch is a row of scope ui_model_subscriptions, under
// <connection>/<browser>.
type modelWatch struct {
	Connection string `json:"connection"`
	BrowserID  string `json:"browser_id"`
}

func (w modelWatch) key() string { return w.Connection + "/" + w.BrowserID }

// modelsSubscribe serves ui::models::subscribe. Errors: *NoConnectionError.
func (f *Fanout) modelsSubscribe(ctx context.Context, call *bus.Call, r ModelsRequest) (OK, error) {
	w := modelWatch{call.Connection, r.BrowserID}
	if w.Connection == "" {
		return OK{}, &NoConnectionError{FunctionID: call.FunctionID}
	}
	rows, err := f.State.List(ctx, agent.ScopeModelSubscriptions, state.ListOptions{Prefix: w.Connection + "/", Limit: maxModelBrowsers})
	if err != nil {
		return OK{}, fmt.Errorf("fanout: subscriptions: %w", err)
	}
	if len(rows) == maxModelBrowsers && !has(rows, w.key()) {
		return OK{}, bus.Invalid("browser_id", fmt.Sprintf("one of at most %d of a connection", maxModelBrowsers))
	}
	value, err := bus.Encode(w)
	if err != nil {
		return OK{}, err
	}
	_, err = state.Do(ctx, f.State, state.Set(agent.ScopeModelSubscriptions, w.key(), value))
	return OK{err == nil}, err
}

func has(rows []state.Item, key string) bool {
	for _, r := range rows {
		if r.Key.Key == key {
			return true
		}
	}
	return false
}

// modelsUnsubscribe serves ui::models::unsubscribe. Errors: *NoConnectionError.
func (f *Fanout) modelsUnsubscribe(ctx context.Context, call *bus.Call, r ModelsRequest) (OK, error) {
	w := modelWatch{call.Connection, r.BrowserID}
	if w.Connection == "" {
		return OK{}, &NoConnectionError{FunctionID: call.FunctionID}
	}
	_, err := state.Do(ctx, f.State, state.Delete(agent.ScopeModelSubscriptions, w.key()))
	return OK{err == nil}, err
}

// ModelsChange is a change of the catalogue, as a state trigger tells it and as
// it is pushed: which entry, and how.
type ModelsChange struct {
	EventType string `json:"event_type"`
	Key       string `json:"key"`
}

// modelsChanged pushes a change to everybody who watches. Whoever is gone, or
// has not registered the function, is forgotten.
func (f *Fanout) modelsChanged(ctx context.Context, _ *bus.Call, r ModelsChange) (bus.None, error) {
	rows, err := f.State.List(ctx, agent.ScopeModelSubscriptions, state.ListOptions{})
	if err != nil {
		return bus.None{}, fmt.Errorf("fanout: subscriptions: %w", err)
	}
	data, err := bus.Encode(r)
	if err != nil {
		return bus.None{}, err
	}
	for _, row := range rows {
		var w modelWatch
		if err := json.Unmarshal(row.Value, &w); err != nil {
			return bus.None{}, fmt.Errorf("fanout: subscription %s: %w", row.Key.Key, err)
		}
		err := f.Poster.Post(ctx, bus.Push{Connection: w.Connection, FunctionID: "ui::models::changed::" + w.BrowserID, Data: data})
		switch {
		case errors.Is(err, bus.ErrGone), errors.Is(err, bus.ErrNotRegistered):
			if _, err := state.Do(ctx, f.State, state.Delete(row.Key.Scope, row.Key.Key)); err != nil {
				return bus.None{}, err
			}
		case err != nil:
			f.Logger.Warn("change of models not pushed", "connection", w.Connection, "error", err)
		}
	}
	return bus.None{}, nil
}

// Forget ends what a connection that is gone watched of the models.
func (f *Fanout) Forget(ctx context.Context, connection string) error {
	rows, err := f.State.List(ctx, agent.ScopeModelSubscriptions, state.ListOptions{Prefix: connection + "/"})
	for _, row := range rows {
		_, failed := state.Do(ctx, f.State, state.Delete(row.Key.Scope, row.Key.Key))
		err = errors.Join(err, failed)
	}
	return err
}
