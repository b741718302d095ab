package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/clock"
)

func newCollector(t *testing.T, change ...func(*Config)) (*Collector, *clock.Fake) {
	t.Helper()
	c := clock.NewFake(time.UnixMilli(1_780_000_000_000))
	cfg := Config{Clock: c}
	for _, f := range change {
		f(&cfg)
	}
	col := NewCollector(cfg)
	t.Cleanup(func() {
		if err := col.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return col, c
}

func metric(worker, name, value string) string {
	return fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[]},"scopeMetrics":[{"scope":{"name":"s"},"metrics":[`+
		`{"name":%q,"gauge":{"dataPoints":[{"attributes":[{"key":"worker.id","value":{"stringValue":%q}}],%s}]}}]}]}]}`, name, worker, value)
}

func TestGaugesOfTheLastTwoMinutes(t *testing.T) {
	t.Parallel()
	c, now := newCollector(t)
	c.Receive("", Metrics, []byte(metric("w1", "iii.worker.memory.rss", `"asInt":"1048576"`)))
	c.Receive("", Metrics, []byte(metric("w1", "iii.worker.cpu.percent", `"asDouble":2.5`)))
	c.Receive("", Metrics, []byte(metric("w1", "iii.worker.cpu.percent", `"asDouble":3.5`)))
	c.Receive("", Metrics, []byte(metric("w1", "other.gauge", `"asInt":7`)))
	c.Receive("", Metrics, []byte(metric("", "iii.worker.cpu.percent", `"asInt":7`)))
	c.Receive("w2", Metrics, []byte(metric("w1", "iii.worker.uptime_seconds", `"asInt":9`))) // a worker speaks for itself alone
	c.Receive("", Metrics, []byte(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"worker.id","value":{"stringValue":"w3"}}]},
		"scopeMetrics":[{"metrics":[{"name":"iii.worker.cpu.percent","gauge":{"dataPoints":[{"asDouble":1},{"asInt":"x"},{}]}},{"name":"iii.worker.sum","sum":{}}]}]}]}`))
	for worker, want := range map[string]string{
		"w1": `{"cpu_percent":3.5,"memory_rss":1048576,"timestamp_ms":1780000000000}`,
		"w2": `{"timestamp_ms":1780000000000,"uptime_seconds":9}`,
		"w3": `{"cpu_percent":1,"timestamp_ms":1780000000000}`,
		"w4": ``,
	} {
		if got := string(c.Latest(worker)); got != want {
			t.Errorf("%s: %s, want %s", worker, got, want)
		}
	}
	now.Advance(freshFor + time.Second)
	if got := c.Latest("w1"); got != nil {
		t.Errorf("after two minutes: %s", got)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	c, now := newCollector(t)
	for i := range maxWorkers + 5 {
		c.Receive("", Metrics, []byte(metric(fmt.Sprint("w", i), "iii.worker.cpu.percent", `"asInt":1`)))
	}
	for i := range maxNames + 5 {
		c.Receive("w0", Metrics, []byte(metric("", fmt.Sprint("iii.worker.x", i), `"asInt":1`)))
	}
	if len(c.workers) != maxWorkers || len(c.workers["w0"].values) != maxNames {
		t.Errorf("%d workers, %d names", len(c.workers), len(c.workers["w0"].values))
	}
	now.Advance(freshFor + time.Second)
	c.Receive("", Metrics, []byte(metric("new", "iii.worker.cpu.percent", `"asInt":1`)))
	if len(c.workers) != 1 || c.Latest("new") == nil {
		t.Errorf("%d workers are kept", len(c.workers))
	}
}

