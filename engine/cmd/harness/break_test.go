package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

func dial(t *testing.T, s *server) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Options{URL: s.ready.Bus, Token: s.ready.Token, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestHundredTurnsAtOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			prompt := fmt.Sprintf("number %d", i)
			if i%2 == 0 {
				prompt = twoCalls
			}
			a := s.harness("turn", prompt)
			if a.code != exitDone || (i%2 == 1 && strings.TrimSpace(a.stdout) != "You said: "+prompt) {
				t.Errorf("turn %d: %+v", i, a)
			}
		}()
	}
	wg.Wait()
}

func TestHundredStartsOfOneSessionRunOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	answers := make(chan started, 100)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var st started
			err := call(t.Context(), c, "run::start", map[string]any{
				"session_id": "one", "message_id": fmt.Sprintf("m%d", i%10), "provider": "scripted", "model": "scripted-1",
				"messages": []any{map[string]any{"role": "user", "content": "run true", "timestamp": 1}},
			}, &st)
			if err != nil {
				t.Error(err)
			}
			answers <- st
		}()
	}
	wg.Wait()
	close(answers)
	first, won := 0, map[string]bool{}
	for st := range answers {
		if st.Started && !st.Duplicate {
			first++
		}
		if st.Started {
			won[st.MessageID] = true
		} else if st.Reason != "session_busy" {
			t.Errorf("answer %+v", st)
		}
	}
	if first != 1 || len(won) != 1 {
		t.Errorf("%d runs started, of messages %v", first, won)
	}
}

// TestGarbageLeavesTheServerAlone sends what no client should, on sockets of
// their own, and then runs a turn.
func TestGarbageLeavesTheServerAlone(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	id := `"invocation_id":"6f0c1c1e-0000-4000-8000-000000000001"`
	frames := []string{
		``, ` `, `{`, `[]`, `null`, `7`, `"x"`, `{}`, `{"type":7}`, `{"type":"nope"}`, `{"type":"invokefunction"}`,
		`{"type":"invokefunction","function_id":7}`, `{"type":"invokefunction",` + id + `,"function_id":"` + strings.Repeat("x", 100000) + `"}`,
		`{"type":"invokefunction",` + id + `,"function_id":"demo::time","data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		`{"type":"invokefunction","invocation_id":"no uuid","function_id":"demo::time"}`,
		`{"type":"invokefunction",` + id + `,"function_id":"run::start","data":{"session_id":"a/b","provider":"","model":"m"}}`,
		`{"type":"invokefunction",` + id + `,"function_id":"run::start","data":{"session_id":"g","provider":"x","model":"m","messages":[{"role":"king"}]}}`,
		`{"type":"invokefunction",` + id + `,"function_id":"state::set","data":{"scope":"","key":"","value":1}}`,
		`{"type":"invokefunction",` + id + `,"function_id":"state::update","data":{"scope":"a","key":"b","ops":[{"type":"increment","path":"","by":1e400}]}}`,
		`{"type":"invokefunction",` + id + `,"function_id":"engine::workers::register","data":{"pid":"x"}}`,
		`{"type":"invokefunction",` + id + `,"function_id":"demo::time","metadata":{"principal":{"role":"operator"},"\u0070rincipal":1}}`,
		`{"type":"invocationresult",` + id + `,"function_id":"x","result":1}`,
		`{"type":"registerfunction","id":""}`, `{"type":"registerfunction","id":"engine::foo"}`, `{"type":"unregisterfunction","id":"demo::time"}`,
		`{"type":"registertrigger","id":"t","trigger_type":"stream","function_id":"x"}`, `{"type":"registertrigger","id":"t","trigger_type":"state","function_id":"x","config":7}`,
		`{"type":"workerregistered","worker_id":"x"}`, `{"type":"reattach","previous_worker_id":"x"}`, `{"type":"chunk","id":"a","n":1,"of":2,"data":"x"}`,
		`{"type":"ping"}`, "\xff\xfe", `{"type":"ping","type":"pong"}`,
	}
	var wg sync.WaitGroup
	for i := range 20 {
		ws := s.socket(t)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range frames {
				kind := websocket.MessageText
				if (i+j)%7 == 0 {
					kind = websocket.MessageBinary
				}
				if err := ws.Write(t.Context(), kind, []byte(frames[(i+j)%len(frames)])); err != nil {
					return // a text that is not UTF-8 may end the socket
				}
			}
			if i%2 == 0 {
				_ = ws.CloseNow()
				return
			}
			_ = ws.Close(websocket.StatusNormalClosure, "")
		}()
	}
	wg.Wait()
	s.want(exitDone, "turn", twoCalls)
	if strings.Contains(s.log.String(), "panic") {
		t.Errorf("something panicked: %s", s.log)
	}
}

func TestOversizedFrameClosesOnlyItsSocket(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ws := s.socket(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_ = ws.Write(ctx, websocket.MessageText, bytes.Repeat([]byte(" "), 64<<20+1)) // the server may cut it
	var err error
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if code := websocket.CloseStatus(err); code != websocket.StatusMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
	s.want(exitDone, "turn", "hello")
}

// TestReplacedWorkerServesAndGivesBack swaps demo::time for a worker of this
// test while turns run.
func TestReplacedWorkerServesAndGivesBack(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	c.Handle("demo::time", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) {
		return json.RawMessage(`{"time":"noon by the other clock"}`), nil
	}))
	for {
		if a := s.want(exitDone, "call", "demo::time"); strings.Contains(a.stdout, "other clock") {
			break
		}
	}
	if a := s.want(exitDone, "turn", "what time is it"); !strings.Contains(a.stdout, "other clock") {
		t.Errorf("the turn asked the built-in: %s", a.stdout)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		if a := s.want(exitDone, "call", "demo::time"); !strings.Contains(a.stdout, "other clock") {
			break
		}
	}
}

// TestStickyPolicyFailsClosed replaces the policy and takes the replacement
// away: calls are denied, not judged by the rules underneath.
func TestStickyPolicyFailsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startDev(t, dir)
	c := dial(t, s)
	asked := make(chan struct{}, 64)
	c.Handle("policy::check_permissions", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) {
		asked <- struct{}{}
		return json.RawMessage(`{"decision":"deny","rule_id":"mine"}`), nil
	}))
	for {
		s.want(exitDone, "call", "policy::check_permissions", `{"function_id":"demo::time"}`)
		if len(asked) > 0 {
			break
		}
	}
	denied := func(s *server, reason string) {
		t.Helper()
		sum := last(t, s.want(exitDone, "turn", "what time is it", "--json"))
		if a := s.want(exitDone, "session", "show", sum.SessionID, "--json"); !strings.Contains(a.stdout, reason) {
			t.Errorf("the call was not denied for %q: %s", reason, a.stdout)
		}
	}
	denied(s, `"rule_id":"mine"`)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		if a := s.harness("call", "policy::check_permissions", `{"function_id":"demo::time"}`); a.code != exitDone {
			break
		}
	}
	denied(s, "gate_unavailable")
	s.end()
	again := startDev(t, dir) // stickiness is stored
	denied(again, "gate_unavailable")
	again.want(exitDone, "call", "engine::registrations::release", `{"function_id":"policy::check_permissions"}`)
	if a := again.want(exitDone, "turn", "what time is it"); !strings.Contains(a.stdout, "The time is 20") {
		t.Errorf("after the release: %s", a.stdout)
	}
}
