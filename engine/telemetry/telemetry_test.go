package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/iii-aws/harness/engine/bus"
)

const canary = "sk-CANARY-7f3a"

func recorder(t *testing.T, env map[string]string) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	opts := Options{Service: "test", Getenv: func(k string) string { return env[k] }}
	opts.Processors = append(opts.Processors, rec)
	tel, err := New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel, rec
}

func attributes(t *testing.T, rec *tracetest.SpanRecorder) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range rec.Ended() {
		for _, a := range s.Attributes() {
			out[s.Name()+" "+string(a.Key)] = a.Value.String()
		}
		for _, e := range s.Events() {
			for _, a := range e.Attributes {
				out[s.Name()+" "+e.Name+" "+string(a.Key)] = a.Value.String()
			}
		}
	}
	return out
}

func TestSpanContinuesTheTraceAndCarriesIDs(t *testing.T) {
	t.Parallel()
	tel, rec := recorder(t, nil)
	inner := tel.Wrap("b::inner", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil })
	outer := tel.Wrap("a::outer", bus.Meta{}, func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
		if bus.CallFrom(ctx) != c {
			t.Error("the context holds another call")
		}
		return inner(context.Background(), &bus.Call{Data: json.RawMessage(`{}`), Traceparent: c.Traceparent, Baggage: c.Baggage})
	})
	_, err := outer(t.Context(), &bus.Call{
		Data:        json.RawMessage(`{"payload":{"session_id":"s1","message_id":"m1"}}`),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Baggage: "k=v",
	})
	if err != nil {
		t.Fatal(err)
	}
	spans := rec.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	for _, s := range spans {
		if s.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || s.SpanKind() != trace.SpanKindServer {
			t.Errorf("span %s is in trace %s, kind %s", s.Name(), s.SpanContext().TraceID(), s.SpanKind())
		}
	}
	if spans[0].Parent().SpanID() != spans[1].SpanContext().SpanID() {
		t.Error("the inner span is no child of the outer one")
	}
	attrs := attributes(t, rec)
	for key, want := range map[string]string{
		"harness.b::inner iii.session.id": "s1", "harness.b::inner iii.message.id": "m1", "harness.b::inner iii.function.id": "b::inner",
		"harness.a::outer iii.function.id": "a::outer",
	} {
		if attrs[key] != want {
			t.Errorf("%s = %q, want %q", key, attrs[key], want)
		}
	}
}

func TestIDsAreTakenFromTheRightPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data string
		want ids
	}{
		{`{"session_id":"a","payload":{"message_id":"x"}}`, ids{"a", ""}},
		{`{"body":{"session_id":"b","message_id":"c"}}`, ids{"b", "c"}},
		{`{"payload":{"session_id":"d"}}`, ids{"d", ""}},
		{`{"session_id":7,"payload":{"session_id":"e"}}`, ids{"e", ""}},
		{`{"session_id":"` + strings.Repeat("x", 129) + `"}`, ids{}},
		{`{"session_id":"a\nb"}`, ids{}},
		{`[]`, ids{}},
		{`{"payload":"text"}`, ids{}},
	} {
		if got := extract(json.RawMessage(tt.data)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.data, got, tt.want)
		}
	}
}

func TestF36NoSecretInSpans(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"default":  nil,
		"recorded": {"III_DISABLE_TRACE_PAYLOADS": "0", "III_TRACE_PAYLOAD_MAX_BYTES": "garbage"},
		"capped":   {"III_DISABLE_TRACE_PAYLOADS": "false", "III_TRACE_PAYLOAD_MAX_BYTES": "20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, rec := recorder(t, env)
			h := tel.Wrap("a::b", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
				return nil, errors.New("upstream said https://x.example/?api_key=" + canary)
			})
			if _, err := h(t.Context(), &bus.Call{Data: json.RawMessage(`{"api_key":"` + canary + `","plain":"ä long text that is cut somewhere"}`)}); err == nil {
				t.Fatal("the error was lost")
			}
			ok := tel.Wrap("a::c", bus.Meta{Sensitive: true}, func(context.Context, *bus.Call) (json.RawMessage, error) {
				return json.RawMessage(`{"key":"` + canary + `"}`), nil
			})
			if _, err := ok(t.Context(), &bus.Call{Data: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
			attrs := attributes(t, rec)
			for k, v := range attrs {
				if strings.Contains(v, canary) {
					t.Errorf("%s holds the secret: %s", k, v)
				}
			}
			_, recorded := attrs["harness.a::b iii.invocation.input iii.payload.json"]
			if recorded != (env != nil) {
				t.Errorf("payload recorded: %v", recorded)
			}
			if _, size := attrs["harness.a::c iii.invocation.output iii.payload.bytes"]; size {
				t.Error("a sensitive result left its size")
			}
			if name == "capped" && !strings.HasSuffix(attrs["harness.a::b iii.invocation.input iii.payload.json"], truncated) {
				t.Error("the payload was not cut")
			}
		})
	}
}

func TestPanicIsRecordedAndRaisedAgain(t *testing.T) {
	t.Parallel()
	tel, rec := recorder(t, nil)
	h := tel.Wrap("a::b", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { panic("token=" + canary) })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = h(t.Context(), &bus.Call{})
	}()
	attrs := attributes(t, rec)
	if attrs["harness.a::b exception exception.type"] != "panic" || strings.Contains(attrs["harness.a::b exception exception.message"], canary) {
		t.Errorf("attributes = %v", attrs)
	}
}

func TestDisabledLeavesHandlersAlone(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no endpoint":  {},
		"switched off": {Endpoint: "http://127.0.0.1:1", Getenv: func(k string) string { return map[string]string{"OTEL_ENABLED": "false"}[k] }},
	} {
		tel, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		call := &bus.Call{Traceparent: "garbage"}
		h := tel.Wrap("a::b", bus.Meta{}, func(_ context.Context, c *bus.Call) (json.RawMessage, error) {
			if c != call {
				t.Errorf("%s: the call was changed", name)
			}
			return nil, nil
		})
		if _, err := h(t.Context(), call); err != nil {
			t.Error(err)
		}
		if err := errors.Join(tel.Flush(t.Context()), tel.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func TestBadBaggageIsNoFailure(t *testing.T) {
	t.Parallel()
	tel, rec := recorder(t, nil)
	h := tel.Wrap("a::b", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil })
	if _, err := h(t.Context(), &bus.Call{Baggage: ";;=,,", Traceparent: "00-zz"}); err != nil || len(rec.Ended()) != 1 {
		t.Errorf("error %v, %d spans", err, len(rec.Ended()))
	}
	if Traceparent(trace.SpanContext{}) != "" {
		t.Error("an empty span context has a traceparent")
	}
}

func TestF36NoSecretInLogs(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		var buf bytes.Buffer
		log := NewLogger(&buf, slog.LevelInfo, asJSON).With("password", canary).WithGroup("g")
		log.Info("called https://x.example/?token="+canary, "error", errors.New("key "+canary), "api_key", canary, "n", 3, "any", struct{ Key string }{canary})
		tel, rec := recorder(t, nil)
		ctx, span := tel.tracer.Start(t.Context(), "x")
		log.InfoContext(ctx, "inside")
		span.End()
		text := buf.String()
		if strings.Contains(text, canary) {
			t.Errorf("the log holds the secret: %s", text)
		}
		if !strings.Contains(text, rec.Ended()[0].SpanContext().TraceID().String()) {
			t.Errorf("the line inside a span does not name its trace: %s", text)
		}
	}
}
