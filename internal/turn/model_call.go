package turn

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	// modelCallFor bounds a model call as a whole; silence ends it sooner.
	modelCallFor = 2 * time.Hour
	// afterClose is how long a provider may take to return after it closed
	// its channel.
	afterClose = 2 * time.Second
)

// providerRequest is the payload of provider::<name>::stream.
type providerRequest struct {
	WriterRef     *channel.Ref      `json:"writer_ref,omitempty"`
	SystemPrompt  *string           `json:"system_prompt"`
	Model         string            `json:"model"`
	Messages      []agent.Message   `json:"messages"`
	Tools         []json.RawMessage `json:"tools"`
	ThinkingLevel string            `json:"thinking_level,omitempty"`
	ModelMeta     json.RawMessage   `json:"model_meta,omitempty"`
	ResolutionKey string            `json:"resolution_key,omitempty"`
	ReservationID string            `json:"reservation_id,omitempty"`
	SessionID     string            `json:"session_id"`
}

// modelCall is a model call at work: a goroutine that calls the provider and
// one that reads its channel.
type modelCall struct {
	cancel context.CancelFunc
	reader channel.Reader
	// events are the events of the stream; closed at its end.
	events chan agent.LLMEvent
	// replied has the result of the provider's function, once.
	replied chan error
}

// startCall calls the provider.
func (d *driver) startCall(r route, req providerRequest) (*modelCall, error) {
	ctx, cancel := context.WithCancel(d.ctx)
	c := &modelCall{cancel: cancel, events: make(chan agent.LLMEvent, channel.DefaultBuffer), replied: make(chan error, 1)}
	if r.complete {
		principal, payload := d.rec.Principal, encode(req)
		go c.completeOnly(ctx, d.t, bus.Invocation{FunctionID: r.functionID(), Data: payload, Timeout: modelCallFor, Principal: &principal})
		return c, nil
	}
	writer, reader, err := d.t.Channels.Create(ctx, 0)
	if err == nil {
		c.reader, err = d.t.Channels.OpenReader(reader)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	req.WriterRef = &writer
	go func() {
		if err := caught(func() { c.read(ctx, d.t) }); err != nil {
			d.t.Logger.Error("reading a model's answer panicked", "error", err)
		}
	}()
	principal, payload := d.rec.Principal, encode(req)
	go func() {
		_, err := d.t.within(ctx, bus.Invocation{FunctionID: r.functionID(), Data: payload, Timeout: modelCallFor, Principal: &principal})
		c.replied <- err
	}()
	return c, nil
}

// stop ends the call, wherever it is.
func (c *modelCall) stop() { c.cancel() }

// read passes the events of the channel on. What cannot be read is skipped.
func (c *modelCall) read(ctx context.Context, t *Turn) {
	defer close(c.events)
	defer func() {
		if err := c.reader.Close(); err != nil {
			t.Logger.Debug("provider's channel not closed", "error", err)
		}
	}()
	for {
		m, err := c.reader.Read(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				t.Logger.Warn("provider's channel broke off", "error", err)
			}
			return
		}
		var e agent.LLMEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Logger.Debug("event of a provider cannot be read", "error", err)
			continue
		}
		select {
		case c.events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// completeOnly calls a provider that serves no stream and gives its answer as
// one.
func (c *modelCall) completeOnly(ctx context.Context, t *Turn, in bus.Invocation) {
	defer close(c.events)
	raw, err := t.within(ctx, in)
	var m agent.Message
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	c.replied <- err
	if err != nil {
		return
	}
	if text := textOf(m); text != "" {
		c.events <- agent.LLMEvent{Type: agent.LLMTextDelta, Delta: text}
	}
	if m.StopReason == agent.StopError {
		c.events <- agent.LLMEvent{Type: agent.LLMError, Err: &m}
		return
	}
	c.events <- agent.LLMEvent{Type: agent.LLMDone, Message: &m}
}

func textOf(m agent.Message) string {
	text := ""
	for _, b := range m.Content {
		if b.Type == agent.BlockText {
			text += b.Text
		}
	}
	return text
}

// callFailed is what a failed provider function means.
func callFailed(err error) *modelFailure {
	code, message := describe(err)
	kind := agent.ErrTransient
	switch k := agent.ErrorKind(code); k {
	case agent.ErrAuthExpired, agent.ErrRateLimited, agent.ErrContextOverflow, agent.ErrPermanent:
		kind = k
	default:
		if errorKinds[code] != "" {
			kind = errorKinds[code]
		}
	}
	return &modelFailure{kind: kind, text: message}
}

// errorKinds are codes of a provider's function that say more than that it
// failed.
var errorKinds = map[string]agent.ErrorKind{
	"credential_missing": agent.ErrAuthExpired,
	"missing_credential": agent.ErrAuthExpired,
	"invalid_payload":    agent.ErrPermanent,
	"function_not_found": agent.ErrPermanent,
	"FORBIDDEN":          agent.ErrPermanent,
}
