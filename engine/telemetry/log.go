package telemetry

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/iii-aws/harness/engine/redact"
)

// NewLogger writes redacted lines: text for people, JSON for machines. A line
// made inside a span names its trace.
func NewLogger(w io.Writer, level slog.Level, asJSON bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: redactAttr}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if asJSON {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(logHandler{h})
}

// redactAttr masks every value that is text, and every value under a name that
// promises a secret.
func redactAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(field(a.Key, a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(field(a.Key, v.Error()))
		case *slog.Source, slog.Level:
		default:
			a.Value = slog.StringValue(field(a.Key, slog.AnyValue(v).String()))
		}
	}
	return a
}

// field redacts a value as it would be in an object under its key.
func field(key, value string) string {
	masked := redact.Text(key + "=" + value)
	if prefix := key + "="; len(masked) >= len(prefix) && masked[:len(prefix)] == prefix {
		return masked[len(prefix):]
	}
	return redact.Text(value)
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Message = redact.Text(r.Message)
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(a []slog.Attr) slog.Handler { return logHandler{h.Handler.WithAttrs(a)} }
func (h logHandler) WithGroup(n string) slog.Handler      { return logHandler{h.Handler.WithGroup(n)} }
