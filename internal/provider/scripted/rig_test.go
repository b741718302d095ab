package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
)

// rig runs the provider over a real channel.
type rig struct {
	t        *testing.T
	provider *Provider
	channels *channel.Local
	clock    *clock.Fake
}

func newRig(t *testing.T, rules string) *rig {
	t.Helper()
	c := clock.NewFake(time.UnixMilli(1_780_000_000_000))
	r := &rig{t: t, clock: c, channels: channel.NewLocal(c, clock.Sequence(1))}
	d := Deps{Channels: r.channels, Clock: c, Logger: slog.New(slog.DiscardHandler)}
	if rules != "" {
		parsed, err := ParseRules("test.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		d.Rules = &parsed
	}
	var err error
	if r.provider, err = New(d); err != nil {
		t.Fatal(err)
	}
	return r
}

func request(messages ...agent.Message) provider.Request {
	return provider.Request{Model: Model, Messages: messages}
}

func result(call, function, text string, isError bool) agent.Message {
	return agent.Message{Role: agent.RoleFunctionResult, FunctionCallID: call, FunctionID: function, Content: []agent.Block{agent.Text(text)}, IsError: isError}
}

func called() agent.Message { return agent.EmptyAssistant(Name, Model, 1) }

// stream calls the stream function and gives its events, as they came.
func (r *rig) stream(ctx context.Context, req provider.Request) (events []agent.LLMEvent, raw []string, err error) {
	r.t.Helper()
	w, rd, err := r.channels.Create(r.t.Context(), 1024)
	if err != nil {
		r.t.Fatal(err)
	}
	req.WriterRef = &w
	reader, err := r.channels.OpenReader(rd)
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := bus.Encode(req)
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		out, err := r.provider.Endpoints()["provider::scripted::stream"].Handle(ctx, &bus.Call{Data: data})
		if err == nil && string(out) != `{"ok":true}` {
			err = fmt.Errorf("answer %s", out)
		}
		done <- err
	}()
	for {
		m, rerr := reader.Read(r.t.Context())
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			r.t.Fatal(rerr)
		}
		var e agent.LLMEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			r.t.Fatal(err)
		}
		events, raw = append(events, e), append(raw, string(m.Data))
	}
	return events, raw, <-done
}

// final is the message that the stream ended with.
func (r *rig) final(req provider.Request) agent.Message {
	r.t.Helper()
	events, _, err := r.stream(r.t.Context(), req)
	if err != nil || len(events) == 0 {
		r.t.Fatalf("%d events, %v", len(events), err)
	}
	last := events[len(events)-1]
	switch {
	case last.Type == agent.LLMDone && last.Message != nil:
		return *last.Message
	case last.Type == agent.LLMError && last.Err != nil:
		return *last.Err
	}
	r.t.Fatalf("the stream ended with %+v", last)
	return agent.Message{}
}

const quick = `
rules:
  - when: '\btime\b'
    calls: [{function: "demo::time", payload: {zone: "UTC"}}]
    say: "It is {result}."
  - when: 'files'
    calls: [{function: "shell::fs::ls", payload: {path: "."}}]
  - when: '^run (.+)$'
    calls: [{function: "shell::exec", payload: {command: "$1", deep: [{x: "$1"}], n: 7}}]
    then: [[{function: "demo::time"}], [{function: "a::b"}, {function: "c::d"}]]
  - when: '^think (.+)$'
    think: "about $1"
    say: "$1, thought"
  - when: '^slow$'
    delay: 100ms
    say: "one two three"
`

func has(events []agent.LLMEvent, kind string) bool {
	for _, e := range events {
		if e.Type == kind {
			return true
		}
	}
	return false
}
