package fanout

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func (f *fixture) ask(c bus.Call, id, data string) (string, error) {
	c.FunctionID, c.Data = id, json.RawMessage(data)
	out, err := f.Endpoints()[id].Handle(f.t.Context(), &c)
	return string(out), err
}

func (f *fixture) watchers() int {
	f.t.Helper()
	rows, err := f.db.State().List(f.t.Context(), agent.ScopeModelSubscriptions, state.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return len(rows)
}

func TestModelsAreWatched(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bob := bus.Call{Connection: "c2"}
	for _, c := range []struct {
		call bus.Call
		data string
	}{{f.alice, `{"browser_id":"b1"}`}, {f.alice, `{"browser_id":"b1"}`}, {f.alice, `{"browser_id":"b2"}`}, {bob, `{"browser_id":"b1"}`}} {
		if got, err := f.ask(c.call, FunctionModelsSubscribe, c.data); got != `{"ok":true}` || err != nil {
			t.Errorf("subscribe: %s, %v", got, err)
		}
	}
	if got, err := f.ask(f.alice, FunctionModelsUnsubscribe, `{"browser_id":"b2"}`); got != `{"ok":true}` || err != nil {
		t.Errorf("unsubscribe: %s, %v", got, err)
	}
	change := `{"type":"state","scope":"models","event_type":"state:updated","key":"p1"}`
	if _, err := f.ask(bus.Call{}, FunctionModelsChanged, change); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c1", "c2"} {
		p := <-f.bus.pushes
		if p.Connection != want || p.FunctionID != "ui::models::changed::b1" || string(p.Data) != `{"event_type":"state:updated","key":"p1"}` {
			t.Errorf("pushed %+v %s", p, p.Data)
		}
	}
	f.bus.posted = bus.ErrNotRegistered
	if _, err := f.ask(bus.Call{}, FunctionModelsChanged, change); err != nil || f.watchers() != 0 {
		t.Errorf("%d watchers left, %v", f.watchers(), err)
	}
}

func TestModelWatcherThatLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range maxModelBrowsers {
		if _, err := f.ask(f.alice, FunctionModelsSubscribe, fmt.Sprintf(`{"browser_id":"b%d"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ask(f.alice, FunctionModelsSubscribe, `{"browser_id":"b0"}`); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := f.ask(f.alice, FunctionModelsSubscribe, `{"browser_id":"more"}`); bus.Code(err) != "invalid_payload" {
		t.Errorf("one more: %v", err)
	}
	f.bus.posted = errors.New("full")
	if _, err := f.ask(bus.Call{}, FunctionModelsChanged, `{}`); err != nil || f.watchers() != maxModelBrowsers {
		t.Errorf("a push that failed: %d watchers, %v", f.watchers(), err)
	}
	if err := f.Forget(t.Context(), "c1"); err != nil || f.watchers() != 0 {
		t.Errorf("%d watchers left, %v", f.watchers(), err)
	}
	for _, id := range []string{FunctionModelsSubscribe, FunctionModelsUnsubscribe} {
		if _, err := f.ask(bus.Call{}, id, `{"browser_id":"b1"}`); bus.Code(err) != "no_connection" {
			t.Errorf("%s in process: %v", id, err)
		}
		if _, err := f.ask(f.alice, id, `{}`); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s of none: %v", id, err)
		}
	}
	f.put(agent.ScopeModelSubscriptions, "c1/b1", `"damaged"`)
	if _, err := f.ask(bus.Call{}, FunctionModelsChanged, `{}`); err == nil {
		t.Error("a damaged row was passed over")
	}
}
