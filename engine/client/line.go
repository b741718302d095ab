package client

import (
	"sync"

	"github.com/iii-aws/harness/engine/protocol"
)

// line runs the calls of one function in order, on a goroutine that lives as
// long as there are any.
type line struct {
	mu    sync.Mutex
	calls []func()
	runs  bool
}

// add appends a call and starts the goroutine if none runs.
func (l *line) add(f func(), start func(func())) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, f)
	if l.runs {
		return
	}
	l.runs = true
	start(l.run)
}

func (l *line) run() {
	for {
		l.mu.Lock()
		if len(l.calls) == 0 {
			l.runs = false
			l.mu.Unlock()
			return
		}
		f := l.calls[0]
		l.calls = l.calls[1:]
		l.mu.Unlock()
		f()
	}
}

// dispatch runs a call of the bus: at once, or behind the earlier ones of its
// function. One that was delivered before does not run again.
func (c *Client) dispatch(f *protocol.InvokeFunction) {
	if f.InvocationID != "" {
		if fresh, answer := c.ran.begin(f.InvocationID); !fresh {
			if answer != nil {
				c.start(func() { c.answer(answer) })
			}
			return
		}
	}
	c.mu.Lock()
	e := c.functions[f.FunctionID]
	c.mu.Unlock()
	call := func() { c.handle(f) }
	if e.line == nil {
		c.start(call)
		return
	}
	e.line.add(call, c.start)
}
