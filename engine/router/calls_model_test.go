package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// party is a worker that calls and is called, over all its connections. Its sockets lose what they have not written when
// they are cut, and give it back.
type party struct {
	name string
	fn   string

	mu    sync.Mutex
	links int
	conn  *socket
	// got counts the results by invocation id, as text; ran the calls.
	got map[string][]string
	ran map[string]int
	// open are the calls that it has not answered.
	open []*protocol.InvokeFunction
	told chan struct{}
}

// socket is one connection of a party.
type socket struct {
	*conn
	p *party

	mu     sync.Mutex
	closed bool
	stuck  bool // what it is sent is queued, and not written
	queue  []protocol.Frame
}

func (s *socket) Send(_ context.Context, f protocol.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return bus.ErrGone
	case s.stuck:
		s.queue = append(s.queue, f)
	default:
		s.p.take(f)
	}
	return nil
}

func (s *socket) Unsent() []protocol.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.queue
}

func (s *socket) Close() {}

func (p *party) take(f protocol.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		p.ran[f.InvocationID]++
		p.open = append(p.open, f)
	case *protocol.InvocationResult:
		text := string(f.Result)
		if f.Error != nil {
			text = f.Error.Code
		}
		p.got[f.InvocationID] = append(p.got[f.InvocationID], text)
	}
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// answerable removes and returns one of the calls that it has not answered.
func (p *party) answerable(random *rand.Rand) *protocol.InvokeFunction {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		return nil
	}
	i := random.IntN(len(p.open))
	f := p.open[i]
	p.open = append(p.open[:i:i], p.open[i+1:]...)
	return f
}

// results is what it has heard of a call.
func (p *party) results(id string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got[id]...)
}

// TestCallsAgainstAModel: workers call each other, are cut with frames in their queues, and come back or not. Every call
// runs at most once, and every caller that is there hears of each of its calls exactly once: what the callee answered, or
// that it is gone.
func TestCallsAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			callsAgainstModel(t, rand.New(rand.NewPCG(seed, 3)))
		})
	}
}

func callsAgainstModel(t *testing.T, random *rand.Rand) {
	ended := make(chan string, 256)
	g := newRig(t, withGrace, func(c *router.Config) {
		c.WorkerEvent = func(event, id string) {
			if event == router.EventDisconnected {
				ended <- id
			}
		}
	})
	attach := func(p *party) {
		p.links++
		name := fmt.Sprintf("%s-%d", p.name, p.links)
		p.conn = &socket{conn: &conn{id: name, principal: bus.Principal{ID: p.name}}, p: p}
		g.Attach(p.conn)
	}
	register := func(p *party) {
		g.RegisterFunction(t.Context(), p.conn, &protocol.RegisterFunction{ID: p.fn})
	}
	var parties []*party
	for _, name := range []string{"p1", "p2", "p3"} {
		p := &party{name: name, fn: name + "::f", got: map[string][]string{}, ran: map[string]int{}, told: make(chan struct{}, 1)}
		parties = append(parties, p)
		attach(p)
		register(p)
	}
	type made struct {
		by, of *party
		id     string
		lost   bool // its caller is gone for good
	}
	var calls []*made
	answered := map[string]string{}
	cut := func(p *party) {
		if g.Detach(p.conn) != 0 {
			t.Error("a worker is held")
		}
	}
	comeBack := func(p *party) {
		former := p.conn
		attach(p)
		f := &protocol.Reattach{PreviousWorkerID: former.WorkerID(), ReattachToken: former.ReattachToken()}
		if late := random.IntN(2) == 0; late {
			register(p)
			g.Reattach(p.conn, f)
		} else {
			g.Reattach(p.conn, f)
			register(p)
		}
		if id := <-ended; id != former.WorkerID() {
			t.Fatalf("%s is told gone", id)
		}
	}
	for range 200 {
		p, q := parties[random.IntN(3)], parties[random.IntN(3)]
		switch n := random.IntN(20); {
		case n < 8:
			c := &made{by: p, of: q, id: fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", len(calls))}
			calls = append(calls, c)
			g.HandleInvoke(context.Background(), p.conn, &protocol.InvokeFunction{InvocationID: c.id, FunctionID: q.fn})
		case n < 14:
			if f := p.answerable(random); f != nil {
				result := fmt.Sprintf(`"%s by %s"`, f.InvocationID, p.name)
				answered[f.InvocationID] = result
				// A stranger's answer counts for nothing, nor does a second one.
				if q != p {
					g.HandleResult(q.conn, &protocol.InvocationResult{InvocationID: f.InvocationID, Result: []byte(`"false"`)})
				}
				g.HandleResult(p.conn, &protocol.InvocationResult{InvocationID: f.InvocationID, Result: []byte(result)})
				g.HandleResult(p.conn, &protocol.InvocationResult{InvocationID: f.InvocationID, Result: []byte(`"twice"`)})
			}
		case n < 16:
			p.conn.mu.Lock()
			p.conn.stuck = true
			p.conn.mu.Unlock()
		case n < 19: // cut, and what it had not written goes with it
			cut(p)
			if random.IntN(3) > 0 {
				g.clock.Advance(time.Second)
			}
			comeBack(p)
		default: // gone for good
			cut(p)
			g.clock.Advance(grace)
			if id := <-ended; id != p.conn.WorkerID() {
				t.Fatalf("%s is told gone", id)
			}
			for _, c := range calls {
				c.lost = c.lost || c.by == p
			}
			p.mu.Lock()
			p.open = nil
			p.mu.Unlock()
			attach(p)
			register(p)
		}
	}
	// All come to rest: whoever is stuck comes back, and all is answered until nothing is left.
	for _, p := range parties {
		cut(p)
		comeBack(p)
	}
	limit := time.After(20 * time.Second)
	for {
		waiting := 0
		for _, p := range parties {
			for f := p.answerable(random); f != nil; f = p.answerable(random) {
				result := fmt.Sprintf(`"%s by %s"`, f.InvocationID, p.name)
				answered[f.InvocationID] = result
				g.HandleResult(p.conn, &protocol.InvocationResult{InvocationID: f.InvocationID, Result: []byte(result)})
			}
		}
		for _, c := range calls {
			if !c.lost && len(c.by.results(c.id)) == 0 {
				waiting++
			}
		}
		if waiting == 0 {
			break
		}
		select {
		case <-parties[0].told:
		case <-parties[1].told:
		case <-parties[2].told:
		case <-limit:
			for _, c := range calls {
				if !c.lost && len(c.by.results(c.id)) == 0 {
					t.Errorf("%s hears nothing of %s, which %s ran %d times", c.by.name, c.id, c.of.name, c.of.ran[c.id])
				}
			}
			t.FailNow()
		}
	}
	for _, c := range calls {
		got := c.by.results(c.id)
		if len(got) > 1 {
			t.Errorf("%s hears of %s: %q", c.by.name, c.id, got)
		}
		if n := c.of.ran[c.id]; n > 1 {
			t.Errorf("%s ran %s %d times", c.of.name, c.id, n)
		}
		if c.lost || len(got) == 0 {
			continue
		}
		if got[0] != answered[c.id] && got[0] != "invocation_stopped" && got[0] != "function_not_found" {
			t.Errorf("%s hears %s of %s, want %s", c.by.name, got[0], c.id, answered[c.id])
		}
		if got[0] == "function_not_found" && c.of.ran[c.id] > 0 {
			t.Errorf("%s ran and is not found", c.id)
		}
	}
}
