package viewer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// FrameBytes bounds the data of a push that carries more than one event.
const FrameBytes = 30 << 10

const (
	// casTries bounds conditional writes that lose to others.
	casTries = 5
	// readItems and readBytes bound one read of the log.
	readItems, readBytes = 256, 64 << 10
)

// Deps is what a Hub works with. All are required but Logger and Alarm.
type Deps struct {
	State  state.Store
	Stream stream.Store
	Blobs  blob.Store
	Poster bus.Poster
	Clock  clock.Clock
	IDs    clock.IDs
	Logger *slog.Logger
	// Alarm is called for what a person must see.
	Alarm func(name string)
	Config
}

// Config bounds a Hub. Zero values take the defaults named.
type Config struct {
	// RowTTL is how long a subscription lasts after it was last written; 7 days.
	RowTTL time.Duration
	// FlushLimit is how long the end of a step waits for its viewers; 2 s.
	FlushLimit time.Duration
	// ReplayLimit is how long a subscription's call replays; what is left goes
	// on behind it; 10 s.
	ReplayLimit time.Duration
	// RegisterGrace is how long a connection that has subscribed may take to
	// register the functions that are called; 6 s. (The bus holds registrations
	// back until it knows the connection's namespace, but no calls.)
	RegisterGrace time.Duration
	// Retries is how often a post that failed for no final reason is repeated
	// before the viewer waits for the next event; 12.
	Retries int
	// Alone: every step and every subscription of the data is of this Hub, so
	// that rows need not be read again to see those of others.
	Alone bool
	// Freezes: the process may stop as soon as a call has returned, so that
	// nothing may be left to the background.
	Freezes bool
	// Elsewhere reports whether a step of another process holds the turn of a
	// session; nil if there is no other process.
	Elsewhere func(ctx context.Context, session string) (bool, error)
}

// Hub knows the viewers that this process serves. It is safe for concurrent
// use.
type Hub struct {
	Deps
	// base ends with the hub.
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	// mu guards what follows. It may be taken while a session's is held.
	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	conns    map[string]*conn
	changing map[place]chan struct{}
	subs     registry
	told     recent
	// gone are the connections that were forgotten.
	gone recent
}

// place is where a row is stored.
type place struct{ scope, key string }

func (r Row) place() place { return place{r.scope(), r.key()} }

// New checks the dependencies. Close ends the hub.
func New(d Deps) (*Hub, error) {
	for name, missing := range map[string]bool{
		"State": d.State == nil, "Stream": d.Stream == nil, "Blobs": d.Blobs == nil, "Poster": d.Poster == nil,
		"Clock": d.Clock == nil, "IDs": d.IDs == nil,
	} {
		if missing {
			return nil, errors.New("viewer: Deps." + name + " is required")
		}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Alarm == nil {
		d.Alarm = func(string) {}
	}
	d.RowTTL = cmp.Or(d.RowTTL, 7*24*time.Hour)
	d.FlushLimit = cmp.Or(d.FlushLimit, 2*time.Second)
	d.ReplayLimit = cmp.Or(d.ReplayLimit, 10*time.Second)
	d.RegisterGrace = cmp.Or(d.RegisterGrace, 6*time.Second)
	d.Retries = cmp.Or(d.Retries, 12)
	h := &Hub{
		Deps: d, sessions: map[string]*session{}, conns: map[string]*conn{}, changing: map[place]chan struct{}{},
		subs: newRegistry(), told: newRecent(recentTold), gone: newRecent(recentGone),
	}
	h.base, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// Close stops all pumps and waits for them as long as ctx lets it. What was not
// posted stays owed: the rows say so.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	done := make(chan struct{})
	go func() {
		h.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start runs f beside; it reports false if the hub was closed. A panic of f
// ends f alone.
func (h *Hub) start(what string, f func()) bool {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	h.wg.Add(1)
	h.mu.Unlock()
	go func() {
		defer h.wg.Done()
		defer h.contain(what)
		f()
	}()
	return true
}

func (h *Hub) contain(what string) {
	if v := recover(); v != nil {
		h.alarm("viewer_panic", "viewer panicked", "where", what, "panic", v)
	}
}

func (h *Hub) alarm(name, text string, attrs ...any) {
	h.Logger.Error(text, append([]any{"alarm", name}, attrs...)...)
	h.Alarm(name)
}

// acquire is the session's state in memory, which stays until as many
// releases.
func (h *Hub) acquire(id string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	if s == nil {
		s = newSession(h, id)
		h.sessions[id] = s
	}
	s.users++
	return s
}

func (h *Hub) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(h.sessions, s.id)
	}
}

// hold keeps a session that is held already.
func (h *Hub) hold(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users++
}

// live is the session's state in memory, nil if nobody works on it.
func (h *Hub) live(id string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		s.users++
		return s
	}
	return nil
}

// limit is a context that also ends after d on the hub's clock.
func (h *Hub) limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t := h.Clock.NewTimer(d)
	go func() {
		select {
		case <-t.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		t.Stop()
		cancel()
	}
}
