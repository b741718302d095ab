package viewer

// registry is the subscriptions that this process took and has not seen end.
type registry struct {
	conns    map[string]map[place]Row
	browsers map[string]int
}

func newRegistry() registry {
	return registry{conns: map[string]map[place]Row{}, browsers: map[string]int{}}
}

func (g *registry) add(r Row) {
	rows := g.conns[r.Connection]
	if rows == nil {
		rows = map[place]Row{}
		g.conns[r.Connection] = rows
	}
	if _, ok := rows[r.place()]; !ok {
		g.browsers[r.BrowserID]++
	}
	rows[r.place()] = r
}

// remove forgets a subscription, unless a later one took its place.
func (g *registry) remove(r Row) {
	rows := g.conns[r.Connection]
	if now, ok := rows[r.place()]; !ok || now.ID != r.ID {
		return
	}
	delete(rows, r.place())
	if len(rows) == 0 {
		delete(g.conns, r.Connection)
	}
	if g.browsers[r.BrowserID]--; g.browsers[r.BrowserID] == 0 {
		delete(g.browsers, r.BrowserID)
	}
}

// of is the subscriptions of a connection.
func (g *registry) of(connection string) []Row {
	var out []Row
	for _, r := range g.conns[connection] {
		out = append(out, r)
	}
	return out
}

// Browsers is the number of browsers with a subscription taken by this process.
func (h *Hub) Browsers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs.browsers)
}

const (
	// recentTold is how many announcements are remembered.
	recentTold = 4096
	// recentGone is how many connections may go while one subscription is made.
	recentGone = 1024
)

// recent remembers the last n texts.
type recent struct {
	has  map[string]bool
	ring []string
	next int
}

func newRecent(n int) recent { return recent{has: map[string]bool{}, ring: make([]string, n)} }

// add reports whether the text was not there yet.
func (r *recent) add(s string) bool {
	if r.has[s] {
		return false
	}
	delete(r.has, r.ring[r.next])
	r.ring[r.next], r.has[s] = s, true
	r.next = (r.next + 1) % len(r.ring)
	return true
}
