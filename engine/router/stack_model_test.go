package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// member is a worker of the model, over all its connections.
type member struct {
	name  string
	links int
	conn  *conn
	// has is what it serves, oldest first; it registers that anew on each connection.
	has  []string
	away bool
	at   time.Duration // when it was cut
}

// stackModel is who owns what in the plainest form: by name, oldest first.
type stackModel struct {
	above                    map[string][]string
	base                     map[string]bool
	sticky, replaced, closed map[string]bool
}

func (m *stackModel) server(id string) string {
	switch s := m.above[id]; {
	case m.closed[id]:
		return "function_unavailable"
	case len(s) > 0:
		return s[len(s)-1]
	case m.base[id]:
		return "base"
	}
	return "function_not_found"
}

func (m *stackModel) add(name, id string) {
	m.above[id] = append(slices.DeleteFunc(m.above[id], func(n string) bool { return n == name }), name)
	m.closed[id], m.replaced[id] = false, m.replaced[id] || m.sticky[id]
}

func (m *stackModel) remove(name, id string) {
	s := m.above[id]
	i := slices.Index(s, name)
	if i < 0 {
		return
	}
	if i == len(s)-1 && m.replaced[id] {
		m.closed[id] = true
	}
	m.above[id] = slices.Delete(s, i, i+1)
}

// world is a router with its model.
type world struct {
	*rig
	random  *rand.Rand
	model   stackModel
	workers []*member
	ids     []string
	gone    chan string
	now     time.Duration
	history []string
}

func newWorld(t *testing.T, seed uint64) *world {
	const policy = "policy::check_permissions"
	w := &world{
		random: rand.New(rand.NewPCG(seed, 2)), ids: []string{"a::f", "b::f", "c::f", policy}, gone: make(chan string, 64),
		model: stackModel{
			above: map[string][]string{}, base: map[string]bool{"a::f": true, policy: true}, sticky: map[string]bool{policy: true},
			replaced: map[string]bool{}, closed: map[string]bool{},
		},
	}
	w.rig = newRig(t, withGrace, func(c *router.Config) {
		c.WorkerEvent = func(event, id string) {
			if event == router.EventDisconnected {
				w.gone <- id
			}
		}
	})
	for id := range w.model.base {
		w.serve(id, bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`"base"`), nil })
	}
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		m := &member{name: name}
		w.workers = append(w.workers, m)
		w.open(m)
	}
	return w
}

