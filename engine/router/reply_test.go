package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
)

func replied(function string) bus.Invocation {
	return bus.Invocation{
		FunctionID: function, Timeout: time.Minute, Reply: &bus.Reply{SessionID: "s", FunctionCallID: "c", Run: "r1", AfterMS: 2000},
	}
}

// later runs an invocation and gives its end.
func (g *rig) later(ctx context.Context, in bus.Invocation) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := g.Worker("turn").Invoke(ctx, in)
		done <- err
	}()
	return done
}

func TestUnansweredCallWithReplyAddress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer func(g *rig, b *conn, call *protocol.InvokeFunction)
		want   string
	}{
		{"result", func(g *rig, b *conn, call *protocol.InvokeFunction) { g.answer(b, call, `{"z":1,"a":1e3}`) },
			`{"run":"r1","result":{"z":1,"a":1e3},"source":"target","at_ms":1767323105000}`},
		{"no value", func(g *rig, b *conn, call *protocol.InvokeFunction) { g.answer(b, call, `null`) },
			`{"run":"r1","result":null,"source":"target","at_ms":1767323105000}`},
		{"error", func(g *rig, b *conn, call *protocol.InvokeFunction) {
			g.HandleResult(b, &protocol.InvocationResult{InvocationID: call.InvocationID, Error: &bus.Error{Code: "x", Message: "y", Stacktrace: "at /home/me"}})
		}, `{"run":"r1","error":{"code":"x","message":"y"},"source":"target","at_ms":1767323105000}`},
		{"worker gone", func(g *rig, b *conn, _ *protocol.InvokeFunction) { g.Detach(b) },
			`{"run":"r1","error":{"code":"invocation_stopped","message":"Invocation stopped"},"source":"stopped","at_ms":1767323105000}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			b := g.connect("b")
			g.register(b, "f::g")
			done := g.later(context.Background(), replied("f::g"))
			call := b.call(t)
			g.clock.BlockUntil(1)
			g.clock.Advance(2 * time.Second)
			if err := <-done; !errors.Is(err, bus.ErrAwaiting) {
				t.Fatalf("got %v, want ErrAwaiting", err)
			}
			g.noRow("s/c")
			g.clock.Advance(58 * time.Second)
			tc.answer(g, b, call)
			if diff := cmp.Diff(tc.want, g.row("s/c")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlowTargetsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	release := make(chan struct{})
	g.serve("f::slow", bus.Meta{Slow: true}, func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
		if c.Reply == nil || c.Reply.Run != "r1" {
			t.Errorf("reply is %+v", c.Reply)
		}
		select {
		case <-release:
			return json.RawMessage(`"built in"`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	if err := <-g.later(ctx, replied("f::slow")); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v, want ErrAwaiting at once", err)
	}
	cancel() // the step that called has ended
	close(release)
	if diff := cmp.Diff(`{"run":"r1","result":"built in","source":"target","at_ms":1767323045000}`, g.row("s/c")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	b := g.connect("b")
	g.send(b, `{"type":"registerfunction","id":"f::slow_socket","metadata":{"slow":true}}`)
	in := replied("f::slow_socket")
	in.Reply.FunctionCallID = "c2"
	if err := <-g.later(t.Context(), in); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v, want ErrAwaiting at once", err)
	}
	g.answer(b, b.call(t), `"socket"`)
	if diff := cmp.Diff(`{"run":"r1","result":"socket","source":"target","at_ms":1767323045000}`, g.row("s/c2")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// What was given to nobody is an error, not a row.
	in.FunctionID, in.Reply.FunctionCallID = "f::slow_socket", "c3"
	b.failWith(errors.New("broken"))
	if err := <-g.later(t.Context(), in); bus.Code(err) != "channel_send_failed" {
		t.Errorf("got %v", err)
	}
	g.noRow("s/c3")

	// Without a reply address the caller waits.
	b.failWith(nil)
	done := g.later(t.Context(), bus.Invocation{FunctionID: "f::slow_socket"})
	g.answer(b, b.call(t), `1`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSlowHandlerEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("f::slow", bus.Meta{Slow: true}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	if err := <-g.later(t.Context(), replied("f::slow")); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	g.clock.BlockUntil(1)
	g.clock.Advance(time.Minute)
	var row struct{ Error struct{ Code string } }
	if err := json.Unmarshal([]byte(g.row("s/c")), &row); err != nil || row.Error.Code == "" {
		t.Errorf("got %+v, %v", row, err)
	}
}

func TestRepeatOfASlowCall(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.send(b, `{"type":"registerfunction","id":"f::slow","metadata":{"slow":true}}`)
	in := replied("f::slow")
	in.InvocationID = id1
	for range 2 {
		if err := <-g.later(t.Context(), in); !errors.Is(err, bus.ErrAwaiting) {
			t.Fatalf("got %v", err)
		}
	}
	g.answer(b, b.call(t), `1`)
	g.row("s/c")
	b.silent(t)
	in.Reply.FunctionCallID = "again"
	if err := <-g.later(t.Context(), in); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(`{"run":"r1","result":1,"source":"target","at_ms":1767323045000}`, g.row("s/again")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnsweredInTimeWritesNoRow(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("f::quick", bus.Meta{}, echo)
	if err := <-g.later(t.Context(), replied("f::quick")); err != nil {
		t.Error(err)
	}
	g.noRow("s/c")
}

func TestAStepThatEndsHandsItsCallOver(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.register(b, "f::g")
	ctx, cancel := context.WithCancel(t.Context())
	done := g.later(ctx, replied("f::g"))
	call := b.call(t)
	cancel()
	if err := <-done; !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v, want ErrAwaiting", err)
	}
	g.answer(b, call, "1")
	g.row("s/c")
}

func TestReplyLaterThanTheTimeout(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.register(b, "f::g")
	in := replied("f::g")
	in.Timeout = time.Second
	done := g.later(t.Context(), in)
	call := b.call(t)
	g.clock.BlockUntil(1)
	g.clock.Advance(time.Second)
	if err := <-done; bus.Code(err) != "TIMEOUT" {
		t.Errorf("got %v, want TIMEOUT", err)
	}
	g.answer(b, call, "1")
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	g.noRow("s/c")
}

func TestSensitiveResultsAreNeverStored(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.send(b, `{"type":"registerfunction","id":"auth::get_token","metadata":{"sensitive":true,"slow":true}}`)
	type result struct {
		out json.RawMessage
		err error
	}
	done := make(chan result)
	go func() {
		out, err := g.Worker("turn").Invoke(context.Background(), replied("auth::get_token"))
		done <- result{out, err}
	}()
	call := b.call(t)
	g.clock.BlockUntil(1)
	g.clock.Advance(10 * time.Second)
	g.answer(b, call, `"secret"`)
	if r := <-done; r.err != nil || string(r.out) != `"secret"` {
		t.Errorf("got %s, %v: the caller must wait", r.out, r.err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	g.noRow("s/c")
}

func TestTheFirstRowStands(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	deadline := json.RawMessage(`{"run":"r1","error":{"code":"timeout","message":"m"},"source":"deadline","at_ms":1}`)
	if _, err := state.Do(t.Context(), g.state, state.Set("call_results", "s/c", deadline)); err != nil {
		t.Fatal(err)
	}
	g.serve("f::slow", bus.Meta{Slow: true}, echo)
	if err := <-g.later(t.Context(), replied("f::slow")); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(string(deadline), g.row("s/c")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if g.log.has("result_lost") {
		t.Error("a late result is no alarm")
	}
}

func TestStoreFaultsAreWaitedOut(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	passing := &state.StorageError{Op: "put", Retry: true, Err: errors.New("busy")}
	g.serve("f::slow", bus.Meta{Slow: true}, echo)
	g.state.failWith(passing, passing)
	if err := <-g.later(t.Context(), replied("f::slow")); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	stop := make(chan struct{})
	go func() { // time goes by until the row is there
		for {
			select {
			case <-stop:
				return
			default:
				g.clock.Advance(10 * time.Millisecond)
				runtime.Gosched()
			}
		}
	}()
	g.row("s/c")
	close(stop)

	in := replied("f::slow")
	in.Reply.FunctionCallID = "lost"
	g.state.failWith(errors.New("broken"))
	if err := <-g.later(t.Context(), in); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	in.Reply.FunctionCallID = "never"
	g.state.failWith(errors.New("broken"), passing, passing, passing, passing, passing, passing, passing)
	if err := <-g.later(t.Context(), in); !errors.Is(err, bus.ErrAwaiting) {
		t.Fatalf("got %v", err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !g.log.has("alarm=result_lost") {
		t.Error("a lost result raised no alarm")
	}
}
