package trigger

import (
	"context"
	"errors"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// line is what a worker that provides a type is to know of its bindings. It is told the latest of each, in the order in
// which they changed; what came and went before its turn is not told. So a slow worker costs no more than its bindings.
type line struct {
	mu         sync.Mutex
	connection string
	closed     bool
	running    bool
	// want is what it should know, told what it was told. A binding in queue is looked at again.
	want, told map[string]*binding
	queue      []string
	queued     map[string]bool
	// anew is what it hears again, though it was told.
	anew map[string]bool
}

func newLine(connection string) *line {
	return &line{
		connection: connection, want: map[string]*binding{}, told: map[string]*binding{}, queued: map[string]bool{}, anew: map[string]bool{},
	}
}

// conn is the socket of the worker now.
func (l *line) conn() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connection
}

// close ends the line; what it was told stays as it is.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// forget drops a binding that the worker refused, so that it is not told of its end.
func (l *line) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.want, id)
	delete(l.told, id)
}

// want has a worker told of a binding, again if it was told before; nil has it told of the end.
func (t *Table) want(s *source, id string, b *binding) {
	l := s.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	if b == nil {
		delete(l.want, id)
	} else {
		l.want[id] = b
		l.anew[id] = true
	}
	if !l.queued[id] {
		l.queued[id] = true
		l.queue = append(l.queue, id)
	}
	t.start(s)
}

// move is the worker's next connection. What the last one did not take is told there.
func (t *Table) move(s *source, connection string) {
	l := s.worker
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connection = connection
	t.start(s)
}

// start has the queue worked off. The caller holds the line's mu.
func (t *Table) start(s *source) {
	if l := s.worker; !l.running && !l.closed && len(l.queue) > 0 {
		l.running = true
		go t.run(s)
	}
}

// run works the queue off, and ends when it is empty or the connection is gone.
func (t *Table) run(s *source) {
	l := s.worker
	for {
		l.mu.Lock()
		if l.closed || len(l.queue) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		connection, step := l.connection, l.next(s)
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
		if err != nil && !gone && step.want != nil {
			t.refuse(s, step.want, bus.AsError(failed("The trigger could not be sent to its provider: "+err.Error())))
		}
	}
}

// step is the next binding that a worker hears of.
type step struct {
	id         string
	want, told *binding
	frames     []protocol.Frame
}

// next takes the first binding out of the queue. One that was replaced by another of its id ends first. The caller holds
// mu.
func (l *line) next(s *source) step {
	id := l.queue[0]
	l.queue = l.queue[1:]
	n := step{id: id, want: l.want[id], told: l.told[id]}
	if n.told != nil && n.told != n.want {
		n.frames = append(n.frames, &protocol.UnregisterTrigger{ID: id, TriggerType: s.key.id})
	}
	if n.want != nil && (n.told != n.want || l.anew[id]) {
		n.frames = append(n.frames, frameOf(n.want, s.key.namespace))
	}
	delete(l.queued, id)
	delete(l.anew, id)
	l.know(id, n.want)
	return n
}

// back puts a binding that the worker may not have heard of at the front again. The caller holds mu.
func (l *line) back(n step) {
	l.know(n.id, n.told)
	l.anew[n.id] = true
	if !l.queued[n.id] {
		l.queued[n.id] = true
		l.queue = append([]string{n.id}, l.queue...)
	}
}

// know notes what the worker was told. The caller holds mu.
func (l *line) know(id string, b *binding) {
	if b == nil {
		delete(l.told, id)
		return
	}
	l.told[id] = b
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
