package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

const (
	// logText is how many bytes of a message, and of its data, are logged.
	logText = 4 << 10
	// logBurst lines of one principal are logged in logWindow, the rest is
	// counted.
	logBurst  = 100
	logWindow = time.Second
	// maxLoggers bounds the principals that are told apart.
	maxLoggers = 1000
)

// levels are those of engine::log::*.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

type logRequest struct {
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	TraceID string          `json:"trace_id,omitempty"`
	SpanID  string          `json:"span_id,omitempty"`
	Service string          `json:"service_name,omitempty"`
}

type baggageRequest struct {
	Key string `json:"key"`
}

type baggageSetRequest struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type baggageValue struct {
	Value *string `json:"value"`
}

type baggageSet struct {
	Success bool   `json:"success"`
	Note    string `json:"note"`
}

type baggageAll struct {
	Baggage map[string]string `json:"baggage"`
}

// Endpoints serves engine::log::* and engine::baggage::*. What workers say goes
// to the log with secrets covered, cut, and at most 100 lines a second of one
// principal; how many were left out is said with the next line. The functions
// of baggage see the context of the bus alone, which has none: a caller's own
// baggage travels with its frames.
func Endpoints(log *slog.Logger, c clock.Clock) map[string]bus.Endpoint {
	l := &lines{log: log, clock: c, seen: map[string]*window{}}
	out := map[string]bus.Endpoint{
		"engine::baggage::get": input.Endpoint("engine::baggage::get", func(context.Context, *bus.Call, baggageRequest) (baggageValue, error) {
			return baggageValue{}, nil
		}),
		"engine::baggage::set": input.Endpoint("engine::baggage::set", func(context.Context, *bus.Call, baggageSetRequest) (baggageSet, error) {
			return baggageSet{true, "baggage is set for this call alone: send it in the baggage of your frames"}, nil
		}),
		"engine::baggage::get_all": input.Endpoint("engine::baggage::get_all", func(context.Context, *bus.Call, struct{}) (baggageAll, error) {
			return baggageAll{map[string]string{}}, nil
		}),
	}
	for name, level := range levels {
		id := "engine::log::" + name
		out[id] = input.Endpoint(id, func(ctx context.Context, call *bus.Call, r logRequest) (json.RawMessage, error) {
			if r.Message == "" {
				return nil, protocol.MissingField(id, "message")
			}
			l.add(ctx, level, call, r)
			return nil, nil
		})
	}
	return out
}

// lines is what workers log.
type lines struct {
	log   *slog.Logger
	clock clock.Clock

	mu   sync.Mutex
	seen map[string]*window
}

// window is the lines of one principal since a time.
type window struct {
	since   time.Duration
	n, lost int
}

// admit counts a line; lost is how many were left out before it.
func (l *lines) admit(principal string) (lost int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Monotonic()
	w := l.seen[principal]
	if w == nil {
		if len(l.seen) >= maxLoggers {
			clear(l.seen)
		}
		w = &window{since: now}
		l.seen[principal] = w
	}
	if now-w.since >= logWindow {
		w.since, w.n = now, 0
	}
	if w.n >= logBurst {
		w.lost++
		return 0, false
	}
	w.n++
	lost, w.lost = w.lost, 0
	return lost, true
}

func (l *lines) add(ctx context.Context, level slog.Level, call *bus.Call, r logRequest) {
	lost, ok := l.admit(call.Principal.ID)
	if !ok {
		return
	}
	attrs := []any{"principal", call.Principal.ID}
	for name, value := range map[string]string{"service_name": r.Service, "trace_id": r.TraceID, "span_id": r.SpanID} {
		if value != "" {
			attrs = append(attrs, name, cutText(redact.Text(value)))
		}
	}
	if len(r.Data) > 0 && string(r.Data) != "null" {
		attrs = append(attrs, "data", cutText(string(redact.Telemetry(r.Data))))
	}
	if lost > 0 {
		attrs = append(attrs, "left_out", lost)
	}
	l.log.Log(ctx, level, cutText(redact.Text(r.Message)), attrs...)
}

func cutText(s string) string {
	if len(s) <= logText {
		return s
	}
	return strings.ToValidUTF8(s[:logText], "") + "…"
}
