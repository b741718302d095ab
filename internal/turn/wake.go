package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/internal/agent"
)

// FunctionStep serves the queue turn-step.
const FunctionStep = "turn::step"

// StepRequest is the message of the queue turn-step. Nothing else is in it: two
// messages that say the same are one.
type StepRequest struct {
	SessionID string `json:"session_id"`
	Run       string `json:"run"`
	// Cause says why: start, approval:<call>, result:<call>, timer:<id>,
	// handover:<version>, abort or sweep:<due>. After a repeat of a call,
	// result:<call>:<attempt>:<hash of the row>.
	Cause string `json:"cause"`
}

// Validate names the first missing field.
func (r StepRequest) Validate() error {
	switch "" {
	case r.SessionID:
		return bus.Missing("session_id")
	case r.Run:
		return bus.Missing("run")
	}
	return nil
}

// QueueFor is the queue of a session.
func QueueFor(shards int, session string) string {
	if shards <= 1 {
		return agent.QueueTurnStep
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(session)) // never fails
	return fmt.Sprintf("%s-%d", agent.QueueTurnStep, h.Sum32()%uint32(shards))
}

// message is the message that wakes a run.
func (t *Turn) message(ctx context.Context, p bus.Principal, r StepRequest) queue.Message {
	m := queue.Message{
		Queue: QueueFor(t.cfg.Shards, r.SessionID), Group: r.SessionID, FunctionID: FunctionStep,
		Data: encode(r), Principal: p,
	}
	if c := bus.CallFrom(ctx); c != nil {
		m.Traceparent, m.Baggage = c.Traceparent, c.Baggage
	}
	return m
}

// wake sends the message that wakes a run.
func (t *Turn) wake(ctx context.Context, p bus.Principal, r StepRequest, after ...commit.Ticket) *commit.Promise[queue.Sent] {
	return t.Queue.Submit(ctx, t.message(ctx, p, r), after...)
}

// encode is v as JSON. The types that this package encodes always can be.
func encode(v any) json.RawMessage {
	b, err := bus.Encode(v)
	if err != nil {
		panic("turn: encode: " + err.Error())
	}
	return b
}
