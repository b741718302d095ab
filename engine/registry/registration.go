package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// State is what a registration is good for now.
type State uint8

// The states of a registration.
const (
	// Live registrations serve calls.
	Live State = iota
	// Away is the top of a sticky id whose replacement has gone: calls fail.
	Away
)

// Registration is one entry of the stack of an id. It does not change once it is registered.
type Registration struct {
	bus.Entry
	// Handler serves a built-in function; nil for other kinds.
	Handler bus.Handler
	// Remote is the invocation of a function that a web server backs; nil for other kinds.
	Remote json.RawMessage
	// Builtin is set on functions of built-in workers.
	Builtin bool
	// moved: its worker has a new connection, and has not yet registered it there.
	moved bool
}

// key names a stack.
type key struct{ namespace, id string }

// stack is the registrations of one id.
type stack struct {
	base *Registration
	// above is what connections registered, oldest first.
	above []*Registration
	// sticky ids stay away once they were replaced and the top has gone.
	sticky, replaced, away bool
}

// top is what serves the id.
func (s *stack) top() (*Registration, State) {
	switch {
	case s.away:
		return nil, Away
	case len(s.above) > 0:
		return s.above[len(s.above)-1], Live
	}
	return s.base, Live
}

// of is the place of a connection's registration; -1 if it has none.
func (s *stack) of(connection string) int {
	return slices.IndexFunc(s.above, func(r *Registration) bool { return r.Connection == connection })
}

// push puts a registration of a connection on top, in place of an earlier one of the same connection. One that was moved
// from an earlier connection of the worker keeps its place, and opens no sticky id that is away.
func (s *stack) push(r *Registration) {
	s.replaced = s.replaced || s.sticky
	i := s.of(r.Connection)
	if i >= 0 && s.above[i].moved {
		s.above = slices.Clone(s.above)
		s.above[i] = r
		return
	}
	if i >= 0 {
		s.above = slices.Concat(s.above[:i], s.above[i+1:])
	}
	s.above = append(s.above[:len(s.above):len(s.above)], r)
	s.away = false
}

// move hands the registration of a connection to the one that follows it. What that has registered itself takes the
// place.
func (s *stack) move(from, to, workerID string) {
	i, j := s.of(from), s.of(to)
	if i < 0 {
		return
	}
	s.above = slices.Clone(s.above)
	if j >= 0 {
		s.above[i] = s.above[j]
		s.above = slices.Delete(s.above, j, j+1)
		return
	}
	next := *s.above[i]
	next.Connection, next.WorkerID, next.moved = to, workerID, true
	s.above[i] = &next
}

// drop removes the registration of a connection and reports whether there was one.
func (s *stack) drop(connection string) bool {
	for i, r := range s.above {
		if r.Connection != connection {
			continue
		}
		if i == len(s.above)-1 && s.replaced && !s.away {
			s.away = true
		}
		s.above = append(s.above[:i:i], s.above[i+1:]...)
		return true
	}
	return false
}

// empty reports whether nothing needs to be remembered of the id.
func (s *stack) empty() bool { return s.base == nil && len(s.above) == 0 && !s.replaced }

// Function describes a function for registration.
type Function struct {
	Description    string
	Meta           bus.Meta
	Metadata       json.RawMessage
	RequestSchema  json.RawMessage
	ResponseSchema json.RawMessage
	// Remote is the invocation of a function that a web server backs, as its worker wrote it; nil for one that the worker
	// serves itself. No list shows it: it may hold secrets.
	Remote json.RawMessage
}

// entry is the entry of a function that a worker registers.
func (f Function) entry(namespace, id string, at time.Time) bus.Entry {
	metadata := f.Metadata
	if metadata == nil && f.Meta != (bus.Meta{}) {
		metadata = marshal(f.Meta)
	}
	return bus.Entry{
		FunctionID: id, Namespace: namespace, Description: Clean(f.Description), Metadata: metadata, Meta: f.Meta,
		RequestSchema: f.RequestSchema, ResponseSchema: f.ResponseSchema, RegisteredAt: at,
	}
}

// MetaOf is the part of a registration's metadata that the bus acts on. Members of another type than they must have
// count as absent.
func MetaOf(metadata json.RawMessage) bus.Meta {
	var m bus.Meta
	if len(metadata) == 0 || json.Unmarshal(metadata, &m) == nil {
		return m
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(metadata, &members) != nil {
		return bus.Meta{}
	}
	flag := func(name string) bool { return string(members[name]) == "true" }
	m = bus.Meta{Idempotent: flag("idempotent"), Slow: flag("slow"), Sensitive: flag("sensitive"), Internal: flag("internal")}
	if json.Unmarshal(members["timeout_ms"], &m.TimeoutMS) != nil {
		m.TimeoutMS = 0
	}
	return m
}
