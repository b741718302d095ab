package protocol

import (
	"time"
	"unicode/utf8"
)

// Assembler puts chunked messages of one connection together. It is bounded in every direction: MaxOpenChunked unfinished
// messages of MaxChunkedMessage bytes each, for ChunkTTL. It is not safe for concurrent use.
//
// A message that fails keeps its place until its time is over, without its data, so that its remaining pieces are
// recognised and a peer that only makes mistakes uses up no more than its own places. The ids of the last complete
// messages are remembered as long, so that a piece that comes once more opens nothing.
type Assembler struct {
	now      func() time.Time
	onExpire func(*ChunkError)
	open     map[string]*partial
	done     map[string]time.Time
	order    []string // of done, oldest first
}

// maxDone is how many complete messages are remembered.
const maxDone = 1024

// partial is an unfinished message.
type partial struct {
	of     int
	pieces map[int]string // nil once the message failed
	size   int
	since  time.Time
}

// NewAssembler returns an empty assembler. now tells the time. onExpire, if not nil, is told of every message whose time
// ran out, once, from within Add or Expire; not of those that had failed before.
func NewAssembler(now func() time.Time, onExpire func(*ChunkError)) *Assembler {
	return &Assembler{now: now, onExpire: onExpire, open: make(map[string]*partial), done: make(map[string]time.Time)}
}

// Add takes one piece, in whatever order pieces come. It returns the frame's text when the piece was the last one missing,
// else nil. The error is a *ChunkError; see its kinds for what becomes of the message. A reassembled frame that is itself
// a chunk is for the caller to refuse.
func (a *Assembler) Add(c *Chunk) ([]byte, error) {
	a.Expire()
	p, err := a.find(c)
	if err == nil {
		err = p.add(c)
	}
	if err != nil {
		return nil, err
	}
	if len(p.pieces) < p.of {
		return nil, nil
	}
	delete(a.open, c.ID)
	a.done[c.ID] = a.now()
	a.order = append(a.order, c.ID)
	text := make([]byte, 0, p.size)
	for n := 1; n <= p.of; n++ {
		text = append(text, p.pieces[n]...)
	}
	return text, nil
}

// find returns the message of a piece, opened now if it is the first.
func (a *Assembler) find(c *Chunk) (*partial, error) {
	if !validChunkID(c.ID) {
		return nil, c.failure(ChunkBadID)
	}
	if p := a.open[c.ID]; p != nil {
		return p, nil
	}
	if _, complete := a.done[c.ID]; complete {
		return nil, c.failure(ChunkDuplicate)
	}
	if len(a.open) >= MaxOpenChunked {
		return nil, c.failure(ChunkTooManyOpen)
	}
	p := &partial{of: c.Of, pieces: make(map[int]string), since: a.now()}
	a.open[c.ID] = p
	return p, nil
}

func (p *partial) add(c *Chunk) error {
	if p.pieces == nil {
		return c.failure(ChunkDropped)
	}
	kind := p.check(c)
	switch kind {
	case "":
		p.pieces[c.N] = c.Data
		p.size += len(c.Data)
		return nil
	case ChunkDuplicate:
	default:
		p.pieces, p.size = nil, 0
	}
	return c.failure(kind)
}

// check returns what is wrong with a piece, or nothing.
func (p *partial) check(c *Chunk) ChunkKind {
	if c.Of < 1 || c.Of > MaxChunks || c.Of != p.of || c.N < 1 || c.N > c.Of {
		return ChunkBadNumber
	}
	if len(c.Data) == 0 || len(c.Data) > MaxChunkData || !utf8.ValidString(c.Data) {
		return ChunkBadData
	}
	if before, ok := p.pieces[c.N]; ok {
		if before == c.Data {
			return ChunkDuplicate
		}
		return ChunkMismatch
	}
	if p.size+len(c.Data) > MaxChunkedMessage {
		return ChunkMessageTooLarge
	}
	return ""
}

// Expire drops the messages whose time is over. Add does so too; a connection that may fall silent calls it from a timer.
func (a *Assembler) Expire() {
	if len(a.open) == 0 && len(a.done) == 0 {
		return
	}
	now := a.now()
	for len(a.order) > 0 && (len(a.order) > maxDone || now.Sub(a.done[a.order[0]]) >= ChunkTTL) {
		delete(a.done, a.order[0])
		a.order = a.order[1:]
	}
	for id, p := range a.open {
		if now.Sub(p.since) < ChunkTTL {
			continue
		}
		delete(a.open, id)
		if p.pieces != nil && a.onExpire != nil {
			a.onExpire(&ChunkError{ID: id, Of: p.of, Have: len(p.pieces), Kind: ChunkExpired})
		}
	}
}

// Open returns how many messages hold a place.
func (a *Assembler) Open() int { return len(a.open) }

func (f *Chunk) failure(kind ChunkKind) *ChunkError {
	return &ChunkError{ID: f.ID[:min(len(f.ID), MaxChunkID)], N: f.N, Of: f.Of, Kind: kind}
}
