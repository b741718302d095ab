package router_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// A call that crosses the frame by which its worker takes the function back is
// served by who serves then.
func TestACallThatCrossesItsUnregistrationIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Function not found", "Function 'x::f' not found"} {
		g := newRig(t)
		g.serve("x::f", bus.Meta{}, echo)
		w, caller := g.connect("w"), g.connect("caller")
		g.register(w, "x::f")
		g.send(caller, `{"type":"invokefunction","invocation_id":"0d1f0000-0000-4000-8000-000000000001","function_id":"x::f","data":[1]}`)
		call := w.call(t)
		g.send(w, `{"type":"unregisterfunction","id":"x::f"}`)
		g.send(w, fmt.Sprintf(`{"type":"invocationresult","invocation_id":%q,"function_id":"x::f","error":{"code":"function_not_found","message":%q}}`, call.InvocationID, text))
		got := caller.next(t).(*protocol.InvocationResult)
		var seen struct{ Data, ID json.RawMessage }
		if got.Error != nil || json.Unmarshal(got.Result, &seen) != nil || string(seen.Data) != "[1]" || string(seen.ID) != `"`+got.InvocationID+`"` {
			t.Errorf("%s: got %s, %v", text, got.Result, got.Error)
		}
		for _, name := range []string{"w", "caller"} {
			if n := g.Active(name); n != 0 {
				t.Errorf("%s has %d calls under way", name, n)
			}
		}
	}
}

// Where frames come in no order, the answer may come before the frame that
// takes the function back.
func TestACallIsHandedOnWhenTheUnregistrationComesLast(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("x::f", bus.Meta{}, echo)
	w, caller := g.connect("w"), g.connect("caller")
	g.register(w, "x::f")
	g.send(caller, `{"type":"invokefunction","invocation_id":"0d1f0000-0000-4000-8000-000000000001","function_id":"x::f","data":[1]}`)
	call := w.call(t)
	g.send(w, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"x::f","error":{"code":"function_not_found","message":"Function not found"}}`)
	g.clock.BlockUntil(1)
	caller.silent(t)
	g.send(w, `{"type":"unregisterfunction","id":"x::f"}`)
	if got := caller.next(t).(*protocol.InvocationResult); got.Error != nil {
		t.Errorf("got %s, %v", got.Result, got.Error)
	}
}

// Nobody else serves: the caller hears so, from the bus.
func TestACallThatIsHandedOnToNobodyFails(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	w, caller := g.connect("w"), g.connect("caller")
	g.register(w, "x::f")
	g.send(caller, `{"type":"invokefunction","invocation_id":"0d1f0000-0000-4000-8000-000000000001","function_id":"x::f","data":{}}`)
	call := w.call(t)
	g.send(w, `{"type":"unregisterfunction","id":"x::f"}`)
	g.send(w, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"x::f","error":{"code":"function_not_found","message":"Function not found"}}`)
	if got := caller.next(t).(*protocol.InvocationResult); got.Error == nil || got.Error.Message != "Function x::f not found in namespace default." {
		t.Errorf("got %s, %v", got.Result, got.Error)
	}
}

// What a handler answered is the answer: it is not run twice.
func TestAnAnswerOfAHandlerIsNotHandedOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takeBack bool
		err      string
	}{
		"still registered":          {false, `{"code":"function_not_found","message":"Function not found"}`},
		"a function that it called": {true, `{"code":"function_not_found","message":"Function x::g not found in namespace default."}`},
		"another error":             {true, `{"code":"invocation_failed","message":"Function not found"}`},
	} {
		g := newRig(t)
		g.serve("x::f", bus.Meta{}, echo)
		w, caller := g.connect("w"), g.connect("caller")
		g.register(w, "x::f")
		g.send(caller, `{"type":"invokefunction","invocation_id":"0d1f0000-0000-4000-8000-000000000001","function_id":"x::f","data":{}}`)
		call := w.call(t)
		if tt.takeBack {
			g.send(w, `{"type":"unregisterfunction","id":"x::f"}`)
		}
		g.send(w, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"x::f","error":`+tt.err+`}`)
		if !tt.takeBack { // it had a moment to do so
			g.clock.BlockUntil(1)
			g.clock.Advance(time.Second)
		}
		var want bus.Error
		if err := json.Unmarshal([]byte(tt.err), &want); err != nil {
			t.Fatal(err)
		}
		if got := caller.next(t).(*protocol.InvocationResult); got.Error == nil || got.Error.Code != want.Code || got.Error.Message != want.Message {
			t.Errorf("%s: got %s, %v", name, got.Result, got.Error)
		}
	}
}

// A call is handed on a few times, not for ever.
func TestACallIsHandedOnAFewTimes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	caller := g.connect("caller")
	var workers []*conn
	for i := range 4 {
		workers = append(workers, g.connect(fmt.Sprint("w", i)))
		g.register(workers[i], "x::f")
	}
	g.send(caller, `{"type":"invokefunction","invocation_id":"0d1f0000-0000-4000-8000-000000000001","function_id":"x::f","data":{}}`)
	for i := 3; i >= 0; i-- {
		w := workers[i]
		call := w.call(t)
		g.send(w, `{"type":"unregisterfunction","id":"x::f"}`)
		g.send(w, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"x::f","error":{"code":"function_not_found","message":"Function not found"}}`)
	}
	if got := caller.next(t).(*protocol.InvocationResult); got.Error == nil || got.Error.Message != "Function not found" {
		t.Errorf("got %s, %v", got.Result, got.Error)
	}
}
