package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/client"
	"github.com/iii-aws/harness/internal/fanout"
)

// subscribes lets a client watch sessions, nil for all, and gives how many
// browsers there are.
func subscribes(ctx context.Context, t *testing.T, c *client.Client, browser string, session *string) int {
	t.Helper()
	var got fanout.SubscribeResponse
	if err := call(ctx, c, fanout.FunctionSubscribe, fanout.SubscribeRequest{BrowserID: browser, SessionID: session}, &got); err != nil {
		t.Fatal(err)
	}
	return got.TotalBrowsers
}

// TestSubscriberThatLeavesIsForgotten: with its row, although nothing is ever
// posted to it again.
func TestSubscriberThatLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stays, leaves := dial(t, s), dial(t, s)
	var made struct {
		SessionID string `json:"session_id"`
	}
	if err := call(ctx, stays, "session-tree::create", json.RawMessage(`{}`), &made); err != nil {
		t.Fatal(err)
	}
	subscribes(ctx, t, leaves, "one", &made.SessionID)
	subscribes(ctx, t, leaves, "two", nil)
	if n := subscribes(ctx, t, stays, "three", nil); n != 3 {
		t.Fatalf("%d browsers, want 3", n)
	}
	if err := leaves.Close(); err != nil {
		t.Fatal(err)
	}
	for subscribes(ctx, t, stays, "three", nil) != 1 {
		// The server learns of the end on its own; each look is a call to it.
	}
	var rows []json.RawMessage
	if err := call(ctx, stays, "state::list", map[string]string{"scope": "ui_subscriptions:" + made.SessionID}, &rows); err != nil || len(rows) != 0 {
		t.Errorf("rows left: %s, %v", rows, err)
	}
}
