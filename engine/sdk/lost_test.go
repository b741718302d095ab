package sdk

import (
	"fmt"
	"os"
	"testing"
)

// TestKilled kills a worker in the middle of a call: the caller hears of it,
// and who served before serves again.
func TestKilled(t *testing.T) {
	repeats(t, "04-trigger-sync", "26-builtin-shadow")
	each(t, func(t *testing.T, l Language, s *Server) {
		c := dial(t, s)
		caller := attach(t, l, s, "caller")
		w := attach(t, l, s, "victim")
		w.function("kill::hold", "hold")
		w.function("demo::time", "me")
		served(t, c, "kill::hold", true)
		served(t, c, "demo::time", true)
		result := caller.Begin("call", args{"function_id": "kill::hold", "payload": args{}})
		w.called("kill::hold")
		if err := w.Signal(os.Kill); err != nil {
			t.Fatal(err)
		}
		_, err := result(within(t))
		if f, ok := err.(*Failure); !ok || f.Code != "invocation_stopped" || f.Message != "invocation_stopped: Invocation stopped" {
			t.Errorf("the caller hears %v", err)
		}
		served(t, c, "kill::hold", false)
		var now timed
		invoke(t, c, "demo::time", `{}`, &now)
		if now.UnixMS == 0 {
			t.Errorf("demo::time gives %+v, want the built-in one's", now)
		}
	})
}

// TestReplaceAndGiveBack puts a stock worker before a live function of another
// one, and takes it away again.
func TestReplaceAndGiveBack(t *testing.T) {
	repeats(t, "26-builtin-shadow")
	each(t, func(t *testing.T, l Language, s *Server) {
		c := dial(t, s)
		first := attach(t, l, s, "first")
		second := attach(t, l, s, "second")
		who := func(want int) {
			t.Helper()
			ctx := within(t)
			for {
				var pid int
				invoke(t, c, "shared::me", `{}`, &pid)
				if pid == want {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("%d serves, want %d", pid, want)
				}
			}
		}
		first.function("shared::me", "me")
		served(t, c, "shared::me", true)
		who(first.PID())
		second.function("shared::me", "me")
		who(second.PID())
		same(t, "the first worker calls it", first.call("shared::me", args{}), fmt.Sprint(second.PID()))
		second.do("unregister", args{"id": "shared::me"})
		who(first.PID())
	})
}

// TestSameName has two workers of one name: both serve, and neither is sent
// away.
func TestSameName(t *testing.T) {
	repeats(t, "29-node-same-name")
	each(t, func(t *testing.T, l Language, s *Server) {
		c := dial(t, s)
		one := attach(t, l, s, "same")
		two := attach(t, l, s, "same")
		one.function("same::one", "me")
		two.function("same::two", "me")
		served(t, c, "same::one", true)
		served(t, c, "same::two", true)
		same(t, "one calls two", one.call("same::two", args{}), fmt.Sprint(two.PID()))
		same(t, "two calls one", two.call("same::one", args{}), fmt.Sprint(one.PID()))
	})
}
