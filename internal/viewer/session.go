package viewer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// session is what this process knows of a session while it serves viewers of
// it.
type session struct {
	hub   *Hub
	id    string
	users int // guarded by Hub.mu

	mu sync.Mutex
	// head is how far the log is known to reach.
	head stream.Head
	// step is the step that holds the turn, nil if none of this process does.
	step *Step
	// draft is the message being streamed, nil if none is.
	draft *draft
	pumps map[string]*pump
	// gen counts changes of subscriptions: what was listed before one is old.
	gen int64
	// rested is closed when a pump has come to rest.
	rested chan struct{}

	// reading guards the window, the last part of the log that was read.
	reading sync.Mutex
	window  []entry
}

// entry is one event or delta to post.
type entry struct {
	seq   int64 // -1 for a delta
	rev   int64
	at    time.Time // of an event
	event json.RawMessage
}

func newSession(h *Hub, id string) *session {
	return &session{hub: h, id: id, head: stream.Head{Tail: -1}, pumps: map[string]*pump{}, rested: make(chan struct{})}
}

// look reads how far the log reaches.
func (s *session) look(ctx context.Context) (stream.Head, error) {
	head, err := s.hub.Stream.Head(ctx, agent.StreamEvents, s.id)
	if err != nil {
		return stream.Head{}, fmt.Errorf("viewer: read the head of the log: %w", err)
	}
	s.notify(head)
	return head, nil
}

// notify takes how far the log reaches and wakes the pumps. A head without an
// epoch is of a log that does not exist yet.
func (s *session) notify(head stream.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case head.Epoch == "":
	case s.head.Epoch == "" || s.head.Epoch == head.Epoch:
		s.head = stream.Head{Tail: max(s.head.Tail, head.Tail), Epoch: head.Epoch}
	default:
		s.restart(head)
	}
	for _, p := range s.pumps {
		p.wake()
	}
}

// restart goes over to a log that was made anew. The caller holds mu.
func (s *session) restart(head stream.Head) {
	s.head, s.draft = head, nil
	for _, p := range s.pumps {
		p.at = spot{}
		p.logs++
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.window = nil
}

// delta takes an update of the message being streamed. It costs the caller
// nothing but the copy.
func (s *session) delta(u agent.MessageUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draft != nil && u.Attempt < s.draft.attempt:
		return
	case s.draft == nil || !s.draft.continues(u):
		s.draft = newDraft(u)
	}
	s.draft.add(u, s.head.Tail)
	for _, p := range s.pumps {
		if !p.eventsOnly {
			p.wake()
		}
	}
}

// open reports whether the draft is of a message that is not in the log: no
// event was told since its last update.
func (s *session) open() bool { return s.draft != nil && s.draft.after == s.head.Tail }

// read is the events from a sequence on, as many as one read gives.
func (s *session) read(ctx context.Context, from int64) ([]entry, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if n := len(s.window); n > 0 && s.window[0].seq <= from && from <= s.window[n-1].seq {
		i, _ := slices.BinarySearchFunc(s.window, from, func(e entry, seq int64) int { return cmp.Compare(e.seq, seq) })
		return s.window[i:], nil
	}
	items, err := s.hub.Stream.Read(ctx, agent.StreamEvents, s.id, from, readItems, readBytes)
	if err != nil {
		return nil, fmt.Errorf("viewer: read the log: %w", err)
	}
	out := make([]entry, len(items))
	for i, it := range items {
		out[i] = entry{seq: seqOf(it, from+int64(i)), at: it.At, event: it.Data}
	}
	s.window = out
	return out, nil
}

// seqOf is the sequence in an item's name, which ends in it.
func seqOf(it stream.Item, otherwise int64) int64 {
	n, err := strconv.ParseInt(it.Item[strings.LastIndexByte(it.Item, '-')+1:], 10, 64)
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// resting is the number of pumps at work, and what is closed when one has come
// to rest.
func (s *session) resting() (busy int, c <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pumps {
		if p.running {
			busy++
		}
	}
	return busy, s.rested
}

// changed says that a pump has come to rest. The caller holds mu.
func (s *session) changed() {
	close(s.rested)
	s.rested = make(chan struct{})
}
