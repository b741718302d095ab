package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
)

// keeper lets nobody at the keys that start with s, and fails for the key bad.
type keeper struct{}

var errKeeper = errors.New("disk")

func (keeper) Read(_ context.Context, _ *bus.Call, scope, key string) (bool, error) {
	if key == "bad" {
		return false, errKeeper
	}
	return scope != "hidden" && (key == "" || key[0] != 's'), nil
}

func (k keeper) Write(ctx context.Context, call *bus.Call, scope, key string) error {
	if ok, err := k.Read(ctx, call, scope, key); err != nil || ok {
		return err
	}
	return &bus.Error{Code: "FORBIDDEN", Message: "no"}
}

func TestGuardIsAskedForEveryValue(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, k := range []state.Key{{Scope: "a", Key: "open"}, {Scope: "a", Key: "secret"}, {Scope: "hidden", Key: "x"}} {
		if _, err := state.Do(t.Context(), store, state.Set(k.Scope, k.Key, json.RawMessage(`"`+k.Key+`"`))); err != nil {
			t.Fatal(err)
		}
	}
	e := state.Endpoints(store, state.WithGuard(keeper{}))
	for _, tt := range []struct{ id, data, want, code string }{
		{state.FunctionGet, `{"scope":"a","key":"open"}`, `"open"`, ""},
		{state.FunctionGet, `{"scope":"a","key":"secret"}`, ``, ""},
		{state.FunctionGet, `{"scope":"a","key":"bad"}`, ``, "GET_ERROR"},
		{state.FunctionList, `{"scope":"a"}`, `["open"]`, ""},
		{state.FunctionList, `{"scope":"hidden"}`, `[]`, ""},
		{state.FunctionListGroups, `{}`, `{"groups":["a"]}`, ""},
		{state.FunctionSet, `{"scope":"a","key":"secret","value":1}`, ``, "FORBIDDEN"},
		{state.FunctionUpdate, `{"scope":"a","key":"secret","ops":[]}`, ``, "FORBIDDEN"},
		{state.FunctionDelete, `{"scope":"a","key":"secret"}`, ``, "FORBIDDEN"},
		{state.FunctionDelete, `{"scope":"a","key":"open"}`, `"open"`, ""},
	} {
		out, err := e[tt.id].Handle(t.Context(), &bus.Call{Data: json.RawMessage(tt.data)})
		if (err == nil) != (tt.code == "") || (err != nil && bus.Code(err) != tt.code) || (err == nil && string(out) != tt.want) {
			t.Errorf("%s %s: %s, %v; want %s %s", tt.id, tt.data, out, err, tt.want, tt.code)
		}
	}
}
