package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

const (
	functionStart = "run::start"
	// startTimeout is how long run::start may take.
	startTimeout = 10 * time.Minute
)

// TriggerRequest starts a run. The outer ids name the request for tracing; only
// the payload reaches run::start.
type TriggerRequest struct {
	SessionID string          `json:"session_id,omitempty"`
	MessageID string          `json:"message_id,omitempty"`
	Payload   json.RawMessage `json:"payload"`
}

// Validate names the field that is wrong.
func (r TriggerRequest) Validate() error {
	p := bytes.TrimSpace(r.Payload)
	switch {
	case len(p) == 0 || bytes.Equal(p, []byte("null")):
		return bus.Missing("payload")
	case p[0] != '{':
		return bus.Invalid("payload", "an object, the payload of run::start")
	}
	return nil
}

// Envelope is an answer in the form of HTTP.
type Envelope struct {
	StatusCode int               `json:"status_code"`
	Headers    map[string]string `json:"headers"`
	Body       json.RawMessage   `json:"body"`
}

// trigger serves harness::trigger: 200 with the answer of run::start, 409 if it
// did not start. Errors of run::start are passed on as they are.
func (f *Fanout) trigger(ctx context.Context, call *bus.Call, r TriggerRequest) (Envelope, error) {
	body, err := f.Bus.Invoke(ctx, bus.Invocation{
		FunctionID: functionStart, Data: r.Payload, Timeout: startTimeout, IdempotencyKey: call.IdempotencyKey,
	})
	if err != nil {
		return Envelope{}, err
	}
	// An answer that does not say whether it started is of a replacement that
	// knows no busy session.
	started := struct {
		Started bool `json:"started"`
	}{true}
	if err := json.Unmarshal(body, &started); err != nil {
		return Envelope{}, fmt.Errorf("fanout: answer of %s: %w", functionStart, err)
	}
	status := http.StatusOK
	if !started.Started {
		status = http.StatusConflict
	}
	return Envelope{StatusCode: status, Headers: map[string]string{"content-type": "application/json"}, Body: body}, nil
}
