package trigger

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// line is what a connection that provides types is to know of their bindings. It is told the latest of each, in the order
// in which they changed; what came and went before its turn is not told. So a slow worker costs no more than its
// bindings.
type line struct {
	mu         sync.Mutex
	connection string
	running    bool
	// want is what it should know, told what it was told, by binding. A binding in queue is looked at again.
	want, told map[string]notice
	queue      list.List // of ids
	queued     map[string]*list.Element
	// anew is what it hears again, though it was told.
	anew map[string]bool
}

// notice is a binding that a source has; the zero notice is none.
type notice struct {
	b *binding
	s *source
}

func newLine(connection string) *line {
	return &line{
		connection: connection, want: map[string]notice{}, told: map[string]notice{}, queued: map[string]*list.Element{}, anew: map[string]bool{},
	}
}

// conn is the socket of the worker now.
func (l *line) conn() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connection
}

// close forgets what the worker was told as a source, and is to be told: it no longer is that source.
func (l *line) close(s *source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range [...]map[string]notice{l.want, l.told} {
		for id, n := range m {
			if n.s == s {
				delete(m, id)
			}
		}
	}
}

// forget drops a binding that the worker refused as a source, so that it is not told of its end.
func (l *line) forget(s *source, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range [...]map[string]notice{l.want, l.told} {
		if m[id].s == s {
			delete(m, id)
		}
	}
}

// want has a worker told of a binding that it has as a source, again if it was told before; nil has it told of the end.
func (t *Table) want(s *source, id string, b *binding) {
	l := s.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case b != nil:
		l.want[id] = notice{b, s}
		l.anew[id] = true
	case l.want[id].s != s:
		return
	default:
		delete(l.want, id)
		if l.told[id].b == nil {
			l.dequeue(id) // it came and went unheard
			return
		}
	}
	if l.queued[id] == nil {
		l.queued[id] = l.queue.PushBack(id)
	}
	t.start(l)
}

// dequeue takes a binding out of the queue. The caller holds mu.
func (l *line) dequeue(id string) {
	if e := l.queued[id]; e != nil {
		l.queue.Remove(e)
	}
	delete(l.queued, id)
	delete(l.anew, id)
}

// move is the worker's next connection. What the last one did not take is told there.
func (t *Table) move(l *line, connection string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connection = connection
	t.start(l)
}

// start has the queue worked off. The caller holds the line's mu.
func (t *Table) start(l *line) {
	if !l.running && l.queue.Len() > 0 {
		l.running = true
		go t.run(l)
	}
}

// run works the queue off, and ends when it is empty or the connection is gone.
func (t *Table) run(l *line) {
	for {
		l.mu.Lock()
		if l.queue.Len() == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		connection, step := l.connection, l.next()
		l.mu.Unlock()

		err := t.send(connection, step.frames)
		gone := errors.Is(err, bus.ErrGone)

		l.mu.Lock()
		moved := l.connection != connection
		if gone || moved {
			l.back(step) // whether the last connection still took it is not known
		}
		if gone && !moved {
			l.running = false // a next connection takes it up
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if err != nil && !gone && step.want.b != nil {
			t.refuse(step.want.s, step.want.b, bus.AsError(failed("The trigger could not be sent to its provider: "+err.Error())))
		}
	}
}

// step is the next binding that a worker hears of.
type step struct {
	id         string
	want, told notice
	frames     []protocol.Frame
}

// next takes the first binding out of the queue. One that was replaced by another of its id ends first. The caller holds
// mu.
func (l *line) next() step {
	id, _ := l.queue.Front().Value.(string)
	n := step{id: id, want: l.want[id], told: l.told[id]}
	if n.told.b != nil && n.told != n.want {
		n.frames = append(n.frames, &protocol.UnregisterTrigger{ID: id, TriggerType: n.told.b.kind})
	}
	if n.want.b != nil && (n.told != n.want || l.anew[id]) {
		n.frames = append(n.frames, frameOf(n.want.b, n.want.s.key.namespace))
	}
	l.dequeue(id)
	l.know(id, n.want)
	return n
}

// back puts a binding that the worker may not have heard of at the front again. The caller holds mu.
func (l *line) back(n step) {
	l.know(n.id, n.told)
	l.anew[n.id] = true
	if l.queued[n.id] == nil {
		l.queued[n.id] = l.queue.PushFront(n.id)
	}
}

// know notes what the worker was told. The caller holds mu.
func (l *line) know(id string, n notice) {
	if n.b == nil {
		delete(l.told, id)
		return
	}
	l.told[id] = n
}

// frameOf is a binding as its provider hears of it. Namespaces that are the default one are left out.
func frameOf(b *binding, provider string) *protocol.RegisterTrigger {
	return &protocol.RegisterTrigger{
		ID: b.id, TriggerType: b.kind, FunctionID: b.functionID, Config: b.config, Metadata: b.metadata,
		Namespace: unlessDefault(b.namespace), TriggerNamespace: unlessDefault(provider),
	}
}

func unlessDefault(namespace string) *string {
	if namespace == bus.DefaultNamespace {
		return nil
	}
	return &namespace
}

func (t *Table) send(connection string, frames []protocol.Frame) error {
	for _, f := range frames {
		if err := t.cfg.Send(context.Background(), connection, f); err != nil {
			return err
		}
	}
	return nil
}
