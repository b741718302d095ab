package otlp

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/lifetime"
)

const (
	// freshFor is how long a gauge is the latest.
	freshFor = 2 * time.Minute
	// maxWorkers and maxNames bound what is kept.
	maxWorkers = 10_000
	maxNames   = 64
)

// Config is what a Collector needs.
type Config struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Forward takes spans; nil drops them.
	Forward *Forwarder
	// Admit refuses requests for the socket; nil admits all.
	Admit func(*http.Request) (status int, err error)
}

// Collector takes telemetry. It is safe for concurrent use.
type Collector struct {
	cfg  Config
	life *lifetime.Lifetime

	mu      sync.Mutex
	workers map[string]*latest
}

// latest is the gauges of a worker.
type latest struct {
	at     time.Duration
	wall   int64
	values map[string]float64
}

// NewCollector makes a Collector. Close it when done.
func NewCollector(cfg Config) *Collector {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Collector{cfg: cfg, life: lifetime.New(), workers: map[string]*latest{}}
}

// Receive takes a payload. Worker is who sent it, empty on a socket of its own.
func (c *Collector) Receive(worker string, kind Kind, payload []byte) {
	if err := c.receive(worker, kind, payload); err != nil {
		c.cfg.Logger.Debug("telemetry dropped", "worker_id", worker, "error", err)
	}
}

func (c *Collector) receive(worker string, kind Kind, payload []byte) error {
	if err := check(kind, payload); err != nil {
		return err
	}
	switch kind {
	case Spans:
		if c.cfg.Forward != nil {
			c.cfg.Forward.Send(payload)
		}
	case Metrics:
		list, err := gauges(payload)
		if err != nil {
			return err
		}
		c.keep(worker, list)
	}
	return nil
}

func (c *Collector) keep(sender string, list []gauge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Monotonic()
	for _, g := range list {
		id := g.worker
		if sender != "" {
			id = sender
		}
		if id == "" {
			continue
		}
		w := c.workers[id]
		if w == nil {
			if len(c.workers) >= maxWorkers {
				c.forget(now)
			}
			if len(c.workers) >= maxWorkers {
				continue
			}
			w = &latest{values: map[string]float64{}}
			c.workers[id] = w
		}
		if _, known := w.values[g.name]; !known && len(w.values) >= maxNames {
			continue
		}
		w.at, w.wall = now, clock.Millis(c.cfg.Clock.Now())
		w.values[g.name] = g.value
	}
}

// forget drops what is no longer the latest. With the lock.
func (c *Collector) forget(now time.Duration) {
	maps.DeleteFunc(c.workers, func(_ string, w *latest) bool { return now-w.at > freshFor })
}

// Latest is the gauges of a worker of the last two minutes, as {name: value,
// timestamp_ms}: the names are without iii.worker and with _ for the dots. Nil
// if there are none.
func (c *Collector) Latest(worker string) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(c.cfg.Clock.Monotonic())
	w := c.workers[worker]
	if w == nil {
		return nil
	}
	out := map[string]any{"timestamp_ms": w.wall}
	for name, v := range w.values {
		out[name] = v
	}
	b, err := bus.Encode(out)
	if err != nil { // a number that JSON does not have cannot come in as JSON
		return nil
	}
	return b
}

// ServeHTTP serves /otel.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.life.Begin() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	defer c.life.End()
	if c.cfg.Admit != nil {
		if status, err := c.cfg.Admit(r); err != nil {
			c.cfg.Logger.Warn("telemetry refused", "remote", r.RemoteAddr, "status", status, "reason", err)
			http.Error(w, http.StatusText(status), status)
			return
		}
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		c.cfg.Logger.Debug("telemetry socket not upgraded", "remote", r.RemoteAddr, "error", err)
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(MaxMessage + 4)
	for {
		typ, data, err := ws.Read(c.life.Context())
		if err != nil {
			return // closed, lost, or too large
		}
		if typ != websocket.MessageBinary {
			continue
		}
		if kind, payload, ok := Split(data); ok {
			c.Receive("", kind, payload)
		}
	}
}

// Close cuts every socket and waits for their end until ctx ends.
func (c *Collector) Close(ctx context.Context) error { return c.life.Close(ctx) }
