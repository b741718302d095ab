package channel

import (
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func TestWithoutSocketsOnlyWorkersInTheProcessGetChannels(t *testing.T) {
	t.Parallel()
	create := WithoutSockets(Endpoints(NewLocal(clock.System(), clock.Random()))[FunctionCreate])
	if _, err := create.Handle(t.Context(), &bus.Call{Connection: "c1", Data: []byte(`{}`)}); bus.Code(err) != CodeUnavailable {
		t.Errorf("a connection: error %v", err)
	}
	if out, err := create.Handle(t.Context(), &bus.Call{Data: []byte(`{}`)}); err != nil || len(out) == 0 {
		t.Errorf("a built-in worker: %s, %v", out, err)
	}
}
