package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestTour makes the round of an SDK against the local server with its default
// settings: telemetry and channels included.
func TestTour(t *testing.T) {
	repeats(t, "02-node-sdk-connect", "03-python-sdk-connect", "05-handler-error", "06-unknown-function", "08-void", "24-otel-socket")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "tour")
		w.do("function", args{"id": "tour::ok", "does": "echo", "options": args{"description": "an ok fn", "metadata": args{"team": "x"}}})
		w.function("tour::none", "null")
		w.function("tour::boom", "boom")
		w.function("tour::slow", "hold")
		served(t, dial(t, s), "tour::slow", true)
		var echoed struct {
			Got  map[string]any `json:"got"`
			Meta map[string]any `json:"meta"`
		}
		out := w.do("call", args{"function_id": "tour::ok", "payload": args{"n": 1}, "metadata": args{"user": "u"}})
		if err := json.Unmarshal(out, &echoed); err != nil {
			t.Fatal(err)
		}
		principal, _ := echoed.Meta["principal"].(map[string]any)
		if echoed.Got["n"] != 1.0 || echoed.Got["_caller_worker_id"] == "" || echoed.Meta["user"] != "u" || principal["id"] != "local" {
			t.Errorf("echo: got %s", out)
		}
		same(t, "no result", w.call("tour::none", args{}), `null`)
		w.fails("call", args{"function_id": "tour::boom", "payload": args{}}, "invocation_failed", "kaput")
		w.fails("call", args{"function_id": "tour::missing", "payload": args{}}, "function_not_found", "Function tour::missing not found in namespace default.")
		same(t, "a call without waiting", w.do("call", args{"function_id": "tour::slow", "payload": args{"v": 1}, "void": true}), `null`)
		w.do("release", args{"call": w.called("tour::slow").Call, "result": 1})

		// A caller that gave up is answered late, and takes no harm.
		w.fails("call", args{"function_id": "tour::slow", "payload": args{}, "timeout": 300}, "TIMEOUT", "invocation timed out after 300ms")
		w.do("release", args{"call": w.called("tour::slow").Call, "result": args{"late": true}})
		same(t, "state::set", w.call("state::set", args{"scope": "tour", "key": "k", "value": args{"a": "é"}}), `{"old_value":null,"new_value":{"a":"é"}}`)
		same(t, "state::get", w.call("state::get", args{"scope": "tour", "key": "k"}), `{"a":"é"}`)

		w.do("unregister", args{"id": "tour::ok"})
		served(t, dial(t, s), "tour::ok", false)
		w.do("shutdown", nil)
		// Its telemetry had a socket, where there is one.
		for _, lost := range []string{"[OTel] WebSocket error", "OTel WS disconnected"} {
			if log := w.Log.String(); strings.Contains(log, lost) {
				t.Errorf("the telemetry of the worker was refused:\n%s", log)
			}
		}
		served(t, dial(t, s), "tour::none", false)
	})
}

// TestEnqueue sends a job through the queue of the bus: the receipt comes
// back, the function is called without metadata.
func TestEnqueue(t *testing.T) {
	repeats(t, "02-node-sdk-connect", "03-python-sdk-connect")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "jobs")
		w.function("jobs::run", "tell")
		var receipt struct {
			ID string `json:"messageReceiptId"`
		}
		out := w.do("call", args{"function_id": "jobs::run", "payload": args{"e": 1}, "enqueue": "default"})
		if err := json.Unmarshal(out, &receipt); err != nil || receipt.ID == "" {
			t.Fatalf("receipt %s, %v", out, err)
		}
		e := w.called("jobs::run")
		same(t, "data of the job", e.Data, `{"e":1}`)
		_, err := w.Do(within(t), "call", args{"function_id": "jobs::run", "payload": args{}, "enqueue": "no-such-queue"})
		var f *Failure
		if !errors.As(err, &f) || f.Code != "enqueue_error" || !strings.Contains(f.Message, "no-such-queue") {
			t.Errorf("unknown queue: got %v", err)
		}
	})
}

// TestLateRegistration registers a function half a second after the connection
// stands, when the announce was the first frame.
func TestLateRegistration(t *testing.T) {
	repeats(t, "35-python-late-register")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "late")
		served(t, dial(t, s), "late::fn", false)
		w.function("late::fn", "me")
		served(t, dial(t, s), "late::fn", true)
		same(t, "late::fn", w.call("late::fn", args{}), fmt.Sprint(w.PID()))
	})
}
