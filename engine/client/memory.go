package client

import (
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// Bounds of what is remembered of answered calls.
const (
	rememberFor   = time.Minute
	rememberCalls = 4096
	rememberBytes = 8 << 20
)

// memory knows the calls that run, and those that ended lately with their
// answers: a call that the bus delivers twice runs once.
type memory struct {
	clock clock.Clock

	mu    sync.Mutex
	calls map[string]*ran
	ended []string // oldest first
	bytes int
}

// ran is a call. Without an answer it runs, or its answer was too much to keep.
type ran struct {
	answer []byte
	ended  bool
	at     time.Duration
}

func newMemory(c clock.Clock) *memory { return &memory{clock: c, calls: map[string]*ran{}} }

// begin notes that a call runs. It reports false for one that is known; then
// answer is what it was answered with, nil if it still runs or that was not
// kept.
func (m *memory) begin(id string) (fresh bool, answer []byte) {
	key, ok := protocol.CanonicalID(id)
	if !ok {
		return true, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	if r := m.calls[key]; r != nil {
		return false, r.answer
	}
	m.calls[key] = &ran{}
	return true, nil
}

// end notes the answer of a call.
func (m *memory) end(id string, answer []byte) {
	key, ok := protocol.CanonicalID(id)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.calls[key]
	if r == nil || r.ended {
		return
	}
	r.ended, r.at = true, m.clock.Monotonic()
	if len(answer) <= rememberBytes/8 {
		r.answer = answer
		m.bytes += len(answer)
	}
	m.ended = append(m.ended, key)
	m.forget()
}

// forget drops what is too old or too much. The caller holds mu.
func (m *memory) forget() {
	now := m.clock.Monotonic()
	for len(m.ended) > 0 {
		r := m.calls[m.ended[0]]
		if now-r.at < rememberFor && len(m.ended) <= rememberCalls && m.bytes <= rememberBytes {
			return
		}
		m.bytes -= len(r.answer)
		delete(m.calls, m.ended[0])
		m.ended = m.ended[1:]
	}
}
