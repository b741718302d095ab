package router_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/trigger"
)

// feed makes a Source of an embedded feed.
type feed struct{ f *embedded.Feed }

func (s feed) Next(ctx context.Context) (trigger.Row, error) {
	row, err := s.f.Next(ctx)
	return trigger.Row{Change: row.Change, Event: row.Event, Done: func() { s.f.Done(row.ID) }}, err
}

// newBus puts the parts together as a host does.
func newBus(t *testing.T) *rig {
	t.Helper()
	db, err := embedded.Open(context.Background(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ids, system := clock.Random(), clock.System()
	reg, err := registry.New(t.Context(), registry.Config{State: db.State(), Clock: system})
	if err != nil {
		t.Fatal(err)
	}
	table, err := trigger.NewTable(t.Context(), trigger.Config{State: db.State(), Registry: reg, IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	db.SetTriggered(table.Triggered, table.StreamTriggered)
	r, err := router.New(router.Config{Grace: -1, Registry: reg, State: db.State(), Clock: system, IDs: ids, Triggers: table})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher, err := trigger.NewDispatcher(trigger.Delivery{Table: table, Invoker: r.Engine(), Clock: system})
	if err != nil {
		t.Fatal(err)
	}
	override := func(ctx context.Context, id string, data json.RawMessage) (json.RawMessage, bool, error) {
		if _, ok := reg.Lookup(bus.DefaultNamespace, id); !ok {
			return nil, false, nil
		}
		out, err := r.Worker("stream").Invoke(ctx, bus.Invocation{FunctionID: id, Data: data})
		return out, true, err
	}
	for worker, endpoints := range map[string]map[string]bus.Endpoint{
		"state":    state.Endpoints(db.State()),
		"stream":   stream.Endpoints(db.Streams(), override, nil),
		"blob":     blob.Endpoints(db.Blobs(), nil),
		"channels": channel.Endpoints(channel.NewLocal(system, ids)),
		"registry": reg.Endpoints(registry.Views{Triggers: table, Active: r.Active}),
		"triggers": table.Endpoints(),
		"router":   r.Endpoints(),
	} {
		var named []string
		for id := range endpoints {
			named = append(named, id)
		}
		if err := r.Serve(builtin(worker), functions(named...), endpoints); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, kind := range []embedded.FeedKind{embedded.FeedState, embedded.FeedStream} {
		running.Go(func() { dispatcher.Run(ctx, feed{db.Feed(kind)}, 16) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{Router: r, t: t, registry: reg}
}

// TestWholeBus goes from a write of one worker to the trigger of another, and through the lists.
func TestWholeBus(t *testing.T) {
	t.Parallel()
	g := newBus(t)
	a, b := g.connect("a"), g.connect("b")
	sync := func(c *conn, function, data string) *protocol.InvocationResult {
		t.Helper()
		g.send(c, `{"type":"invokefunction","invocation_id":"`+clock.Random().UUID()+`","function_id":"`+function+`","data":`+data+`}`)
		res, ok := c.next(t).(*protocol.InvocationResult)
		if !ok || res.FunctionID != function {
			t.Fatalf("%s: got %+v", function, res)
		}
		return res
	}
	if res := sync(b, "engine::workers::register", `{"name":"watcher","runtime":"node","pid":1}`); string(res.Result) != `{"success":true}` {
		t.Fatalf("got %+v", res)
	}
	g.send(b, `{"type":"registerfunction","id":"w::on"}`)
	g.send(b, `{"type":"registerfunction","id":"stream::get(theirs)"}`)
	g.send(b, `{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"w::on","config":{"scope":"orders"},"metadata":{"why":"audit"}}`)
	g.send(b, `{"type":"registertrigger","id":"t2","trigger_type":"stream","function_id":"w::on","config":{"stream_name":"chat"}}`)

	g.send(a, `{"type":"invokefunction","function_id":"state::set","data":{"scope":"orders","key":"o1","value":{"s":1}},"traceparent":"`+traceparent+`","action":{"type":"void"}}`)
	call := b.call(t)
	if diff := cmp.Diff(`{"type":"state","event_type":"state:created","scope":"orders","key":"o1","old_value":null,"new_value":{"s":1}}`, string(call.Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	why, _ := protocol.Member(call.Metadata, "why")
	who, _ := protocol.Member(call.Metadata, "principal")
	if string(why) != `"audit"` || string(who) != `{"id":"p-b","role":"worker","workspace_id":"ws"}` || call.Traceparent != traceparent {
		t.Errorf("got %s, trace %q: want the binding's metadata and maker, and the writer's trace", call.Metadata, call.Traceparent)
	}
	g.answer(b, call, "null")

	g.send(a, `{"type":"invokefunction","function_id":"stream::send","data":{"stream_name":"chat","group_id":"r1","type":"typing","data":{}},"action":{"type":"void"}}`)
	call = b.call(t)
	event, _ := protocol.Member(call.Data, "event")
	if string(event) != `{"type":"event","event":{"type":"typing","data":{}}}` {
		t.Errorf("got %s", call.Data)
	}
	g.answer(b, call, "null")

	if res := sync(a, "state::get", `{"scope":"orders","key":"o1"}`); string(res.Result) != `{"s":1}` {
		t.Errorf("got %+v", res)
	}
	if res := sync(a, "state::get", `{"scope":"orders","key":"none"}`); res.Result != nil || res.Error != nil {
		t.Errorf("got %+v, want no value", res)
	}
	done := make(chan *protocol.InvocationResult)
	go func() { done <- sync(a, "stream::get", `{"stream_name":"theirs","group_id":"g","item_id":"i"}`) }()
	call = b.call(t)
	if string(call.Data) != `{"stream_name":"theirs","group_id":"g","item_id":"i"}` {
		t.Errorf("the stand-in got %s", call.Data)
	}
	g.answer(b, call, `"mine"`)
	if res := <-done; string(res.Result) != `"mine"` {
		t.Errorf("got %+v", res)
	}
	if res := sync(a, "engine::functions::info", `{"function_id":"w::on"}`); string(res.Result) !=
		`{"function_id":"w::on","namespace":"default","worker_name":"watcher","registered_triggers":[{"id":"t1","trigger_type":"state","config":{"scope":"orders"}},{"id":"t2","trigger_type":"stream","config":{"stream_name":"chat"}}]}` {
		t.Errorf("got %s, %v", res.Result, res.Error)
	}
	if res := sync(a, "engine::channels::create", `{"buffer_size":null}`); res.Error != nil || len(protocol.FindRefs(res.Result)) != 2 {
		t.Errorf("got %+v", res)
	}
	g.Detach(b)
	if res := sync(a, "engine::registered-triggers::list", `{}`); string(res.Result) != `{"registered_triggers":[]}` {
		t.Errorf("got %s: the triggers outlived their connection", res.Result)
	}
	if res := sync(a, "stream::get", `{"stream_name":"theirs","group_id":"g","item_id":"i"}`); res.Result != nil || res.Error != nil {
		t.Errorf("got %+v: the store serves again", res)
	}
}
