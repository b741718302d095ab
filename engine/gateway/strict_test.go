package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// strictRig is a gateway that behaves as API Gateway, and an operator's token.
func strictRig(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t, func(c *Config) { c.Strict = &Strict{Stage: "dev", Seed: 7} })
	return r, r.token(bus.RoleOperator, nil)
}

// tick moves the clock on while a test waits for what frames lead to.
func (r *rig) tick() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if r.clock.Waiting() > 0 {
				r.clock.Advance(Spread)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}

func TestStrictServesTheStageAlone(t *testing.T) {
	t.Parallel()
	r, secret := strictRig(t)
	token := http.Header{"Authorization": {"Bearer " + secret}}
	for path, want := range map[string]int{
		"/dev": 101, "/dev?chunks=1": 101, "/dev/": 403, "/": 403, "/otel": 403, "/dev/otel": 403, "/ws/channels/c?key=k&dir=read": 403, "/prod": 403,
	} {
		if got := r.status(token, path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	if got := r.status(http.Header{}, "/dev"); got != 401 {
		t.Errorf("loopback without a token: status %d, want 401", got)
	}
	if got := r.status(http.Header{}, "/dev?token="+secret); got != 101 {
		t.Errorf("a token in the query: status %d, want 101", got)
	}
}

func TestLimitsOfSizeCloseWith1009(t *testing.T) {
	t.Parallel()
	strictly, secret := strictRig(t)
	plain := newRig(t, nil)
	pad := func(n int) []byte { return bytes.Repeat([]byte(" "), n) }
	for _, tt := range []struct {
		name   string
		strict bool
		frames [][]byte // of one message
		want   int      // 0: it stays open
	}{
		{"strict: the largest frame", true, [][]byte{pad(32 << 10)}, 0},
		{"strict: a frame too large", true, [][]byte{pad(32<<10 + 1)}, 1009},
		{"strict: the largest message", true, [][]byte{pad(32 << 10), pad(32 << 10), pad(32 << 10), pad(32 << 10)}, 0},
		{"strict: a message too large", true, [][]byte{pad(32 << 10), pad(32 << 10), pad(32 << 10), pad(32 << 10), pad(1)}, 1009},
		{"strict: a large message in one frame", true, [][]byte{pad(3 << 20)}, 1009},
		{"a frame of another server's size", false, [][]byte{pad(3 << 20)}, 0},
		{"the largest frame", false, [][]byte{pad(16 << 20)}, 0},
		{"a frame too large", false, [][]byte{pad(16<<20 + 1)}, 1009},
		{"a message too large", false, [][]byte{pad(16 << 20), pad(16 << 20), pad(16 << 20), pad(16 << 20), pad(1), pad(1)}, 1009},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p *raw
			if tt.strict {
				p = strictly.raw("/dev", secret)
			} else {
				p = plain.raw("/", "")
			}
			p.t = t
			for i, f := range tt.frames {
				op := byte(0)
				if i == 0 {
					op = 1
				}
				p.write(rawBytes(i == len(tt.frames)-1, op, f))
			}
			if tt.want != 0 {
				if code := p.closed(); code != tt.want {
					t.Errorf("closed with %d, want %d", code, tt.want)
				}
				return
			}
			p.write(rawBytes(true, 9, []byte("still there")))
			for {
				f := p.next()
				if f.op == 8 {
					t.Fatalf("closed: %q", f.data)
				}
				if f.op == 10 {
					break
				}
			}
		})
	}
}

func TestStrictClosesBinaryWith1003(t *testing.T) {
	t.Parallel()
	r, secret := strictRig(t)
	p := r.raw("/dev", secret)
	p.write(append(rawBytes(false, 2, []byte(`{"type":`)), rawBytes(true, 0, []byte(`"ping"}`))...))
	if code := p.closed(); code != 1003 {
		t.Errorf("closed with %d, want 1003", code)
	}
}

func TestStrictPostsNothingBeforeTheFirstFrame(t *testing.T) {
	t.Parallel()
	r, secret := strictRig(t)
	p := r.raw("/dev", secret)
	c := r.only()
	if err := c.Send(t.Context(), &protocol.Ping{}); !errors.Is(err, bus.ErrGone) {
		t.Errorf("a post before the first frame: %v, want gone", err)
	}
	defer r.tick()()
	p.text(`{"type":"ping"}`)
	if text, _ := p.message(); !strings.HasPrefix(text, `{"type":"workerregistered"`) {
		t.Errorf("the first frame is %s", text)
	}
	if text, _ := p.message(); text != `{"type":"pong"}` {
		t.Errorf("the second frame is %s", text)
	}
}

// only is the one connection of the server.
func (r *rig) only() *conn {
	for {
		r.server.mu.Lock()
		for _, c := range r.server.conns {
			r.server.mu.Unlock()
			return c
		}
		r.server.mu.Unlock()
	}
}

func TestStrictEndsIdleAndOldConnections(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		r, secret := strictRig(t)
		p := r.raw("/dev", secret)
		p.write(rawBytes(true, 9, nil)) // a control frame is no message
		if f := p.next(); f.op != 10 {
			t.Fatalf("frame %+v", f)
		}
		r.clock.BlockUntil(2) // the announce, and the age
		r.clock.Advance(IdleLimit)
		if code := p.closed(); code != 1001 {
			t.Errorf("closed with %d, want 1001", code)
		}
	})
	t.Run("old", func(t *testing.T) {
		t.Parallel()
		r, secret := strictRig(t)
		p := r.raw("/dev", secret)
		began := r.clock.Monotonic()
		p.text(`{"type":"pong"}`)
		if text, _ := p.message(); !strings.Contains(text, "workerregistered") {
			t.Fatal(text)
		}
		pings := 0
		for {
			r.clock.BlockUntil(1)
			r.clock.Advance(Keepalive)
			f := p.next()
			if f.op == 8 {
				break
			}
			if string(f.data) != `{"type":"ping"}` {
				t.Fatalf("frame %s", f.data)
			}
			pings++
		}
		if life := r.clock.Monotonic() - began; life < LifeLimit || pings < int(LifeLimit/Keepalive)-2 {
			t.Errorf("it lived %v and was pinged %d times", life, pings)
		}
	})
}

