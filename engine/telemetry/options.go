package telemetry

import (
	"context"
	"fmt"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options configure a Telemetry.
type Options struct {
	Service string
	Version string
	// Endpoint is an OTLP/HTTP URL; empty exports nothing.
	Endpoint string
	// Getenv reads the environment; nil reads nothing.
	Getenv func(string) string
	// Processors see every span, beside the exporter; for tests and stores.
	Processors []sdktrace.SpanProcessor
}

// Telemetry makes spans.
type Telemetry struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil if nothing is recorded
	payloads bool
	maxBytes int
}

// New reads the options. Without an endpoint and processors, and with
// OTEL_ENABLED=false, nothing is recorded and ids still travel.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	env := o.Getenv
	if env == nil {
		env = func(string) string { return "" }
	}
	t := &Telemetry{tracer: noop.NewTracerProvider().Tracer("")}
	if v := env("III_DISABLE_TRACE_PAYLOADS"); v == "0" || v == "false" {
		t.payloads = true
	}
	if n, err := strconv.Atoi(env("III_TRACE_PAYLOAD_MAX_BYTES")); err == nil && n > 0 {
		t.maxBytes = n
	}
	switch env("OTEL_ENABLED") {
	case "false", "0", "no", "off":
		return t, nil
	}
	if o.Endpoint == "" && len(o.Processors) == 0 {
		return t, nil
	}
	opts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))),
		sdktrace.WithSpanProcessor(baggageProcessor{}),
	}
	for _, p := range o.Processors {
		opts = append(opts, sdktrace.WithSpanProcessor(p))
	}
	if o.Endpoint != "" {
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint))
		if err != nil {
			return nil, fmt.Errorf("telemetry: exporter for %s: %w", o.Endpoint, err)
		}
		opts = append(opts, sdktrace.WithBatcher(exporter))
	}
	t.provider = sdktrace.NewTracerProvider(opts...)
	t.tracer = t.provider.Tracer("github.com/iii-aws/harness", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// Flush exports what has ended.
func (t *Telemetry) Flush(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.ForceFlush(ctx)
}

// Close flushes and ends.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
