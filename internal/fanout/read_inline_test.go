package fanout

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
)

// file has shell::fs::read answer with a channel that gives the pieces.
func (f *fixture) file(size int, pieces ...string) {
	f.t.Helper()
	wref, rref, err := f.Channels.Create(f.t.Context(), len(pieces)+1)
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := f.Channels.OpenWriter(wref)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range pieces {
		if err := w.Write(f.t.Context(), channel.Message{Data: []byte(p), Binary: true}); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.t.Fatal(err)
	}
	answer, err := json.Marshal(map[string]any{"content": rref, "size": size})
	if err != nil {
		f.t.Fatal(err)
	}
	f.bus.answer = string(answer)
}

func (f *fixture) read(data string) (string, error) {
	out, err := f.Endpoints()[FunctionReadInline].Handle(f.t.Context(), &bus.Call{Data: json.RawMessage(data)})
	return string(out), err
}

func TestA41ReadInline(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", defaultInline)
	for _, tt := range []struct {
		name, request string
		size          int
		pieces        []string
		text          string
		details       string
	}{
		{"whole", `{"path":"a"}`, 5, []string{"al", "pha"}, "alpha", `{"size":5,"truncated":false,"bytes_read":5}`},
		{"empty", `{"path":"a"}`, 0, nil, "", `{"size":0,"truncated":false,"bytes_read":0}`},
		{"default cap", `{"path":"a"}`, defaultInline + 5, []string{long, "more!"}, long, `{"size":262149,"truncated":true,"bytes_read":262144}`},
		{"default cap for 0", `{"path":"a","max_bytes":0}`, defaultInline, []string{long}, long, `{"size":262144,"truncated":false,"bytes_read":262144}`},
		{"default cap for less", `{"path":"a","max_bytes":-7}`, 1, []string{"x"}, "x", `{"size":1,"truncated":false,"bytes_read":1}`},
		{"own cap", `{"path":"a","max_bytes":3}`, 5, []string{"alpha"}, "alp", `{"size":5,"truncated":true,"bytes_read":3}`},
		{"cut character", `{"path":"a","max_bytes":3}`, 4, []string{"aé€"}, "aé", `{"size":4,"truncated":true,"bytes_read":3}`},
		{"cut inside a character", `{"path":"a","max_bytes":4}`, 6, []string{"aé€"}, "aé", `{"size":6,"truncated":true,"bytes_read":4}`},
		{"binary", `{"path":"a"}`, 3, []string{"a\xff\x00"}, "<binary 3 bytes>", `{"size":3,"truncated":false,"bytes_read":3}`},
		{"broken end of a whole file", `{"path":"a"}`, 2, []string{"a\xe2"}, "<binary 2 bytes>", `{"size":2,"truncated":false,"bytes_read":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.file(tt.size, tt.pieces...)
			text, err := json.Marshal(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"content":[{"type":"text","text":` + string(text) + `}],"details":` + tt.details + `,"terminate":false}`
			if tt.name == "binary" || strings.HasPrefix(tt.name, "broken") {
				want = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(want)
			}
			got, err := f.read(tt.request)
			if err != nil || got != want {
				t.Errorf("%.300s, %v\nwant %.300s", got, err, want)
			}
			if in := f.bus.calls[0]; in.FunctionID != "shell::fs::read" || string(in.Data) != `{"path":"a"}` || in.Timeout != readFor {
				t.Errorf("called %+v", in)
			}
		})
	}
}

func TestReadInlineFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, bad := range []string{`{}`, `{"path":""}`, `{"path":"a","max_bytes":16777217}`, `{"path":1}`} {
		if _, err := f.read(bad); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, answer := range []string{`{}`, `[]`, `null`, `{"content":{"channel_id":"x"},"size":"1"}`, `{"size":1}`,
		`{"size":1,"content":{"channel_id":"none","access_key":"k","direction":"read"}}`} {
		f.bus.answer = answer
		if _, err := f.read(`{"path":"a"}`); bus.Code(err) != "read_failed" {
			t.Errorf("%s: %v", answer, err)
		}
	}
	f.bus.err = &bus.Error{Code: "S202", Message: "gone"}
	if _, err := f.read(`{"path":"a"}`); bus.Code(err) != "S202" {
		t.Errorf("its error: %v", err)
	}
	f.bus.err = nil
	// The writer goes silent, and the caller gives up.
	_, rref, err := f.Channels.Create(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"content": rref, "size": 1})
	if err != nil {
		t.Fatal(err)
	}
	f.bus.answer = string(raw)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Endpoints()[FunctionReadInline].Handle(ctx, &bus.Call{Data: json.RawMessage(`{"path":"a"}`)}); bus.Code(err) != "read_failed" {
		t.Errorf("after the caller: %v", err)
	}
}
