package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func TestWorkersLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := clock.NewFake(time.UnixMilli(1_780_000_000_000))
	e := Endpoints(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug - 8})), c)
	say := func(level, data string) error {
		t.Helper()
		got, err := e["engine::log::"+level].Handle(t.Context(), &bus.Call{Principal: bus.Principal{ID: "w1"}, Data: json.RawMessage(data)})
		if len(got) != 0 {
			t.Errorf("%s answered %s", level, got)
		}
		return err
	}
	for level, want := range map[string]string{"trace": "DEBUG-4", "debug": "DEBUG", "info": "INFO", "warn": "WARN", "error": "ERROR"} {
		if err := say(level, `{"message":"hello password=hunter2-hunter2","data":{"api_key":"sk-123456789012"},"service_name":"s","trace_id":"t"}`); err != nil {
			t.Fatal(err)
		}
		line := out.String()
		if !strings.Contains(line, "level="+want+" ") || !strings.Contains(line, "hello") || !strings.Contains(line, "principal=w1") ||
			!strings.Contains(line, "service_name=s") || strings.Contains(line, "hunter2") || strings.Contains(line, "sk-123456789012") {
			t.Errorf("%s: %s", level, line)
		}
		out.Reset()
	}
	if err := say("info", `{}`); bus.Code(err) != "deserialization_error" {
		t.Errorf("without a message: %v", err)
	}
	for i := range 2 * logBurst {
		if err := say("info", fmt.Sprintf(`{"message":"line %d %s"}`, i, strings.Repeat("é", logText))); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != logBurst-5 || out.Len() > (logBurst+1)*(logText+200) {
		t.Errorf("%d lines of %d bytes", n, out.Len())
	}
	out.Reset()
	c.Advance(logWindow)
	if err := say("info", `{"message":"again","data":null}`); err != nil || !strings.Contains(out.String(), "left_out=105") {
		t.Errorf("%v: %s", err, out.String())
	}
	l := &lines{log: slog.New(slog.DiscardHandler), clock: c, seen: map[string]*window{}}
	for i := range maxLoggers + 5 {
		l.admit(fmt.Sprint(i))
	}
	if len(l.seen) > maxLoggers {
		t.Errorf("%d principals are kept", len(l.seen))
	}
}

func TestBaggageOfTheBus(t *testing.T) {
	t.Parallel()
	e := Endpoints(slog.New(slog.DiscardHandler), clock.System())
	for _, tt := range []struct{ id, data, want string }{
		{"engine::baggage::get", `{"key":"k"}`, `{"value":null}`},
		{"engine::baggage::set", `{"key":"k","value":"v"}`, `{"success":true,"note":"baggage is set for this call alone: send it in the baggage of your frames"}`},
		{"engine::baggage::get_all", `{}`, `{"baggage":{}}`},
	} {
		got, err := e[tt.id].Handle(t.Context(), &bus.Call{Data: json.RawMessage(tt.data)})
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v", tt.id, got, err)
		}
	}
}
