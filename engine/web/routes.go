package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
)

// maxRoutes bounds the routes of a server.
const maxRoutes = 4096

// routes finds the route of a request.
type routes struct {
	mu   sync.RWMutex
	root *node
	all  map[string]*route // by binding
}

// node is what is behind some segments of a path.
type node struct {
	literal map[string]*node
	param   *node
	// here are the bindings that end here, by method, the latest last. They have one principal, and the same names.
	here map[string][]*route
}

func newRoutes() *routes { return &routes{root: &node{}, all: map[string]*route{}} }

// put adds a route, in place of an earlier one of its binding.
func (t *routes) put(r *route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all[r.binding.ID]
	if old == nil && len(t.all) >= maxRoutes {
		return refused(fmt.Sprintf("there are %d http triggers already", maxRoutes))
	}
	for _, other := range t.root.at(r.segments, r.Method) {
		switch {
		case other == old:
		case other.binding.Principal.ID != r.binding.Principal.ID:
			return refused(fmt.Sprintf("Route '%s %s' is in use.", r.Method, r.Path))
		case !other.sameNames(r):
			return refused(fmt.Sprintf("Route '%s %s' conflicts with already-registered route '%s %s': "+
				"routes with identical structure but different path-parameter names are not supported", r.Method, r.Path, other.Method, other.Path))
		}
	}
	if old != nil {
		t.root.drop(old, 0)
	}
	t.all[r.binding.ID] = r
	t.root.add(r, 0)
	return nil
}

// remove ends the route of a binding.
func (t *routes) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.all[id]; r != nil {
		delete(t.all, id)
		t.root.drop(r, 0)
	}
}

// find is the route of a request with the values of its parameters; without one, the methods that the path allows.
func (t *routes) find(method, escaped string) (*route, map[string]string, []string) {
	parts := split(escaped)
	if parts == nil {
		return nil, nil, nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	var nodes []*node
	t.root.match(parts, &nodes)
	allowed := map[string]bool{}
	for _, n := range nodes {
		list := n.here[method]
		if list == nil && method == http.MethodHead {
			list = n.here[http.MethodGet]
		}
		if list != nil {
			r := list[len(list)-1]
			return r, r.values(parts), nil
		}
		for m := range n.here {
			allowed[m] = true
			if m == http.MethodGet {
				allowed[http.MethodHead] = true
			}
		}
	}
	sorted := make([]string, 0, len(allowed))
	for m := range allowed {
		sorted = append(sorted, m)
	}
	sort.Strings(sorted)
	return nil, nil, sorted
}

// split is the segments of a path, nil if no route can have it.
func split(escaped string) []string {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok || strings.Count(rest, "/") >= maxSegments {
		return nil
	}
	parts := strings.Split(rest, "/")
	for i, p := range parts {
		text, err := url.PathUnescape(p)
		if err != nil {
			return nil
		}
		parts[i] = text
	}
	return parts
}

func (r *route) values(parts []string) map[string]string {
	values := map[string]string{}
	for i, s := range r.segments {
		if s.param {
			values[s.text] = parts[i]
		}
	}
	return values
}

// at is the bindings of a shape and a method.
func (n *node) at(segments []segment, method string) []*route {
	for _, s := range segments {
		if n = n.next(s); n == nil {
			return nil
		}
	}
	return n.here[method]
}

func (n *node) next(s segment) *node {
	if s.param {
		return n.param
	}
	return n.literal[s.text]
}

func (n *node) add(r *route, depth int) {
	if depth == len(r.segments) {
		if n.here == nil {
			n.here = map[string][]*route{}
		}
		n.here[r.Method] = append(n.here[r.Method], r)
		return
	}
	s := r.segments[depth]
	next := n.next(s)
	switch {
	case next != nil:
	case s.param:
		next = &node{}
		n.param = next
	default:
		next = &node{}
		if n.literal == nil {
			n.literal = map[string]*node{}
		}
		n.literal[s.text] = next
	}
	next.add(r, depth+1)
}

// drop removes a route, and nodes that lead nowhere then.
func (n *node) drop(r *route, depth int) {
	if depth == len(r.segments) {
		rest := slices.DeleteFunc(slices.Clone(n.here[r.Method]), func(other *route) bool { return other == r })
		if n.here[r.Method] = rest; len(rest) == 0 {
			delete(n.here, r.Method)
		}
		return
	}
	s := r.segments[depth]
	next := n.next(s)
	if next.drop(r, depth+1); !next.empty() {
		return
	}
	if s.param {
		n.param = nil
		return
	}
	delete(n.literal, s.text)
}

func (n *node) empty() bool { return len(n.here) == 0 && len(n.literal) == 0 && n.param == nil }

// match appends the nodes that a path leads to, those with literals first. It visits every node at most once.
func (n *node) match(parts []string, found *[]*node) {
	if len(parts) == 0 {
		if len(n.here) > 0 {
			*found = append(*found, n)
		}
		return
	}
	if next := n.literal[parts[0]]; next != nil {
		next.match(parts[1:], found)
	}
	if n.param != nil && parts[0] != "" {
		n.param.match(parts[1:], found)
	}
}
