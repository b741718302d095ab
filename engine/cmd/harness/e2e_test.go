package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// types counts the events of a session by their type.
func types(t *testing.T, rows []line) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, r := range rows {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(r.Event, &head); err != nil {
			t.Fatal(err)
		}
		out[head.Type]++
	}
	return out
}

func TestC_E2E_001_StreamedText(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	a := s.want(exitDone, "turn", "say slowly one two three", "--json")
	sum := last(t, a)
	streamed := ""
	for _, l := range strings.Split(strings.TrimSpace(a.stdout), "\n") {
		var row struct {
			Seq   *int64
			Event agent.MessageUpdate
		}
		if json.Unmarshal([]byte(l), &row) == nil && row.Seq == nil && row.Event.LLMEvent.Type == agent.LLMTextDelta {
			streamed += row.Event.LLMEvent.Delta
		}
	}
	rows := ended(t, s, sum.SessionID)
	seen := types(t, rows)
	if streamed != "one two three" || seen[agent.EventAgentEnd] != 1 || seen[agent.EventTurnEnd] != 1 || seen[agent.EventExecutionStart] != 0 {
		t.Errorf("streamed %q, events %v", streamed, seen)
	}
	if a := s.want(exitDone, "session", "show", sum.SessionID, "--json"); strings.Count(a.stdout, "one two three") != 2 || strings.Count(a.stdout, "\n") != 2 {
		t.Errorf("transcript %s", a.stdout)
	}
}

func TestC_E2E_002_AllowedFunctionRunsExactlyOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	var runs atomic.Int64
	c.Handle("demo::count", bus.Raw(func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		if call.IdempotencyKey == "" {
			t.Error("the call has no idempotency key")
		}
		runs.Add(1)
		return json.RawMessage(`"counted"`), nil
	}))
	for {
		if a := s.want(exitDone, "functions", "demo::count"); a.stdout != "" {
			break
		}
	}
	if a := s.want(exitDone, "turn", "call demo::count"); !strings.Contains(a.stdout, "counted") {
		t.Errorf("answer %s", a.stdout)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the function ran %d times", n)
	}
}

func TestC_E2E_506_HeldCallKeepsItsArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startDev(t, dir)
	sum := last(t, s.want(exitParked, "turn", "run echo held > result", "--json"))
	shown := string(sum.AwaitingApproval[0].Args)
	s.end()
	again := startDev(t, dir)
	again.want(exitDone, "approve", sum.SessionID, sum.AwaitingApproval[0].FunctionCallID)
	rows := ended(t, again, sum.SessionID)
	started := 0
	for _, r := range rows {
		var e agent.ExecutionStart
		if json.Unmarshal(r.Event, &e) == nil && e.Type == agent.EventExecutionStart {
			started++
			if string(e.Args) != shown {
				t.Errorf("started with %s, shown %s", e.Args, shown)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "result"))
	if err != nil || string(b) != "held\n" || started != 1 {
		t.Errorf("result %q, %v; started %d times", b, err, started)
	}
}
