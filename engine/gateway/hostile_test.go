package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// TestHostilePeersLeaveNothingBehind has peers that break every rule, on both
// kinds of server; then the servers answer, end, and keep no goroutine. It runs
// beside no other test: the goroutines are its own.
func TestHostilePeersLeaveNothingBehind(t *testing.T) {
	plain := newRig(t, nil)
	strictly, secret := strictRig(t)
	stop := strictly.tick()
	attacks := map[string][]byte{
		"no request":           []byte("\x16\x03\x01\x02\x00\x01\x00\x01"),
		"garbage":              bytes.Repeat([]byte("\xa5"), 4096),
		"an unmasked frame":    []byte("\x81\x02{}"),
		"reserved bits":        []byte("\xf1\x80\x00\x00\x00\x00"),
		"an unknown opcode":    []byte("\x83\x80\x00\x00\x00\x00"),
		"a huge length":        []byte("\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"),
		"a huge ping":          append([]byte("\x89\xff\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"), make([]byte, 1<<16)...),
		"a fragmented ping":    rawBytes(false, 9, nil),
		"a stray continuation": rawBytes(true, 0, []byte("x")),
		"a text within a text": append(rawBytes(false, 1, []byte("{")), rawBytes(true, 1, []byte("{}"))...),
		"half a frame":         []byte("\x81\xfe\x10"),
		"bad UTF-8":            rawBytes(true, 1, []byte("\xff\xfe")),
		"a bad Close":          rawBytes(true, 8, []byte("\x00")),
		"nested too deep":      rawBytes(true, 1, bytes.Repeat([]byte("["), 20_000)),
		"results of nobody":    bytes.Repeat(rawBytes(true, 1, []byte(`{"type":"invocationresult","invocation_id":"`+uuid+`"}`)), 100),
		"calls it never reads": bytes.Repeat(rawBytes(true, 1, []byte(`{"type":"ping"}`)), 5000),
	}
	var peers sync.WaitGroup
	for name, attack := range attacks {
		for _, stays := range []bool{false, true} {
			for _, strict := range []bool{false, true} {
				var p *raw
				switch {
				case name == "no request":
					conn, err := net.Dial("tcp", plain.http.Listener.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = conn.Close() })
					p = &raw{t: t, conn: conn}
				case strict:
					p = strictly.raw("/dev?chunks=1", secret)
				default:
					p = plain.raw("/?chunks=1", "")
				}
				peers.Go(func() {
					_, _ = p.conn.Write(attack) // the server may cut it
					if !stays {
						_ = p.conn.Close()
					}
				})
			}
		}
	}
	peers.Wait()
	s := plain.open("")
	s.send(invoke("echo::who"))
	s.read()
	p := strictly.raw("/dev", secret)
	p.text(invoke("echo::who"))
	for text := ""; !strings.Contains(text, "invocationresult"); {
		text, _ = p.message()
	}
	_ = p.conn.Close()
	_ = s.ws.CloseNow()
	stop()
	var ends sync.WaitGroup
	for _, r := range []*rig{plain, strictly} {
		ends.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := r.server.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	ends.Wait()
	// All has ended; the last goroutines may still be returning.
	for left := 1; left > 0; runtime.Gosched() {
		left = 0
		for _, kind := range []string{"gateway.(*conn)", "gateway.(*intake)", "gateway.(*shuffle)", "gateway.(*Server)"} {
			left += strings.Count(stacks(), kind)
		}
	}
}

// stacks are those of all goroutines.
func stacks() string {
	for b := make([]byte, 1<<20); ; b = make([]byte, 2*len(b)) {
		if n := runtime.Stack(b, true); n < len(b) {
			return string(b[:n])
		}
	}
}

// TestSlowReceiverHoldsOnlyItsSendersBack has a peer that takes nothing.
func TestSlowReceiverHoldsOnlyItsSendersBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	slow := r.raw("/", "")
	slow.message()
	c := r.only()
	ctx, cancel := context.WithCancel(t.Context())
	full := make(chan error, 1)
	go func() {
		for {
			// Large enough to fill the buffers of the kernel before the queue.
			if err := c.Send(ctx, bigPush()); err != nil {
				full <- err
				return
			}
		}
	}()
	other := r.open(r.token(bus.RoleOperator, nil))
	other.send(invoke("echo::who"))
	other.read()
	cancel()
	if err := <-full; err != context.Canceled {
		t.Errorf("the sender ended with %v", err)
	}
	_ = slow.conn.Close()
}

func bigPush() protocol.Frame {
	return &protocol.InvokeFunction{FunctionID: "ui::x", Data: json.RawMessage(`"` + strings.Repeat("x", 512<<10) + `"`)}
}