// open connects a worker; it answers with its name.
func (w *world) open(m *member) {
	m.links++
	c := &conn{id: fmt.Sprintf("%s-%d", m.name, m.links), principal: bus.Principal{ID: m.name}, more: make(chan struct{}, 1024)}
	c.onSend = func(f protocol.Frame) {
		if call, ok := f.(*protocol.InvokeFunction); ok {
			w.HandleResult(c, &protocol.InvocationResult{InvocationID: call.InvocationID, FunctionID: call.FunctionID, Result: json.RawMessage(`"` + m.name + `"`)})
		}
	}
	m.conn, m.away = c, false
	w.Attach(c)
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// step does something to one worker.
func (w *world) step() {
	m, id := w.workers[w.random.IntN(len(w.workers))], w.ids[w.random.IntN(len(w.ids))]
	switch n := w.random.IntN(20); {
	case m.away && n < 10:
		w.comeBack(m)
	case n < 13 && !m.away:
		w.note("%s registers %s", m.name, id)
		w.register(m.conn, id)
		m.has = append(slices.DeleteFunc(m.has, func(h string) bool { return h == id }), id)
		w.model.add(m.name, id)
	case n < 15 && !m.away:
		w.note("%s unregisters %s", m.name, id)
		w.UnregisterFunction(m.conn, &protocol.UnregisterFunction{ID: id})
		m.has = slices.DeleteFunc(m.has, func(h string) bool { return h == id })
		w.model.remove(m.name, id)
	case n < 18 && !m.away:
		w.note("%s is cut", m.name)
		w.Detach(m.conn)
		m.away, m.at = true, w.now
	case n == 18:
		w.note("release %s", id)
		if _, _, _, err := w.registry.Release(w.t.Context(), bus.DefaultNamespace, id); err != nil {
			w.t.Fatal(err)
		}
		w.model.replaced[id], w.model.closed[id] = false, false
		for _, m := range w.workers {
			if m.away { // what is away is dropped by it, and given up
				w.model.above[id] = slices.DeleteFunc(w.model.above[id], func(n string) bool { return n == m.name })
				m.has = slices.DeleteFunc(m.has, func(h string) bool { return h == id })
			}
		}
	default:
		w.pass(time.Duration(1+w.random.IntN(3)) * time.Second)
	}
}

// comeBack brings a worker back: as the first that its new connection says, or as the last.
func (w *world) comeBack(m *member) {
	former := m.conn
	stranger := w.workers[(slices.Index(w.workers, m)+1)%len(w.workers)]
	if !stranger.away {
		w.Reattach(stranger.conn, &protocol.Reattach{PreviousWorkerID: former.WorkerID(), ReattachToken: former.ReattachToken()})
	}
	w.open(m)
	w.Reattach(m.conn, &protocol.Reattach{PreviousWorkerID: former.WorkerID(), ReattachToken: former.ReattachToken() + "x"})
	late := w.random.IntN(2) == 0
	w.note("%s comes back, late: %v", m.name, late)
	replay := slices.Clone(m.has)
	w.random.Shuffle(len(replay), func(i, j int) { replay[i], replay[j] = replay[j], replay[i] })
	// A worker whose sticky id is closed reopens it by registering anew, which a late reattach looks like.
	if late {
		for _, id := range replay {
			if w.model.closed[id] {
				w.model.closed[id] = false
			}
		}
	} else {
		w.reattach(m.conn, former)
	}
	w.register(m.conn, replay...)
	if late {
		w.reattach(m.conn, former)
	}
	if got := <-w.gone; got != former.WorkerID() {
		w.t.Fatalf("%s is told gone, want %s after %v", got, former.WorkerID(), w.history)
	}
}

// pass lets time go by, and waits for what ends by it.
func (w *world) pass(d time.Duration) {
	w.note("%v pass", d)
	w.now += d
	var ends []string
	for _, m := range w.workers {
		if m.away && w.now-m.at >= grace {
			ends = append(ends, m.conn.WorkerID())
		}
	}
	w.clock.Advance(d)
	var told []string
	for range ends {
		told = append(told, <-w.gone)
	}
	slices.Sort(ends)
	slices.Sort(told)
	if !slices.Equal(ends, told) {
		w.t.Fatalf("%v are gone, want %v after %v", told, ends, w.history)
	}
	for _, m := range w.workers {
		if m.away && slices.Contains(ends, m.conn.WorkerID()) {
			for _, id := range m.has {
				w.model.remove(m.name, id)
			}
			m.has = nil
			w.open(m) // as a new worker
		}
	}
}

// check compares who serves with the model, by asking and by calling.
func (w *world) check(seed uint64) {
	w.t.Helper()
	for _, id := range w.ids {
		want := w.model.server(id)
		reg, _ := w.registry.Resolve(bus.DefaultNamespace, id)
		switch {
		case reg == nil:
			if want != "function_unavailable" && want != "function_not_found" {
				w.t.Fatalf("seed %d: nobody serves %s, want %s after %v", seed, id, want, w.history)
			}
		case reg.Builtin:
			if want != "base" {
				w.t.Fatalf("seed %d: the base serves %s, want %s after %v", seed, id, want, w.history)
			}
		default:
			i := slices.IndexFunc(w.workers, func(m *member) bool { return m.name == want })
			if i < 0 || w.workers[i].conn.id != reg.Connection {
				w.t.Fatalf("seed %d: %s serves %s, want %s after %v", seed, reg.Connection, id, want, w.history)
			}
			if w.workers[i].away {
				continue // a call would wait
			}
		}
		out, err := w.Worker("x").Invoke(w.t.Context(), bus.Invocation{FunctionID: id})
		got := bus.Code(err)
		if err == nil {
			got = ""
			if jerr := json.Unmarshal(out, &got); jerr != nil {
				w.t.Fatal(jerr)
			}
		}
		if got != want {
			w.t.Fatalf("seed %d: %s answered %s, want %s after %v", seed, id, got, want, w.history)
		}
	}
}

// TestOwnersAgainstAModel: whatever workers do, are cut and come back in whatever order of frames, the right one serves.
func TestOwnersAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		for range 120 {
			w.step()
			w.check(seed)
		}
	}
}
