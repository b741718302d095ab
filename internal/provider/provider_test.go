package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/agent"
)

// bench serves a streamer and reads what it writes.
type bench struct {
	t         *testing.T
	channels  *channel.Local
	log       bytes.Buffer
	endpoints map[string]bus.Endpoint
}

func newBench(t *testing.T, s Streamer) *bench {
	t.Helper()
	c := clock.NewFake(time.UnixMilli(1780000001000))
	b := &bench{t: t, channels: channel.NewLocal(c, clock.Sequence(1))}
	b.endpoints = Endpoints(Deps{Name: "test", Channels: b.channels, Clock: c, Logger: slog.New(slog.NewTextHandler(&b.log, nil))}, s)
	return b
}

func (b *bench) handle(ctx context.Context, id, members string) (string, error) {
	out, err := b.endpoints[id].Handle(ctx, &bus.Call{Data: json.RawMessage(`{"model":"m","messages":[{"role":"user","content":"hi"}]` + members + `}`)})
	return string(out), err
}

func (b *bench) complete() (string, error) {
	return b.handle(b.t.Context(), "provider::test::complete", "")
}

// open makes a channel and gives the member that names its writer.
func (b *bench) open(buffer int) (channel.Reader, string) {
	b.t.Helper()
	wref, rref, err := b.channels.Create(b.t.Context(), buffer)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.channels.OpenReader(rref)
	if err != nil {
		b.t.Fatal(err)
	}
	ref, err := json.Marshal(wref)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, `,"writer_ref":` + string(ref)
}

// stream runs the stream function and reads its channel to the end.
func (b *bench) stream() (events []string, answer string, err error) {
	b.t.Helper()
	r, member := b.open(channel.MaxBuffer)
	answer, err = b.handle(b.t.Context(), "provider::test::stream", member)
	return b.drain(r), answer, err
}

func (b *bench) drain(r channel.Reader) (events []string) {
	b.t.Helper()
	for {
		m, err := r.Read(b.t.Context())
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			b.t.Fatalf("the channel was not closed: %v", err)
		}
		if m.Binary {
			b.t.Error("an event came as binary")
		}
		events = append(events, string(m.Data))
	}
}

// says is a streamer that emits events and returns an error.
func says(err error, events ...agent.LLMEvent) Streamer {
	return func(_ context.Context, _ Request, emit Emit) error {
		for _, e := range events {
			if err := emit(e); err != nil {
				return err
			}
		}
		return err
	}
}

var (
	start = agent.LLMEvent{Type: agent.LLMStart}
	hel   = agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "Hel"}
	lo    = agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "lo"}
	done  = agent.LLMEvent{Type: agent.LLMDone}
)

const (
	hello  = `{"role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end","error_message":null,"error_kind":null,"usage":null,"model":"m","provider":"test","timestamp":1780000001000}`
	broken = `{"role":"assistant","content":[{"type":"text","text":"Hel"}],"stop_reason":"error","error_message":"connection reset","error_kind":"transient","usage":null,"model":"m","provider":"test","timestamp":1780000001000}`
	silent = `{"role":"assistant","content":[{"type":"text","text":"channel closed without final"}],"stop_reason":"error","error_message":"channel closed without final","error_kind":"transient","usage":null,"model":"m","provider":"test","timestamp":1780000001000}`
	cut    = `{"role":"assistant","content":[{"type":"text","text":"Hel"}],"stop_reason":"error","error_message":"channel closed without final","error_kind":"transient","usage":null,"model":"m","provider":"test","timestamp":1780000001000}`
)

