package turn

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// modelReply is what the fake model does in one call.
type modelReply func(ctx context.Context, emit func(agent.LLMEvent)) error

// fakeModel is provider::test: it plays its replies one after the other.
type fakeModel struct {
	w        *world
	mu       sync.Mutex
	replies  []modelReply
	requests []json.RawMessage
	// choose picks the reply by the request; nil takes the next of replies.
	choose func(providerRequest) modelReply
}

func newFakeModel(w *world) *fakeModel {
	m := &fakeModel{w: w}
	w.bus.on("provider::test::stream", m.stream)
	return m
}

// plays adds replies.
func (m *fakeModel) plays(replies ...modelReply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies = append(m.replies, replies...)
}

// calls is how often the model was asked.
func (m *fakeModel) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

// request is the nth request, from 0.
func (m *fakeModel) request(n int) providerRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	var r providerRequest
	m.w.check(json.Unmarshal(m.requests[n], &r))
	return r
}

func (m *fakeModel) stream(ctx context.Context, c *bus.Call) (any, error) {
	var r struct {
		Writer channel.Ref `json:"writer_ref"`
	}
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.requests = append(m.requests, c.Data)
	play := says("nothing to add")
	if m.choose != nil {
		var req providerRequest
		m.w.check(json.Unmarshal(c.Data, &req))
		play = m.choose(req)
	} else if len(m.replies) > 0 {
		play, m.replies = m.replies[0], m.replies[1:]
	}
	m.mu.Unlock()
	w, err := m.w.channels.OpenWriter(r.Writer)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	err = play(ctx, func(e agent.LLMEvent) {
		_ = w.Write(ctx, channel.Message{Data: encode(e)})
	})
	if err != nil {
		return nil, err
	}
	return map[string]bool{"ok": true}, nil
}

func assistant(stop agent.StopReason, blocks ...agent.Block) *agent.Message {
	m := agent.EmptyAssistant("test", "m1", 1)
	m.Content, m.StopReason = blocks, stop
	return &m
}

// says answers with a text.
func says(text string) modelReply {
	return func(_ context.Context, emit func(agent.LLMEvent)) error {
		emit(agent.LLMEvent{Type: agent.LLMStart})
		emit(agent.LLMEvent{Type: agent.LLMTextStart})
		emit(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: text})
		emit(agent.LLMEvent{Type: agent.LLMTextEnd})
		emit(agent.LLMEvent{Type: agent.LLMDone, Message: assistant(agent.StopEnd, agent.Text(text))})
		return nil
	}
}

type wanted struct {
	id, function string
	payload      any
}

func want(function string, payload any) wanted { return wanted{"toolu_" + function, function, payload} }

// wants calls functions through the tool.
func wants(calls ...wanted) modelReply {
	var blocks []agent.Block
	for _, c := range calls {
		args := map[string]any{"function": c.function}
		if c.payload != nil {
			args["payload"] = c.payload
		}
		blocks = append(blocks, agent.Block{Type: agent.BlockFunctionCall, ID: c.id, FunctionID: step.ToolName, Arguments: encode(args)})
	}
	return finishes(assistant(agent.StopFunctionCall, blocks...))
}

// finishes sends a final message alone.
func finishes(m *agent.Message) modelReply {
	return func(_ context.Context, emit func(agent.LLMEvent)) error {
		emit(agent.LLMEvent{Type: agent.LLMDone, Message: m})
		return nil
	}
}

// fails sends an error event, after some text.
func fails(kind agent.ErrorKind, message string, retryAfterMS int64, text string) modelReply {
	return func(_ context.Context, emit func(agent.LLMEvent)) error {
		emit(agent.LLMEvent{Type: agent.LLMStart})
		if text != "" {
			emit(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: text})
		}
		m := assistant(agent.StopError, agent.Text(message))
		m.ErrorKind, m.ErrorMessage = &kind, &message
		emit(agent.LLMEvent{Type: agent.LLMError, Err: m, RetryAfterMS: retryAfterMS})
		return nil
	}
}

