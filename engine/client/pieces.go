package client

import (
	"context"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// pieces puts the chunked messages of one connection together.
type pieces struct {
	clock clock.Clock
	ctx   context.Context
	start func(func())

	mu       sync.Mutex
	asm      *protocol.Assembler
	watching bool
}

func newPieces(ctx context.Context, c clock.Clock, start func(func()), lost func(*protocol.ChunkError)) *pieces {
	began := c.Now()
	now := func() time.Time { return began.Add(c.Monotonic()) }
	return &pieces{clock: c, ctx: ctx, start: start, asm: protocol.NewAssembler(now, lost)}
}

// add takes a piece and gives the text that it completes, or nil.
func (p *pieces) add(f *protocol.Chunk) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := p.asm.Add(f)
	if p.asm.Open() > 0 && !p.watching {
		p.watching = true
		p.start(p.watch)
	}
	return text, err
}

// watch drops what stays unfinished, also when nothing more comes. It ends when
// nothing is left.
func (p *pieces) watch() {
	for {
		t := p.clock.NewTimer(protocol.ChunkTTL)
		select {
		case <-t.C():
		case <-p.ctx.Done():
			t.Stop()
			return
		}
		p.mu.Lock()
		p.asm.Expire()
		p.watching = p.asm.Open() > 0
		again := p.watching
		p.mu.Unlock()
		if !again {
			return
		}
	}
}
