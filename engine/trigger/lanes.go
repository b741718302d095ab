package trigger

import "sync"

// MaxWaiting is how many changes wait for one binding of a connection.
const MaxWaiting = 1024

// lanes run the deliveries of a connected binding: in order within a lane, lanes side by side.
type lanes struct {
	mu      sync.Mutex
	queues  map[string][]func()
	waiting int
}

// add puts a delivery at the end of its lane. It reports false, and does nothing, if too many wait.
func (l *lanes) add(name string, deliver func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= MaxWaiting {
		return false
	}
	l.waiting++
	queue, running := l.queues[name]
	if l.queues == nil {
		l.queues = map[string][]func(){}
	}
	l.queues[name] = append(queue, deliver)
	if !running {
		go l.run(name)
	}
	return true
}

// run empties a lane and ends it.
func (l *lanes) run(name string) {
	for {
		l.mu.Lock()
		queue := l.queues[name]
		if len(queue) == 0 {
			delete(l.queues, name)
			l.mu.Unlock()
			return
		}
		next := queue[0]
		queue[0] = nil
		l.queues[name] = queue[1:]
		l.waiting--
		l.mu.Unlock()
		next()
	}
}
