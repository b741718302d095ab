package sdk

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
)

// TestA51PolicyWorkerDisconnects replaces the policy with a worker on the stock
// Python SDK, which decides from then on. While it is away calls fail closed,
// whatever the policy beneath would say; an operator ends that.
func TestA51PolicyWorkerDisconnects(t *testing.T) {
	t.Parallel()
	stock(t, Python)
	s := serve(t, "")
	c := dial(t, s)
	asked := func(want ...string) {
		t.Helper()
		end, events := turn(t, s, "what time is it")
		got := strings.Join(results(t, events), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: the call gave %s, want %s", end.Outcome, got, w)
			}
		}
	}
	decides := func(id string) {
		t.Helper()
		ctx := within(t)
		for {
			var info struct {
				Worker string `json:"worker_name"`
			}
			// While it is away there is nothing to tell of it.
			out, err := c.Invoke(ctx, bus.Invocation{FunctionID: "engine::functions::info", Data: json.RawMessage(`{"function_id":"policy::check_permissions"}`)})
			if err == nil {
				err = json.Unmarshal(out, &info)
			}
			if err == nil && info.Worker == id {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("the policy is served by %q, %v; want %s", info.Worker, err, id)
			}
		}
	}
	const built = "harness"
	decides(built)
	asked("unix") // allowed

	worker := example(t, Python, "policy.py", s.Ready.Bus)
	decides("policy-no-clocks")
	asked("no-clocks")

	if err := worker.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	asked("gate_unavailable")
	asked("gate_unavailable") // not only at first

	worker = example(t, Python, "policy.py", s.Ready.Bus)
	decides("policy-no-clocks")
	asked("no-clocks")

	if err := worker.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ends with %v", err)
	}
	asked("gate_unavailable") // leaving in good order is no release
	var released struct {
		Released bool   `json:"released"`
		By       string `json:"now_served_by"`
	}
	invoke(t, c, "engine::registrations::release", `{"function_id":"policy::check_permissions"}`, &released)
	if !released.Released || released.By != built {
		t.Errorf("release: %+v", released)
	}
	asked("unix")
}
