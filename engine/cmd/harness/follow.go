package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// line is one event as the JSON output shows it. Seq is null for a delta.
type line struct {
	SessionID string          `json:"session_id"`
	Seq       *int64          `json:"seq"`
	Rev       *int64          `json:"rev,omitempty"`
	Event     json.RawMessage `json:"event"`
}

// push is what the bus sends to a subscriber: one event, or a batch.
type push struct {
	SessionID string          `json:"session_id"`
	Epoch     string          `json:"epoch"`
	Seq       *int64          `json:"seq"`
	Rev       *int64          `json:"rev"`
	Event     json.RawMessage `json:"event"`
	Events    []struct {
		Seq   *int64          `json:"seq"`
		Rev   *int64          `json:"rev"`
		Event json.RawMessage `json:"event"`
	} `json:"events"`
}

type position struct {
	Epoch string `json:"epoch,omitempty"`
	Seq   int64  `json:"seq"`
}

type subscribed struct {
	OK       bool     `json:"ok"`
	Position position `json:"position"`
	Reset    string   `json:"reset"`
}

// follower sees a session's events without a gap or repeat, over as many
// connections as it takes.
type follower struct {
	app     *app
	session string
	browser string
	conn    *client.Client
	dev     *ready
	lines   chan line
	failed  chan error

	mu      sync.Mutex
	epoch   string
	last    int64 // the last sequence handed on
	pending bool  // a resubscription runs
}

// follow connects. Start subscribes.
func (a *app) follow(ctx context.Context) (*follower, error) {
	f := &follower{app: a, browser: "cli-" + a.ids.UUID(), lines: make(chan line, 1024), failed: make(chan error, 1)}
	var err error
	f.conn, f.dev, err = a.connect(ctx, func(ctx context.Context, first bool) {
		if !first {
			f.resubscribe(ctx)
		}
	})
	return f, err
}

func (f *follower) close() {
	if f.conn != nil {
		_ = f.conn.Close() // the program is done with it
	}
}

// start subscribes behind a sequence; nil is live only. It answers the tail.
func (f *follower) start(ctx context.Context, session string, after *int64) (int64, error) {
	f.session = session
	f.conn.HandleInOrder("ui::session::event::"+f.browser, bus.Raw(f.receive))
	req := map[string]any{"browser_id": f.browser, "session_id": session, "batch": true}
	f.mu.Lock()
	defer f.mu.Unlock() // pushes wait until the answer is known
	if after != nil {
		req["position"] = position{Seq: *after}
		f.last = *after
	}
	var ans subscribed
	if err := call(ctx, f.conn, "ui::subscribe", req, &ans); err != nil {
		return 0, err
	}
	f.epoch = ans.Position.Epoch
	if after == nil {
		f.last = ans.Position.Seq
	} else if ans.Reset != "" {
		return 0, &failure{code: "position_" + ans.Reset, message: fmt.Sprintf("the session's last event is %d", ans.Position.Seq), exit: exitFailed, hint: "leave --from out to read all events"}
	}
	return ans.Position.Seq, nil
}

func (f *follower) receive(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
	var p push
	if err := json.Unmarshal(call.Data, &p); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch == "" {
		f.epoch = p.Epoch
	}
	if len(p.Events) == 0 && len(p.Event) > 0 {
		f.take(ctx, line{p.SessionID, p.Seq, p.Rev, p.Event})
		return nil, nil
	}
	for _, e := range p.Events {
		f.take(ctx, line{p.SessionID, e.Seq, e.Rev, e.Event})
	}
	return nil, nil
}

// take hands an event on if it is the next one. What came before is dropped;
// after a gap the rest is asked for again.
func (f *follower) take(ctx context.Context, l line) {
	if l.Seq != nil {
		if *l.Seq <= f.last {
			return
		}
		if *l.Seq > f.last+1 {
			if !f.pending {
				f.pending = true
				go f.resubscribe(ctx)
			}
			return
		}
		f.last = *l.Seq
	}
	select {
	case f.lines <- l:
	case <-ctx.Done():
	}
}

// resubscribe asks for what follows the last event that was handed on.
func (f *follower) resubscribe(ctx context.Context) {
	if f.session == "" {
		return
	}
	f.mu.Lock()
	pos := position{Epoch: f.epoch, Seq: f.last}
	f.pending = false
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var ans subscribed
	err := call(ctx, f.conn, "ui::subscribe", map[string]any{"browser_id": f.browser, "session_id": f.session, "batch": true, "position": pos}, &ans)
	if err == nil && ans.Reset != "" {
		err = &failure{code: "position_" + ans.Reset, message: "the session's event log was replaced while it was watched", exit: exitFailed}
	}
	if err != nil && ctx.Err() == nil {
		select {
		case f.failed <- err:
		default:
		}
	}
}

// next waits for an event, in order.
func (f *follower) next(ctx context.Context) (line, error) {
	select {
	case l := <-f.lines:
		return l, nil
	default:
	}
	select {
	case l := <-f.lines:
		return l, nil
	case err := <-f.failed:
		return line{}, err
	case <-f.conn.Done():
		return line{}, f.conn.Err()
	case <-ctx.Done():
		return line{}, ctx.Err()
	}
}
