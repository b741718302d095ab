package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// frames is the JSON lines of the first such block below a heading of the
// README.
func frames(t *testing.T, heading string) []string {
	t.Helper()
	b, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the README has no heading %q", heading)
	}
	_, rest, _ = strings.Cut(rest, "```json\n")
	block, _, ok := strings.Cut(rest, "\n```")
	if !ok {
		t.Fatal("there is no block of JSON below it")
	}
	return strings.Split(block, "\n")
}

// TestReadmeFramesRunATurn: sent as they stand, over a plain WebSocket, they
// run a turn whose answer comes as deltas and as stored events without a gap.
func TestReadmeFramesRunATurn(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// A strict server wants a token, which the README's dev does not.
	header := http.Header{"Authorization": {"Bearer " + s.ready.Token}}
	ws, _, err := websocket.Dial(ctx, s.ready.Bus, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	type frame struct {
		Type         string `json:"type"`
		InvocationID string `json:"invocation_id"`
		FunctionID   string `json:"function_id"`
		Error        any    `json:"error"`
		Data         struct {
			Seq   *int64 `json:"seq"`
			Event struct {
				Type string `json:"type"`
			} `json:"event"`
		} `json:"data"`
	}
	next, deltas, end := int64(0), 0, false
	read := func() frame {
		t.Helper()
		_, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("%v\n%s", err, s.log)
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if f.Type == "invokefunction" && f.FunctionID == "ui::session::event::me" {
			switch seq := f.Data.Seq; {
			case seq == nil:
				deltas++
			case *seq != next:
				t.Fatalf("event %d, want %d", *seq, next)
			default:
				next++
			}
			end = end || f.Data.Event.Type == "agent_end"
		}
		return f
	}
	for _, line := range frames(t, "From your own program") {
		if err := ws.Write(ctx, websocket.MessageText, []byte(line)); err != nil {
			t.Fatal(err)
		}
		var sent frame
		if err := json.Unmarshal([]byte(line), &sent); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for sent.InvocationID != "" {
			f := read()
			if f.Type != "invocationresult" || f.InvocationID != sent.InvocationID {
				continue
			}
			if f.Error != nil {
				t.Fatalf("%s: %v", sent.FunctionID, f.Error)
			}
			break
		}
	}
	for !end {
		read()
	}
	if deltas == 0 || next == 0 {
		t.Errorf("%d deltas, %d stored events", deltas, next)
	}
}