func TestStreamAndCompleteTellTheSame(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	coded := &bus.Error{Code: "credential_missing", Message: "no key"}
	s, h, l := `{"type":"start"}`, `{"type":"text_delta","delta":"Hel"}`, `{"type":"text_delta","delta":"lo"}`
	for _, tt := range []struct {
		name     string
		stream   Streamer
		events   []string
		complete string
		err      error
	}{
		{name: "done", stream: says(nil, start, hel, lo, done), events: []string{s, h, l, `{"type":"done"}`}, complete: hello},
		{name: "a failure before the first event", stream: says(coded), err: coded},
		{name: "a failure after it", stream: says(reset, start, hel), events: []string{s, h, `{"type":"error","error":` + broken + `}`}, complete: broken},
		{name: "a failure after the terminal event", stream: says(reset, start, hel, lo, done), events: []string{s, h, l, `{"type":"done"}`}, complete: hello},
		{name: "no terminal event by mistake", stream: says(nil, start, hel), events: []string{s, h, `{"type":"error","error":` + cut + `}`}, complete: cut},
		{name: "no event at all by mistake", stream: says(nil), events: []string{`{"type":"error","error":` + silent + `}`}, complete: silent},
		{name: "no terminal event on purpose", stream: says(ErrNoFinal, start, hel), events: []string{s, h}, complete: cut},
		{name: "no event at all on purpose", stream: says(ErrNoFinal), complete: silent},
		{name: "the terminal event twice", stream: says(nil, hel, lo, done, done), events: []string{h, l, `{"type":"done"}`, `{"type":"done"}`}, complete: hello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.stream)
			events, answer, err := b.stream()
			if !errors.Is(err, tt.err) || (tt.err == nil) != (answer == `{"ok":true}`) {
				t.Errorf("stream answers %q, %v", answer, err)
			}
			if diff := cmp.Diff(tt.events, events); diff != "" {
				t.Error(diff)
			}
			got, err := b.complete()
			if diff := cmp.Diff(tt.complete, got); diff != "" || !errors.Is(err, tt.err) {
				t.Errorf("complete: %v %s", err, diff)
			}
			if b.log.Len() > 0 {
				t.Errorf("log: %s", &b.log)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(nil, done))
	for _, tt := range []struct{ name, id, data, want string }{
		{"no model", "complete", `{"messages":[]}`, "missing required field: model"},
		{"no channel", "stream", `{"model":"m"}`, "missing required field: writer_ref"},
		{"unknown channel", "stream", `{"model":"m","writer_ref":{"channel_id":"x","access_key":"y","direction":"write"}}`, "provider test: writer_ref: channel: unknown channel or key"},
		{"message that is none", "complete", `{"model":"m","messages":[{"role":"robot"}]}`, `agent: invalid message: role is "robot", must be user, assistant, function_result or custom`},
		{"messages that are none", "complete", `{"model":"m","messages":{}}`, "invalid messages: must be an array"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := b.endpoints["provider::test::"+tt.id].Handle(t.Context(), &bus.Call{Data: json.RawMessage(tt.data)})
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRequestReachesTheStreamer(t *testing.T) {
	t.Parallel()
	var got Request
	b := newBench(t, func(_ context.Context, r Request, emit Emit) error {
		got = r
		return emit(done)
	})
	if _, err := b.handle(t.Context(), "provider::test::complete", `,"system_prompt":"s","tools":[{"name":"agent_trigger","description":"d","parameters":{"type":"object"}}],"thinking_level":"high","model_meta":{"a":1},"resolution_key":"s:1","session_id":"s"`); err != nil {
		t.Fatal(err)
	}
	s := "s"
	want := Request{
		SystemPrompt: &s, Model: "m", Messages: []agent.Message{agent.User("hi", 0)}, ThinkingLevel: "high", ModelMeta: json.RawMessage(`{"a":1}`), ResolutionKey: "s:1",
		Tools: []agent.Function{{Name: "agent_trigger", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReaderThatLeavesEndsTheStream(t *testing.T) {
	t.Parallel()
	emitted := make(chan error, 1)
	b := newBench(t, func(_ context.Context, _ Request, emit Emit) error {
		for {
			if err := emit(hel); err != nil {
				emitted <- err
				return err
			}
		}
	})
	r, member := b.open(1)
	answered := make(chan error, 1)
	go func() {
		_, err := b.handle(context.Background(), "provider::test::stream", member)
		answered <- err
	}()
	if _, err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-emitted; !errors.Is(err, channel.ErrReaderGone) {
		t.Errorf("emit fails with %v", err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the call fails with %v", err)
	}
	if !strings.Contains(b.log.String(), "nobody was told") {
		t.Errorf("log: %s", &b.log)
	}
}

func TestCallerThatGivesUpEndsTheStream(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	b := newBench(t, func(ctx context.Context, _ Request, emit Emit) error {
		if err := emit(hel); err != nil {
			return err
		}
		close(waits)
		<-ctx.Done()
		return ctx.Err()
	})
	r, member := b.open(4)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := b.handle(ctx, "provider::test::stream", member)
		answered <- err
	}()
	<-waits
	cancel()
	if err := <-answered; err != nil {
		t.Errorf("the call fails with %v", err)
	}
	if diff := cmp.Diff([]string{`{"type":"text_delta","delta":"Hel"}`}, b.drain(r)); diff != "" {
		t.Error(diff)
	}
}

// A panic is the host's to contain; the channel is closed all the same.
func TestChannelIsClosedWhateverHappens(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(context.Context, Request, Emit) error { panic("boom") })
	r, member := b.open(4)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = b.handle(t.Context(), "provider::test::stream", member)
	}()
	if got := b.drain(r); got != nil {
		t.Errorf("events %v", got)
	}
}

func TestEventThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	odd := agent.EmptyAssistant("p", "m", 0)
	odd.Content = []agent.Block{{Type: "invented"}}
	b := newBench(t, says(nil, hel, agent.LLMEvent{Type: agent.LLMSnapshot, Message: &odd}))
	events, answer, err := b.stream()
	if err != nil || answer != `{"ok":true}` || len(events) != 2 || !strings.Contains(events[1], `"error_kind":"transient"`) || !strings.Contains(events[1], "invented") {
		t.Errorf("%v, %s, %v", events, answer, err)
	}
}

// stuck is a broker whose writers cannot be closed.
type stuck struct{ channel.Broker }

func (s stuck) OpenWriter(ref channel.Ref) (channel.Writer, error) {
	w, err := s.Broker.OpenWriter(ref)
	return stuckWriter{w}, err
}

type stuckWriter struct{ channel.Writer }

func (w stuckWriter) Close() error { return errors.Join(w.Writer.Close(), errors.New("stuck")) }

func TestChannelThatDoesNotCloseIsLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.endpoints = Endpoints(Deps{Name: "test", Channels: stuck{b.channels}, Clock: clock.NewFake(time.Unix(0, 0)), Logger: slog.New(slog.NewTextHandler(&b.log, nil))}, says(nil, done))
	if _, answer, err := b.stream(); err != nil || answer != `{"ok":true}` {
		t.Errorf("%s, %v", answer, err)
	}
	if !strings.Contains(b.log.String(), "channel not closed") {
		t.Errorf("log: %s", &b.log)
	}
}

func TestF36FailuresCarryNoSecret(t *testing.T) {
	t.Parallel()
	const canary = "sk-CANARY-7f3a-provider"
	redact.Secrets.Add(canary)
	e := Failure(agent.EmptyAssistant("p", "m", 0), agent.ErrPermanent, "401 for key "+canary)
	b, err := bus.Encode(e)
	if err != nil || strings.Contains(string(b), canary) || !strings.Contains(string(b), "401 for key") {
		t.Errorf("%s, %v", b, err)
	}
}

func TestFailureKeepsWhatWasSaid(t *testing.T) {
	t.Parallel()
	m := agent.EmptyAssistant("p", "m", 0)
	m.Content = []agent.Block{agent.Text("so far")}
	e := Failure(m, agent.ErrRateLimited, "slow down")
	if e.Type != agent.LLMError || e.Err.Content[0].Text != "so far" || e.Err.StopReason != agent.StopError || *e.Err.ErrorMessage != "slow down" || *e.Err.ErrorKind != agent.ErrRateLimited {
		t.Errorf("%+v", e)
	}
	if m.StopReason != agent.StopEnd {
		t.Error("the message so far was changed")
	}
}
