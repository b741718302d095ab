package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// memory is a state store for tests that need thousands of stores, or a fault
// at one exact write.
type memory struct {
	mu    sync.Mutex
	items map[state.Key]state.Item
	// before and after run around the nth transaction, from 1; an error of
	// before applies nothing, one of after hides that it was applied.
	before, after func(n int, tx []state.Write) error
	n             int
	gets, lists   int
}

func newMemory() *memory { return &memory{items: map[state.Key]state.Item{}} }

func (m *memory) Get(_ context.Context, k state.Key, _ ...state.ReadOption) (state.Item, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	it, ok := m.items[k]
	return it, ok, nil
}

func (m *memory) List(_ context.Context, scope string, o state.ListOptions) ([]state.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	var out []state.Item
	for k, it := range m.items {
		if k.Scope == scope && strings.HasPrefix(k.Key, o.Prefix) && k.Key > o.After {
			out = append(out, it)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key.Key < out[j].Key.Key })
	if o.Limit > 0 {
		out = out[:min(o.Limit, len(out))]
	}
	return out, nil
}

func (m *memory) Groups(context.Context) ([]string, error) { return nil, errors.New("not used") }

func (m *memory) Due(context.Context, string, time.Time, int) ([]state.Item, error) {
	return nil, errors.New("not used")
}

func (m *memory) Watch(context.Context, state.Key) <-chan struct{} { return nil }

func (m *memory) Submit(_ context.Context, tx []state.Write, _ ...commit.Ticket) *state.Pending {
	m.mu.Lock()
	m.n++
	n, before, after := m.n, m.before, m.after
	m.mu.Unlock()
	if before != nil {
		if err := before(n, tx); err != nil {
			return commit.Resolved[[]state.Change](nil, err)
		}
	}
	changes, err := m.apply(tx)
	if err == nil && after != nil {
		err = after(n, tx)
	}
	return commit.Resolved(changes, err)
}

func (m *memory) apply(tx []state.Write) ([]state.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(tx) > state.MaxTx {
		return nil, &state.InvalidKeyError{Field: "writes", Allowed: "at most 100"}
	}
	seen := map[state.Key]bool{}
	for i, w := range tx {
		if seen[w.Key] {
			return nil, &state.InvalidKeyError{Field: "key", Allowed: "named once"}
		}
		seen[w.Key] = true
		it, ok := m.items[w.Key]
		if (w.Expect.Absent && ok) || (w.Expect.Version != 0 && it.Version != w.Expect.Version) {
			return nil, &state.ConflictError{Key: w.Key, Index: i}
		}
	}
	changes := make([]state.Change, len(tx))
	for i, w := range tx {
		it, ok := m.items[w.Key]
		switch w.Kind {
		case state.KindSet:
			m.items[w.Key] = state.Item{Key: w.Key, Value: slices.Clone(w.Value), Version: it.Version + 1}
		case state.KindUpdate:
			v, _ := state.Apply(it.Value, ok, w.Ops)
			m.items[w.Key] = state.Item{Key: w.Key, Value: v, Version: it.Version + 1}
		case state.KindDelete:
			delete(m.items, w.Key)
		}
		changes[i] = state.Change{Key: w.Key, Version: m.items[w.Key].Version}
	}
	return changes, nil
}

func (m *memory) set(scope, key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := state.Key{Scope: scope, Key: key}
	m.items[k] = state.Item{Key: k, Value: json.RawMessage(value), Version: m.items[k].Version + 1}
}

// counts gives the reads since the last call.
func (m *memory) counts() (gets, lists int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gets, lists = m.gets, m.lists
	m.gets, m.lists = 0, 0
	return gets, lists
}

// memoryFixture has alice's session s1 on a store in memory.
func memoryFixture(t testing.TB) (*fixture, *memory) {
	t.Helper()
	m := newMemory()
	f := &fixture{t: t, store: &faulty{Store: m}, clock: clock.NewFake(time.UnixMilli(1_780_000_000_000))}
	var err error
	if f.Session, err = New(Deps{State: m, Clock: f.clock, IDs: clock.Sequence(1)}); err != nil {
		t.Fatal(err)
	}
	f.endpoints = f.Endpoints()
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	return f, m
}
