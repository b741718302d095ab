package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
)

func contains(b *buffer, text string) bool { return strings.Contains(b.String(), text) }

func side(ctx context.Context, s *server, path string, header http.Header) (*websocket.Conn, int, error) {
	ws, res, err := websocket.Dial(ctx, strings.TrimSuffix(s.ready.Bus, "/")+path, &websocket.DialOptions{HTTPHeader: header})
	status := 0
	if res != nil {
		status = res.StatusCode
	}
	return ws, status, err
}

// TestChannelEndsAreSockets: what is written on one comes out of the other, and
// a page of another origin may not even try.
func TestChannelEndsAreSockets(t *testing.T) {
	notStrict(t, "channel sockets")
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var ends struct{ Writer, Reader channel.Ref }
	if err := call(ctx, dial(t, s), channel.FunctionCreate, map[string]any{"buffer_size": nil}, &ends); err != nil {
		t.Fatal(err)
	}
	at := func(r channel.Ref) string {
		return channel.SocketPath + r.ChannelID + "?key=" + url.QueryEscape(r.AccessKey) + "&dir=" + string(r.Direction)
	}
	foreign := http.Header{"Origin": {"http://evil.example"}}
	for _, path := range []string{at(ends.Reader), "/otel"} {
		if _, status, err := side(ctx, s, path, foreign); err == nil || status != http.StatusForbidden {
			t.Errorf("%s of a foreign page: %d, %v", path, status, err)
		}
	}
	w, _, err := side(ctx, s, at(ends.Writer), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.CloseNow()
	r, _, err := side(ctx, s, at(ends.Reader), http.Header{"Authorization": {"Bearer whatever"}}) // as the Python SDK does
	if err != nil {
		t.Fatal(err)
	}
	defer r.CloseNow()
	if err := w.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, b, err := r.Read(ctx); err != nil || string(b) != "hello" {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestWorkerShowsItsLatestMetrics: those it sent, on a socket of their own or
// on its own.
func TestWorkerShowsItsLatestMetrics(t *testing.T) {
	notStrict(t, "telemetry socket")
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := dial(t, s)
	var info struct {
		Worker struct {
			ID            string          `json:"id"`
			LatestMetrics json.RawMessage `json:"latest_metrics"`
		} `json:"worker"`
	}
	ask := func() {
		t.Helper()
		for {
			err := call(ctx, c, "engine::workers::info", map[string]string{"name": "test"}, &info)
			if err == nil {
				return
			}
			if bus.Code(err) != "NOT_FOUND" { // it is, until its announce was seen
				t.Fatal(err)
			}
		}
	}
	ask()
	id := info.Worker.ID
	ws, _, err := side(ctx, s, "/otel", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	payload := `MTRC{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"iii.worker.memory.rss","gauge":{"dataPoints":[{"attributes":` +
		`[{"key":"worker.id","value":{"stringValue":"` + id + `"}}],"asInt":"4096"}]}}]}]}]}`
	if err := ws.Write(ctx, websocket.MessageBinary, []byte(payload)); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(string(info.Worker.LatestMetrics), `"memory_rss":4096`) {
		ask()
	}
}

// TestStockReaderGetsPartials: of a provider in this process, and only there.
func TestStockReaderGetsPartials(t *testing.T) {
	t.Parallel()
	notStrict(t, "channels for connections")
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := dial(t, s)
	var ends struct{ Writer, Reader channel.Ref }
	if err := call(ctx, c, channel.FunctionCreate, map[string]any{}, &ends); err != nil {
		t.Fatal(err)
	}
	r, _, err := side(ctx, s, channel.SocketPath+ends.Reader.ChannelID+"?key="+url.QueryEscape(ends.Reader.AccessKey)+"&dir=read", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.CloseNow()
	r.SetReadLimit(-1)
	err = call(ctx, c, "provider::scripted::stream", map[string]any{
		"writer_ref": ends.Writer, "model": "scripted-1", "tools": []any{},
		"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "hello there"}}, "timestamp": 1}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	partial := ""
	for {
		_, b, err := r.Read(ctx)
		if err != nil {
			t.Fatalf("no terminal event: %v", err)
		}
		var e struct {
			Type    string
			Partial *struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if e.Type == "done" {
			break
		}
		if e.Type == "text_delta" {
			if e.Partial == nil || len(e.Partial.Content) != 1 || len(e.Partial.Content[0].Text) <= len(partial) {
				t.Fatalf("a delta behind %q: %s", partial, b)
			}
			partial = e.Partial.Content[0].Text
		}
	}
	if partial != "You said: hello there" {
		t.Errorf("the last partial is %q", partial)
	}
}
