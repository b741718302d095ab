package trigger_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/cron"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/trigger"
)

// recorded is a frame of a recording.
type recorded struct {
	Conn  string          `json:"conn"`
	Dir   string          `json:"dir"`
	Frame json.RawMessage `json:"frame"`
}

func recording(t *testing.T, name string) []recorded {
	t.Helper()
	file, err := os.Open("../sdk/testdata/frames/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it is only read
	var out []recorded
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if lines.Err() != nil || len(out) == 0 {
		t.Fatal(name, lines.Err())
	}
	return out
}

// TestRecordedRegistrations plays what 10 and 32 register: each is taken or refused as the engine did, by the same text.
func TestRecordedRegistrations(t *testing.T) {
	t.Parallel()
	// Other packages provide these, or nobody does.
	elsewhere := []string{"http", "durable:subscriber", "subscribe", "log", "trace", "configuration", "stream:join", "stream:leave"}
	g := newRig(t)
	jobs, err := cron.New(cron.Config{Firer: g.Dispatcher, Clock: g.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := jobs.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Provide(cron.Description(), jobs); err != nil {
		t.Fatal(err)
	}
	g.available()
	taken, refused := 0, 0
	for _, name := range []string{"10-register-triggers", "32-stream-trigger-panic"} {
		lines := recording(t, name)
		for i, l := range lines {
			if l.Dir != "w>e" {
				continue
			}
			frame, err := protocol.Decode(l.Frame)
			if err != nil {
				t.Fatal(err)
			}
			c := socket(l.Conn, bus.RoleWorker)
			if f, ok := frame.(*protocol.UnregisterTrigger); ok {
				g.Unregister(c, f.ID)
			}
			f, ok := frame.(*protocol.RegisterTrigger)
			if !ok || slices.Contains(elsewhere, f.TriggerType) || protocol.IsBlankNamespace(f.Namespace) || protocol.IsBlankNamespace(f.TriggerNamespace) {
				continue // blank namespaces are the router's
			}
			want := answerTo(t, lines[i:], f.ID)
			if string(f.Config) == "{}" && f.TriggerType == trigger.TypeStream { // it killed the engine's task
				want = &bus.Error{Code: "trigger_registration_failed", Message: "Failed to parse trigger config: missing field `stream_name`"}
			}
			g.attached(c)
			got := bus.AsError(g.Register(t.Context(), c, f))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, l.Frame, diff)
			}
			if got == nil {
				taken++
			} else {
				refused++
			}
		}
	}
	if taken < 14 || refused != 7 {
		t.Errorf("%d were taken and %d refused", taken, refused)
	}
}

// answerTo is the error that follows a registration, before the next frame of the worker.
func answerTo(t *testing.T, lines []recorded, id string) *bus.Error {
	t.Helper()
	for _, l := range lines[1:] {
		switch l.Dir {
		case "w>e":
			return nil
		case "e>w":
			frame, err := protocol.Decode(l.Frame)
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := frame.(*protocol.TriggerRegistrationResult); ok && f.ID == id {
				return f.Error
			}
		}
	}
	return nil
}

// TestRecordedPayloads makes the events of 11 anew: the function gets the same data and metadata.
func TestRecordedPayloads(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.available()
	for _, kind := range []string{"state", "stream", trigger.TypeWorkers} {
		config := map[string]string{"state": `{"scope":"fire"}`, "stream": `{"stream_name":"fire"}`, trigger.TypeWorkers: `{}`}[kind]
		if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"`+kind+`","trigger_type":"`+kind+`","function_id":"ora::on","config":`+config+`,"metadata":{"why":"`+kind+`"}}`); err != nil {
			t.Fatal(err)
		}
	}
	played := map[string]int{}
	for _, l := range recording(t, "11-trigger-fire") {
		if l.Dir != "e>w" {
			continue
		}
		frame, err := protocol.Decode(l.Frame)
		if err != nil {
			t.Fatal(err)
		}
		f, ok := frame.(*protocol.InvokeFunction)
		if !ok || f.FunctionID != "ora::on" {
			continue
		}
		kind := g.again(a, f.Data)
		if kind == "" {
			continue
		}
		played[kind]++
		in := g.calls.next(t)
		if diff := cmp.Diff(decoded(t, f.Data), decoded(t, in.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Data, diff)
		}
		if diff := cmp.Diff(string(f.Metadata), string(in.Metadata)); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
	if played["state"] < 6 || played["stream"] < 5 || played["worker"] != 4 {
		t.Errorf("played %v", played)
	}
}

// again makes the event of a payload; the kind is empty for what other packages provide.
func (g *rig) again(a *trigger.Available, payload json.RawMessage) (kind string) {
	g.t.Helper()
	var p struct {
		Type, Scope, Key    string
		EventType           state.EventType `json:"event_type"`
		Old                 json.RawMessage `json:"old_value"`
		New                 json.RawMessage `json:"new_value"`
		Timestamp           int64
		StreamName, GroupID string
		ID                  *string
		WorkerID            string `json:"worker_id"`
		Event               json.RawMessage
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		g.t.Fatal(err)
	}
	switch {
	case p.WorkerID != "":
		a.WorkerEvent(strings.Trim(string(p.Event), `"`), p.WorkerID)
		return "worker"
	case p.Type == "state":
		c := state.Change{Key: state.Key{Scope: p.Scope, Key: p.Key}, Type: p.EventType, Old: p.Old, New: p.New}
		if err := g.State(g.t.Context(), c); err != nil {
			g.t.Fatal(err)
		}
		return "state"
	case p.Type == "stream":
		var e struct {
			Type        stream.EventKind
			Data, Event json.RawMessage
		}
		if err := json.Unmarshal(p.Event, &e); err != nil {
			g.t.Fatal(err)
		}
		event := stream.Event{Key: stream.Key{Stream: p.StreamName, Group: p.GroupID}, Kind: e.Type, Data: e.Data, At: time.UnixMilli(p.Timestamp)}
		if p.ID != nil {
			event.Item = *p.ID
		}
		if e.Type == stream.Ephemeral {
			event.Data = e.Event
		}
		if err := g.Stream(g.t.Context(), event); err != nil {
			g.t.Fatal(err)
		}
		return "stream"
	}
	return ""
}

func decoded(t *testing.T, text json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
