package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
)

const truncated = `..."[TRUNCATED]"`

var propagator = propagation.TraceContext{}

// Wrap gives a function its span.
func (t *Telemetry) Wrap(functionID string, meta bus.Meta, h bus.Handler) bus.Handler {
	if t.provider == nil {
		return h
	}
	return func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
		ctx = propagator.Extract(ctx, propagation.MapCarrier{"traceparent": call.Traceparent})
		b, err := baggage.Parse(call.Baggage)
		if err != nil {
			b = baggage.Baggage{} // a foreign caller's baggage is not worth a failure
		}
		b = withIDs(b, functionID, extract(call.Data))
		ctx = baggage.ContextWithBaggage(ctx, b)
		ctx, span := t.tracer.Start(ctx, "harness."+functionID, trace.WithSpanKind(trace.SpanKindServer))
		// Not deferred itself: End would recover a panic and record its
		// value as it is, secrets included.
		defer func() { span.End() }()

		c := *call
		c.Traceparent, c.Baggage = Traceparent(span.SpanContext()), b.String()
		t.input(span, meta, call.Data)
		defer func() {
			if p := recover(); p != nil {
				exception(span, "panic", redact.Panic(p), string(debug.Stack()))
				panic(p)
			}
		}()
		out, err := h(bus.WithCall(ctx, &c), &c)
		t.output(span, meta, out, err)
		return out, err
	}
}

// Traceparent is the W3C form of a span context, empty if it is not valid.
func Traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%02x", sc.TraceID(), sc.SpanID(), byte(sc.TraceFlags()))
}

func (t *Telemetry) input(span trace.Span, meta bus.Meta, data json.RawMessage) {
	span.AddEvent("iii.invocation.input", trace.WithAttributes(t.payload(meta, data)...))
}

func (t *Telemetry) output(span trace.Span, meta bus.Meta, out json.RawMessage, err error) {
	if err == nil {
		span.AddEvent("iii.invocation.output", trace.WithAttributes(append(t.payload(meta, out), attribute.Bool("iii.payload.ok", true))...))
		return
	}
	text := redact.Text(err.Error())
	exception(span, bus.Code(err), text, "")
	body, merr := bus.Encode(map[string]string{"error": text})
	if merr != nil {
		return
	}
	span.AddEvent("iii.invocation.output", trace.WithAttributes(append(t.payload(meta, body), attribute.Bool("iii.payload.ok", false))...))
}

func exception(span trace.Span, kind, text, stack string) {
	attrs := []attribute.KeyValue{attribute.String("exception.type", kind), attribute.String("exception.message", text)}
	if stack != "" {
		attrs = append(attrs, attribute.String("exception.stacktrace", redact.Text(stack)))
	}
	span.AddEvent("exception", trace.WithAttributes(attrs...))
	span.SetStatus(codes.Error, text)
}

// payload describes a payload: its size and hash, or, where payloads are
// recorded, its redacted text.
func (t *Telemetry) payload(meta bus.Meta, data json.RawMessage) []attribute.KeyValue {
	if meta.Sensitive {
		return []attribute.KeyValue{attribute.Bool("iii.payload.sensitive", true)}
	}
	sum := sha256.Sum256(data)
	attrs := []attribute.KeyValue{
		attribute.Int("iii.payload.bytes", len(data)),
		attribute.String("iii.payload.sha256", hex.EncodeToString(sum[:8])),
	}
	if !t.payloads {
		return attrs
	}
	text := string(redact.Telemetry(data))
	cut := t.maxBytes > 0 && len(text) > t.maxBytes
	if cut {
		n := t.maxBytes
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + truncated
	}
	return append(attrs, attribute.String("iii.payload.json", text), attribute.Bool("iii.payload.truncated", cut))
}
