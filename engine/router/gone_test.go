package router_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/router"
)

// TestGone: the host hears once of a connection that is gone, when nothing
// reaches it any more.
func TestGone(t *testing.T) {
	t.Parallel()
	var g *rig
	var told []string
	g = newRig(t, func(c *router.Config) {
		c.Gone = func(connection string) {
			told = append(told, connection)
			if err := g.Post(t.Context(), bus.Push{Connection: connection, FunctionID: "f::g"}); !errors.Is(err, bus.ErrGone) {
				t.Errorf("post = %v, want %v", err, bus.ErrGone)
			}
			if _, ok := g.registry.Lookup(bus.DefaultNamespace, "f::g"); ok {
				t.Error("its functions are still there")
			}
		}
	})
	b := g.connect("b")
	g.register(b, "f::g")
	g.Detach(&conn{id: "b"}) // another one of that name
	if len(told) != 0 {
		t.Errorf("told of %v before it went", told)
	}
	g.Detach(b)
	g.Detach(b)
	if diff := cmp.Diff([]string{"b"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