// hangs streams a text and then waits until it is stopped or let go.
func hangs(text string, began chan<- struct{}, letGo <-chan struct{}, then modelReply) modelReply {
	return func(ctx context.Context, emit func(agent.LLMEvent)) error {
		emit(agent.LLMEvent{Type: agent.LLMStart})
		if text != "" {
			emit(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: text})
		}
		close(began)
		select {
		case <-letGo:
			return then(ctx, emit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fakeViewer keeps what would be posted.
type fakeViewer struct {
	mu     sync.Mutex
	deltas []agent.MessageUpdate
	order  []string
	tail   int64
}

func (v *fakeViewer) Open(string, int64) ViewerSession { return viewerSession{v} }

type viewerSession struct{ v *fakeViewer }

func (s viewerSession) Notify(h stream.Head) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.tail = h.Tail
	s.v.order = append(s.v.order, "events")
}

func (s viewerSession) Delta(u agent.MessageUpdate) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.deltas = append(s.v.deltas, u)
	s.v.order = append(s.v.order, "delta")
}

func (s viewerSession) Refresh(context.Context) error { return nil }
func (s viewerSession) Flush(context.Context) error   { return nil }
func (s viewerSession) Close()                        {}

func (v *fakeViewer) seen() []agent.MessageUpdate {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]agent.MessageUpdate(nil), v.deltas...)
}

// fakeStats counts the writes that a turn waits for.
type fakeStats struct {
	mu     sync.Mutex
	waited []string
	alarms []string
}

func (s *fakeStats) Waited(_, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = append(s.waited, what)
}

func (s *fakeStats) alarm(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms = append(s.alarms, name)
}

func (s *fakeStats) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.waited
	s.waited = nil
	return out
}

// raise raises the control item of a session.
func (w *world) raise(session string) {
	_, err := state.Do(context.Background(), w.db.State(), state.Update(agent.ScopeControl, session, rise()))
	w.check(err)
}

// servePolicy is a policy that allows what begins with ok::, denies what begins
// with no::, and asks for the rest.
func (w *world) servePolicy() {
	w.bus.on("policy::check_permissions", func(_ context.Context, c *bus.Call) (any, error) {
		var r struct {
			FunctionID string `json:"function_id"`
		}
		if err := bus.Decode(c.Data, &r); err != nil {
			return nil, err
		}
		switch {
		case len(r.FunctionID) > 4 && r.FunctionID[:4] == "ok::", r.FunctionID == "engine::functions::list", r.FunctionID == "blob::read":
			return map[string]string{"decision": "allow", "rule_id": "ok"}, nil
		case len(r.FunctionID) > 4 && r.FunctionID[:4] == "no::":
			return map[string]string{"decision": "deny", "rule_id": "no", "rule_action": "deny"}, nil
		}
		return map[string]string{"decision": "needs_approval"}, nil
	})
	w.bus.on("engine::registered-triggers::list", func(context.Context, *bus.Call) (any, error) {
		return map[string]any{"registered_triggers": []any{}}, nil
	})
}

// decide decides on a call as approval::resolve does.
func (w *world) decide(session, call, decision, reason string) bool {
	w.t.Helper()
	var p *Pending
	w.must("turn::pending_call", PendingRequest{session, call}, &p)
	if p == nil {
		return false
	}
	row := agent.Decision{Decision: decision, DecidedBy: "bob", Run: p.Run, ArgsHash: p.ArgsHash}
	if reason != "" {
		row.Reason = &reason
	}
	key := session + "/" + call
	if _, err := state.Do(w.t.Context(), w.db.State(), state.Set(agent.ScopeApprovals, key, encode(row)).IfAbsent()); err != nil {
		return false
	}
	w.raise(session)
	w.fire("turn::on_approval", key, encode(row))
	return true
}

func (w *world) setRow(scope, key string, v any) {
	w.t.Helper()
	_, err := state.Do(w.t.Context(), w.db.State(), state.Set(scope, key, encode(v)))
	w.check(err)
}

// rawStream writes channel messages as they are.
func rawStream(ctx context.Context, w *world, c *bus.Call, messages ...string) (any, error) {
	var r struct {
		Writer channel.Ref `json:"writer_ref"`
	}
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	out, err := w.channels.OpenWriter(r.Writer)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	for _, m := range messages {
		if err := out.Write(ctx, channel.Message{Data: []byte(m)}); err != nil {
			return nil, err
		}
	}
	return map[string]bool{"ok": true}, nil
}
