package sdk

import (
	"fmt"
	"testing"
)

// TestCutAndReattached cuts the link of a worker for longer than its first try
// to come back. It keeps its place, calls that it was given and has made find
// their end, and nothing runs twice.
func TestCutAndReattached(t *testing.T) {
	repeats(t, "29-node-same-name")
	each(t, func(t *testing.T, l Language, s *Server) {
		c := dial(t, s)
		p := link(t, s)
		other := attach(t, l, s, "other")
		other.function("cut::slow", "hold")
		w := attachAt(t, l, s, p.url(), "cut")
		w.function("cut::hold", "hold")
		w.function("demo::time", "me")
		served(t, c, "cut::hold", true)
		served(t, c, "cut::slow", true)

		given := other.Begin("call", args{"function_id": "cut::hold", "payload": args{}})
		held := w.called("cut::hold")
		made := w.Begin("call", args{"function_id": "cut::slow", "payload": args{}})
		slow := other.called("cut::slow")
		p.cut()
		// Both calls end while the link is down.
		w.do("release", args{"call": held.Call, "result": "given"})
		other.do("release", args{"call": slow.Call, "result": "made"})
		waiting := other.Begin("call", args{"function_id": "demo::time", "payload": args{}})
		p.mend()
		for what, end := range map[string]struct {
			f    func() ([]byte, error)
			want string
		}{
			"the call that it was given": {func() ([]byte, error) { return given(within(t)) }, `"given"`},
			"the call that it made":      {func() ([]byte, error) { return made(within(t)) }, `"made"`},
			"a call meanwhile":           {func() ([]byte, error) { return waiting(within(t)) }, fmt.Sprint(w.PID())},
		} {
			out, err := end.f()
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			same(t, what, out, end.want)
		}
		same(t, "demo::time after it is back", other.call("demo::time", args{}), fmt.Sprint(w.PID()))
		var workers struct {
			Workers []struct {
				Name string `json:"name"`
				PID  int    `json:"pid"`
			} `json:"workers"`
		}
		invoke(t, c, "engine::workers::list", `{"search":"cut"}`, &workers)
		if len(workers.Workers) != 1 {
			t.Errorf("listed: %+v, want one", workers.Workers)
		}
	})
}
