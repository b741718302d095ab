package registry

import (
	"encoding/json"
	"sort"
	"strings"
	"time"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
)

// Statuses of a worker.
const (
	StatusConnected = "connected"
	StatusAvailable = "available"
	// StatusSuspect is a worker that let two calls in a row time out.
	StatusSuspect = "suspect"
	// StatusAway is a worker that has lost its connection and may come back.
	StatusAway = "away"
)

// Worker is a built-in worker or a connected one.
type Worker struct {
	// ID is the worker id of a connection, the name of a built-in worker.
	ID         string
	Connection string // empty for built-in workers
	// Address is the first connection of the worker: what its calls have as their Connection, also when it has another now.
	Address   string
	Builtin   bool
	Name      string // as announced; may be empty
	Namespace string // empty until it is fixed
	Announced bool
	// The rest of the announce; empty strings if not told.
	Runtime, Version, Description, OS, Isolation string
	PID                                          *int64
	Telemetry                                    json.RawMessage
	Status                                       string
	IP                                           string
	Principal                                    string
	ConnectedAt                                  time.Time
}

// Announcement is what a worker says of itself.
type Announcement struct {
	Runtime, Version, Name, Description, OS, Isolation, Namespace string
	PID                                                           *int64
	Telemetry                                                     json.RawMessage
}

func (r *Registry) builtinWorker(b Builtin, now time.Time) *Worker {
	version := b.Version
	if version == "" {
		version = r.cfg.Version
	}
	return &Worker{
		ID: b.Name, Builtin: true, Name: b.Name, Namespace: bus.DefaultNamespace, Announced: true, Runtime: "engine",
		Version: version, Description: Clean(b.Description), Isolation: "in-process", Status: StatusAvailable, ConnectedAt: now,
	}
}

// builtinKey is the key of a built-in worker. No connection has such an id.
func builtinKey(name string) string { return "\x00" + name }

// Connect adds the worker of a connection.
func (r *Registry) Connect(connection, workerID, ip string, p bus.Principal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[connection] = &Worker{
		ID: workerID, Connection: connection, Address: connection, Status: StatusConnected, IP: ip, Principal: p.ID, ConnectedAt: r.cfg.Clock.Now(),
	}
	r.notify()
}

// Disconnect removes a connection with all its registrations.
func (r *Registry) Disconnect(connection string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[connection]
	if w == nil {
		return
	}
	keys := make([]key, 0, len(r.byConn[connection]))
	for k := range r.byConn[connection] {
		keys = append(keys, k)
	}
	for _, k := range keys {
		r.drop(connection, k)
	}
	delete(r.byConn, connection)
	delete(r.workers, connection)
	r.notify()
}

// FixNamespace sets the namespace of a connection unless it has one, and returns the one it has. fixed reports whether
// it was set now; ok is false for a connection that has gone.
func (r *Registry) FixNamespace(connection, namespace string) (now string, fixed, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[connection]
	if w == nil {
		return "", false, false
	}
	if w.Namespace != "" {
		return w.Namespace, false, true
	}
	next := *w
	next.Namespace = namespace
	r.workers[connection] = &next
	r.notify()
	return namespace, true, true
}

// Announce stores what the worker of a connection says of itself, but for the namespace, and reports whether the
// connection is there.
func (r *Registry) Announce(connection string, a Announcement) bool {
	return r.change(connection, func(w *Worker) {
		w.Announced = true
		w.Runtime, w.Version, w.OS, w.Isolation = a.Runtime, a.Version, a.OS, a.Isolation
		w.Name, w.Description, w.PID, w.Telemetry = Clean(a.Name), Clean(a.Description), a.PID, a.Telemetry
	})
}

// SetStatus changes the status of a connection's worker.
func (r *Registry) SetStatus(connection, status string) {
	r.change(connection, func(w *Worker) { w.Status = status })
}

// change replaces a worker by a changed copy, so that copies given out stay as they are.
func (r *Registry) change(connection string, f func(*Worker)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[connection]
	if w == nil {
		return false
	}
	next := *w
	f(&next)
	r.workers[connection] = &next
	r.notify()
	return true
}

// Worker is the worker of a connection.
func (r *Registry) Worker(connection string) (Worker, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w := r.workers[connection]
	if w == nil {
		return Worker{}, false
	}
	return *w, true
}

// Workers is every worker: by name, then by the time it connected, then by id.
func (r *Registry) Workers() []Worker {
	r.mu.RLock()
	out := make([]Worker, 0, len(r.workers))
	for _, w := range r.workers {
		out = append(out, *w)
	}
	r.mu.RUnlock()
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Name != b.Name:
			return a.Name < b.Name
		case !a.ConnectedAt.Equal(b.ConnectedAt):
			return a.ConnectedAt.Before(b.ConnectedAt)
		}
		return a.ID < b.ID
	})
	return out
}

// maxText is how many characters of a name or a description are kept.
const maxText = 280

// Clean is text without control and direction characters, cut at 280 characters.
func Clean(text string) string {
	n := 0
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			return -1
		}
		if n++; n > maxText {
			return -1
		}
		return c
	}, text)
}