func TestWhatCannotBeReadIsDropped(t *testing.T) {
	t.Parallel()
	c, _ := newCollector(t)
	for _, tt := range []struct {
		kind    Kind
		payload string
	}{
		{Spans, ``}, {Spans, `{}`}, {Spans, `{"resourceSpans":7}`}, {Spans, `{"resourceMetrics":[]}`}, {Metrics, `[]`},
		{Metrics, `{"resourceMetrics":[7]}`}, {Logs, `{"resourceLogs":{}}`}, {Logs, strings.Repeat("x", MaxMessage+1)},
	} {
		var d *DecodeError
		if err := c.receive("", tt.kind, []byte(tt.payload)); !errors.As(err, &d) || d.Kind != tt.kind || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s %.30s: error = %v", tt.kind, tt.payload, err)
		}
	}
	for _, ok := range []string{`{"resourceLogs":[]}`, `{"resourceLogs":[{"any":1}],"more":2}`} {
		if err := c.receive("", Logs, []byte(ok)); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

// TestRecording24Socket: binary frames count, text is ignored, pings are
// answered, and nothing that is sent ends the socket but what is too large.
func TestRecording24Socket(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(b)
	}))
	t.Cleanup(sink.Close)
	f, err := NewForwarder(sink.URL, sink.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	c, _ := newCollector(t, func(cfg *Config) {
		cfg.Forward = f
		cfg.Admit = func(r *http.Request) (int, error) {
			if r.Header.Get("Origin") != "" {
				return http.StatusForbidden, errors.New("foreign")
			}
			return 0, nil
		}
	})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	url := "ws" + strings.TrimPrefix(server.URL, "http")
	if _, res, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}}); err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page: %v", err)
	}
	ws, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	send := func(typ websocket.MessageType, data string) {
		t.Helper()
		if err := ws.Write(t.Context(), typ, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	send(websocket.MessageText, `{"type":"ping"}`)
	for _, data := range []string{`OTLP{"resourceSpans":[]`, "LOGS", "abc", "XXXX{}", `LOGS{"resourceLogs":[]}`, "MTRC" + metric("w1", "iii.worker.cpu.percent", `"asInt":1`)} {
		send(websocket.MessageBinary, data)
	}
	send(websocket.MessageBinary, `OTLP{"resourceSpans":[{"attributes":[{"key":"password","value":{"stringValue":"hunter2-hunter2"}}]}]}`)
	ctx := ws.CloseRead(t.Context())
	if err := ws.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if b := <-got; !strings.HasPrefix(b, "/v1/traces application/json {") || strings.Contains(b, "hunter2") {
		t.Errorf("forwarded %s", b)
	}
	if c.Latest("w1") == nil {
		t.Error("the gauge before it was not kept")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, res, err := websocket.Dial(t.Context(), url, nil); err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

func TestForwarderDropsTheOldest(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 200), make(chan struct{})
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-release
		w.WriteHeader(http.StatusInternalServerError)
	}))
	f, err := NewForwarder(sink.URL+"/custom", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Send([]byte(`{"n":0}`))
	<-entered
	for i := range maxWaiting + 10 {
		f.Send(fmt.Appendf(nil, `{"n":%d}`, i))
	}
	if n := f.Dropped(); n != 10 {
		t.Errorf("%d dropped, want 10", n)
	}
	close(release)
	<-entered // the first has failed
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	sink.Close()
	if n := f.Dropped(); n < 11 {
		t.Errorf("%d dropped: what the collector refuses is lost", n)
	}
	for _, bad := range []string{"", "localhost:4318", "ftp://x", "http://", "://"} {
		if _, err := NewForwarder(bad, nil, nil); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// FuzzReceive: no payload ends the collector, whatever it says it is.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("OTLP{\"resourceSpans\":[]}"))
	f.Add([]byte("LOGS{\"resourceLogs\":[]}"))
	f.Add([]byte("MTRC" + metric("w", "iii.worker.a.b", `"asInt":"5"`)))
	f.Add([]byte(`MTRC{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"iii.worker.x","gauge":{"dataPoints":[{"asDouble":1e308}]}}]}]}]}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		c := NewCollector(Config{Clock: clock.System()})
		kind, payload, ok := Split(frame)
		if !ok {
			return
		}
		c.Receive("w", kind, payload)
		if b := c.Latest("w"); b != nil && b[0] != '{' {
			t.Fatalf("latest %s", b)
		}
	})
}
