package trigger_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/trigger"
)

// world is a simple model of the table: three workers that bind to one type and provide it, each from its namespace, and
// what each has heard. The bus provides the type too, in the default namespace.
type world struct {
	g       *rig
	workers []*worker
	base    *provider
	// order is who provides the type in a namespace, oldest first.
	order map[string][]*worker
}

type worker struct {
	name, namespace string
	life            int  // of its connection
	moved           bool // its type was moved and not registered again
	bindings        map[string]*intent
	heard           map[string]string // binding -> config, by the frames that it got
	frames, due     int               // registertrigger frames that it got, and that it must have got
}

type intent struct {
	config, provider string
	refused          *worker
	moved            bool
}

func (w *worker) conn() string { return fmt.Sprintf("%s.%d", w.name, w.life) }

func (w *worker) caller() router.Caller {
	c := socket(w.conn(), bus.RoleWorker)
	c.Namespace, c.Principal.ID = w.namespace, w.name
	return c
}

// server is who should have a binding: nil, true for the bus.
func (m *world) server(w *worker, b *intent) (server *worker, base bool) {
	look := []string{b.provider}
	if b.provider == "" {
		look = []string{w.namespace, "default"}
	}
	for _, ns := range look {
		if n := len(m.order[ns]); n > 0 {
			if top := m.order[ns][n-1]; top != b.refused {
				return top, false
			}
			return nil, false
		}
	}
	return nil, look[len(look)-1] == "default"
}

// want is what each worker, and the bus, should have.
func (m *world) want() map[string]map[string]string {
	out := map[string]map[string]string{"bus": {}}
	for _, w := range m.workers {
		out[w.name] = map[string]string{}
	}
	for _, w := range m.workers {
		for id, b := range w.bindings {
			switch server, base := m.server(w, b); {
			case base:
				out["bus"][id] = b.config
			case server != nil:
				out[server.name][id] = b.config
			}
		}
	}
	return out
}

// got is what each has, by what was sent so far.
func (m *world) got() map[string]map[string]string {
	for len(m.g.wire.sent) > 0 {
		conn, text, _ := strings.Cut(<-m.g.wire.sent, " ")
		f, err := protocol.Decode([]byte(text))
		if err != nil {
			m.g.t.Fatal(err)
		}
		for _, w := range m.workers {
			if conn != w.conn() {
				continue
			}
			switch f := f.(type) {
			case *protocol.RegisterTrigger:
				w.heard[f.ID] = string(f.Config)
				w.frames++
			case *protocol.UnregisterTrigger:
				delete(w.heard, f.ID)
			}
		}
	}
	out := map[string]map[string]string{"bus": {}}
	for _, w := range m.workers {
		out[w.name] = w.heard
	}
	m.base.mu.Lock()
	defer m.base.mu.Unlock()
	for id, b := range m.base.bound {
		out["bus"][id] = string(b.Config)
	}
	return out
}

// settle waits until each has what it should have.
func (m *world) settle(t *testing.T, done []string) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	want := m.want()
	for {
		diff := cmp.Diff(want, m.got())
		for _, w := range m.workers {
			if w.frames < w.due {
				diff += w.name + " did not hear all again"
			}
		}
		if diff == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s (-want +got):\n%s", strings.Join(done, "; "), diff)
		}
		runtime.Gosched()
	}
}

func (m *world) withdraw(w *worker) {
	for ns, all := range m.order {
		kept := all[:0:0]
		for _, one := range all {
			if one != w {
				kept = append(kept, one)
			}
		}
		m.order[ns] = kept
	}
	for _, maker := range m.workers {
		for _, b := range maker.bindings {
			if b.refused == w {
				b.refused = nil
			}
		}
	}
	clear(w.heard) // it drops the type's handler
	w.moved = false
}

// step does something, to the table and to the model.
func (m *world) step(r *rand.Rand, n int) string {
	w := m.workers[r.IntN(len(m.workers))]
	id := fmt.Sprintf("%s-%d", w.name, r.IntN(3))
	switch k := r.IntN(14); {
	case k < 3:
		providers := []string{"", "", "default", "shop"}
		b := &intent{config: fmt.Sprint(n), provider: providers[r.IntN(len(providers))]}
		if old := w.bindings[id]; old != nil && old.moved && r.IntN(2) == 0 {
			*b = *old // replayed unchanged
			b.moved = false
		}
		more := ""
		if b.provider != "" {
			more = `,"trigger_namespace":"` + b.provider + `"`
		}
		m.g.mine(w.caller(), id, `,"config":`+b.config+more)
		w.bindings[id] = b
		return "bind " + id
	case k < 5:
		m.g.Unregister(w.caller(), id)
		delete(w.bindings, id)
		return "unbind " + id
	case k < 8:
		already := slices.Contains(m.order[w.namespace], w)
		m.g.provide(w.caller(), "")
		if !w.moved {
			kept := m.order[w.namespace][:0:0]
			for _, one := range m.order[w.namespace] {
				if one != w {
					kept = append(kept, one)
				}
			}
			m.order[w.namespace] = append(kept, w)
		}
		w.moved = false
		for _, maker := range m.workers {
			for _, b := range maker.bindings {
				if b.refused == w {
					b.refused = nil
				}
			}
		}
		w.due = w.frames
		if already {
			w.due += len(m.want()[w.name])
		}
		return "provide " + w.name
	case k < 9:
		m.g.UnregisterType(w.caller(), "tick")
		m.withdraw(w)
		return "withdraw " + w.name
	case k < 11:
		m.got() // what was sent to the old connection is heard
		from := w.conn()
		m.g.wire.set(func(x *wire) { x.gone[from] = true })
		m.got()
		w.life++
		m.g.Move(from, w.conn())
		for _, b := range w.bindings {
			b.moved = true
		}
		w.moved = slices.Contains(m.order[w.namespace], w)
		return "move " + w.conn()
	case k < 12:
		m.g.Drop(w.conn())
		w.life++
		clear(w.bindings)
		m.withdraw(w)
		return "drop " + w.name
	}
	// A provider refuses what it has.
	for _, maker := range m.workers {
		for id, b := range maker.bindings {
			if server, _ := m.server(maker, b); server != nil && r.IntN(3) == 0 {
				m.g.answer(server.caller(), id, &bus.Error{Code: "trigger_registration_failed", Message: "no"})
				b.refused = server
				delete(server.heard, id)
				return "refuse " + id + " by " + server.name
			}
		}
	}
	return "nothing"
}

// TestEachBindingHasItsProvider does what workers may do, in any order, and compares with the model: after each step every
// binding is known to who should have it, as it is now, and to nobody else.
func TestEachBindingHasItsProvider(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		m := &world{g: newRig(t), base: newProvider(), order: map[string][]*worker{}}
		if err := m.g.Provide(trigger.Type{ID: "tick"}, m.base); err != nil {
			t.Fatal(err)
		}
		for i, ns := range []string{"default", "shop", "default"} {
			m.workers = append(m.workers, &worker{name: fmt.Sprintf("w%d", i), namespace: ns, bindings: map[string]*intent{}, heard: map[string]string{}})
		}
		var done []string
		for n := range 150 {
			done = append(done, m.step(r, n))
			m.settle(t, done)
		}
	}
}
