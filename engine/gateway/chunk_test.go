package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// whole reads messages until one is complete, chunks put together.
func (p *raw) whole(asm *protocol.Assembler) (text string, chunks int) {
	p.t.Helper()
	for {
		got, sizes := p.message()
		if slices.Max(sizes) > protocol.GatewayMaxFrame {
			p.t.Errorf("a frame of %d bytes", slices.Max(sizes))
		}
		f, err := protocol.Decode([]byte(got))
		if err != nil {
			p.t.Fatal(err)
		}
		piece, ok := f.(*protocol.Chunk)
		if !ok {
			return got, 0
		}
		chunks++
		b, err := asm.Add(piece)
		if err != nil {
			p.t.Fatal(err)
		}
		if b != nil {
			return string(b), chunks
		}
	}
}

func TestChunksPassBothWays(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *raw{
		"strict": func(t *testing.T) *raw {
			r, secret := strictRig(t)
			t.Cleanup(r.tick())
			return r.raw("/dev?chunks=1", secret)
		},
		"plain": func(t *testing.T) *raw { return newRig(t, nil).raw("/?chunks=1", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			asm := protocol.NewAssembler(time.Now, nil)
			data, err := bus.Encode(strings.Repeat(`"ü\😀`, 40_000))
			if err != nil {
				t.Fatal(err)
			}
			frame := fmt.Sprintf(`{"type":"invokefunction","invocation_id":%q,"function_id":"echo::size","data":%s}`, uuid, data)
			chunks, err := protocol.Split([]byte(frame), "m1")
			if err != nil {
				t.Fatal(err)
			}
			for i := range chunks { // last first, each twice
				p.text(string(chunks[len(chunks)-1-i]))
				p.text(string(chunks[len(chunks)-1-i]))
			}
			var text string
			for !strings.Contains(text, "invocationresult") {
				text, _ = p.whole(asm)
			}
			if !strings.Contains(text, fmt.Sprintf(`"result":%d`, len(data))) {
				t.Errorf("answer %s, want %d bytes", text, len(data))
			}
			const n = 2 << 20
			p.text(fmt.Sprintf(`{"type":"invokefunction","invocation_id":%q,"function_id":"echo::large","data":%d}`, clock.Random().UUID(), n))
			text, pieces := p.whole(asm)
			if !json.Valid([]byte(text)) || len(text) < n || pieces < n/protocol.MaxChunkData {
				t.Errorf("%d bytes in %d chunks", len(text), pieces)
			}
			p.text(fmt.Sprintf(`{"type":"invokefunction","invocation_id":%q,"function_id":"echo::large","data":%d}`, clock.Random().UUID(), 21<<20))
			if name == "strict" {
				if text, _ = p.whole(asm); !strings.Contains(text, protocol.CodeValueTooLarge) {
					t.Errorf("an answer above 20 MB: %.200s", text)
				}
			}
		})
	}
}

func TestChunksOnlyForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.open("")
	s.send(`{"type":"chunk","id":"a","n":1,"of":1,"data":"{\"type\":\"ping\"}"}`)
	s.send(invoke("echo::who"))
	if f, ok := s.read().(*protocol.InvocationResult); !ok {
		t.Errorf("frame %+v", f)
	}
	if log := r.log.String(); !strings.Contains(log, "did not ask for chunks") {
		t.Errorf("log %s", log)
	}
}

func TestBrokenChunksAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.raw("/?chunks=1", "")
	p.message()
	for _, f := range []string{
		`{"type":"chunk","id":"a","n":0,"of":1,"data":"x"}`, `{"type":"chunk","id":"","n":1,"of":1,"data":"x"}`,
		`{"type":"chunk","id":"b","n":1,"of":1,"data":"nonsense"}`,
		`{"type":"chunk","id":"c","n":1,"of":1,"data":"{\"type\":\"chunk\",\"id\":\"d\",\"n\":1,\"of\":1,\"data\":\"x\"}"}`,
		`{"type":"chunk","id":"e","n":1,"of":2,"data":"x"}`,
		`{"type":"chunk","id":"f","n":1,"of":1,"data":"{\"type\":\"ping\"}"}`,
	} {
		p.text(f)
	}
	if text, _ := p.message(); text != `{"type":"pong"}` {
		t.Errorf("frame %s", text)
	}
	r.clock.BlockUntil(2) // the announce, and what is unfinished
	r.clock.Advance(protocol.ChunkTTL)
	for !strings.Contains(r.log.String(), "chunk_expired") {
		p.text(`{"type":"ping"}`)
		p.message()
	}
}
