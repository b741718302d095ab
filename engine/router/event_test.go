package router_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
)

// TestWorkerEventsComeInOrder: connected, told who it is, gone.
func TestWorkerEventsComeInOrder(t *testing.T) {
	t.Parallel()
	var told []string
	g := newRig(t, func(c *router.Config) {
		c.WorkerEvent = func(event, workerID string) { told = append(told, event+" "+workerID) }
	})
	all := g.Endpoints()
	if err := g.Serve(registry.Builtin{Name: "engine"}, map[string]registry.Function{router.FunctionAnnounce: {}}, all); err != nil {
		t.Fatal(err)
	}
	b := g.connect("b")
	g.send(b, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"engine::workers::register","data":{"name":"orders"}}`)
	b.text(t)
	g.Detach(b)
	g.Detach(b)
	want := []string{"worker_connected worker-b", "worker_metadata_updated worker-b", "worker_disconnected worker-b"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