func TestStrictShufflesFramesBySeed(t *testing.T) {
	t.Parallel()
	const n = maxInFlight
	order := func(seed, connection uint64) []string {
		fake := clock.NewFake(time.Unix(0, 0))
		s := newShuffle(fake, seed, connection)
		out := make(chan delivery)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.run(ctx, out)
		for i := range n {
			s.add(ctx, delivery{frame: &protocol.UnregisterFunction{ID: fmt.Sprint(i)}})
		}
		fake.Advance(Spread)
		var got []string
		for range n {
			d := <-out
			got = append(got, d.frame.(*protocol.UnregisterFunction).ID)
			d.done()
		}
		return got
	}
	first := order(1, 0)
	if !slices.Equal(first, order(1, 0)) {
		t.Error("the same seed gave another order")
	}
	if slices.Equal(first, order(2, 0)) || slices.Equal(first, order(1, 1)) {
		t.Error("another seed or connection gave the same order")
	}
	if first[0] == "0" && first[1] == "1" && first[2] == "2" {
		t.Errorf("nothing was shuffled: %v", first)
	}
	slices.Sort(first)
	if len(slices.Compact(first)) != n {
		t.Errorf("frames are missing: %v", first)
	}
}

func TestShuffleHandlesWhatCameBeforeTheEnd(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0)) // it never moves
	s := newShuffle(fake, 1, 0)
	out := make(chan delivery)
	go s.run(t.Context(), out)
	for i := range 10 {
		s.add(t.Context(), delivery{frame: &protocol.UnregisterFunction{ID: fmt.Sprint(i)}})
	}
	close(s.in)
	n := 0
	for d := range out {
		d.done()
		n++
	}
	if n != 10 {
		t.Errorf("%d of 10 frames were handled", n)
	}
}

func TestShuffleKeepsChunksWithinTheOpenMessages(t *testing.T) {
	t.Parallel()
	s := newShuffle(clock.NewFake(time.Unix(0, 0)), 1, 0)
	out := make(chan delivery)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.run(ctx, out)
	for range protocol.MaxOpenChunked {
		s.add(ctx, delivery{frame: &protocol.Chunk{}})
	}
	s.add(ctx, delivery{frame: &protocol.Ping{}}) // others go on
	done, stop := context.WithCancel(ctx)
	stop()
	s.add(done, delivery{frame: &protocol.Chunk{}}) // waits for room until its context ends
	if len(s.chunks) != protocol.MaxOpenChunked {
		t.Errorf("%d chunks are under way", len(s.chunks))
	}
}

func TestStrictRegistersInWhateverOrder(t *testing.T) {
	t.Parallel()
	r, secret := strictRig(t)
	defer r.tick()()
	worker := r.raw("/dev", r.token(bus.RoleWorker, func(k *access.Token) { k.Register = []string{"mine::*"} }))
	for i := range 20 {
		worker.text(fmt.Sprintf(`{"type":"registerfunction","id":"mine::f%d"}`, i))
	}
	worker.text(`{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"w"},"action":{"type":"void"}}`)
	if text, _ := worker.message(); !strings.Contains(text, "workerregistered") {
		t.Fatal(text)
	}
	go func() {
		for {
			f, err := worker.read()
			if err != nil {
				return // the test is over
			}
			frame, err := protocol.Decode(f.data)
			if call, ok := frame.(*protocol.InvokeFunction); ok && err == nil {
				_, _ = worker.conn.Write(rawBytes(true, 1, fmt.Appendf(nil, `{"type":"invocationresult","invocation_id":%q,"result":1}`, call.InvocationID)))
			}
		}
	}()
	caller := r.raw("/dev", secret)
	for i := range 20 {
		for answer := ""; !strings.Contains(answer, `"result":1`); {
			caller.text(strings.Replace(invoke(fmt.Sprintf("mine::f%d", i)), uuid, clock.Random().UUID(), 1))
			for answer = ""; !strings.Contains(answer, "invocationresult"); {
				answer, _ = caller.message()
			}
		}
	}
}

func TestStrictSendsLargeMessagesInFrames(t *testing.T) {
	t.Parallel()
	r, secret := strictRig(t)
	defer r.tick()()
	p := r.raw("/dev", secret)
	ask := func(n int) (string, []int) {
		p.text(fmt.Sprintf(`{"type":"invokefunction","invocation_id":%q,"function_id":"echo::large","data":%d}`, clock.Random().UUID(), n))
		for {
			text, sizes := p.message()
			if strings.Contains(text, `"invocationresult"`) {
				return text, sizes
			}
		}
	}
	text, sizes := ask(100 << 10)
	if !json.Valid([]byte(text)) || len(text) < 100<<10 || len(sizes) < 4 || slices.Max(sizes) > protocol.GatewayMaxFrame {
		t.Errorf("%d bytes in frames %v", len(text), sizes)
	}
	if text, _ := ask(128 << 10); !strings.Contains(text, `"code":"VALUE_TOO_LARGE"`) {
		t.Errorf("an answer too large to post: %.200s", text)
	}
}
