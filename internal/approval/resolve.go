package approval

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	maxReason = 4000
	attempts  = 8
)

// Request is a decision. Unknown members are ignored.
type Request struct {
	SessionID      string  `json:"session_id"`
	FunctionCallID string  `json:"function_call_id"`
	Decision       string  `json:"decision"`
	Reason         *string `json:"reason,omitempty"`
	// Remember asks for a standing grant. None are kept here: a request that
	// asks for one is refused, not taken for less than it says.
	Remember *string `json:"remember,omitempty"`
}

// Response is what became of it.
type Response struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Message says what a person can do about an error.
	Message   string `json:"message,omitempty"`
	Decision  string `json:"decision,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
}

// The errors of a Response.
const (
	InvalidPayload = "invalid_payload"
	AlreadyDecided = "already_decided"
	NotFound       = "not_found"
	ResumeFailed   = "resume_failed"
)

// check gives the text for what is wrong with a request, or "".
func (r Request) check() string {
	for _, f := range [][2]string{{"session_id", r.SessionID}, {"function_call_id", r.FunctionCallID}} {
		if f[1] == "" || strings.Contains(f[1], "/") {
			return f[0] + " must be a text without a slash"
		}
	}
	switch {
	case r.Decision != agent.DecisionAllow && r.Decision != agent.DecisionDeny:
		return "decision must be allow or deny"
	case r.Reason != nil && len(*r.Reason) > maxReason:
		return "reason must have at most 4000 bytes"
	case r.Remember != nil:
		return "remember is not supported: decide each call, or add a rule to iii-permissions.yaml"
	}
	return ""
}

func (g *Gate) handleResolve(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
	var r Request
	if err := bus.Decode(call.Data, &r); err != nil {
		return bus.Encode(Response{Error: InvalidPayload, Message: err.Error()})
	}
	res, err := g.resolve(ctx, call, r)
	if err != nil {
		return nil, err
	}
	return bus.Encode(res)
}

// pending is what the turn says of a call that waits, or soon will.
type pending struct {
	Run      string `json:"run"`
	ArgsHash string `json:"args_hash"`
}

// resolve stores a decision, once per call.
func (g *Gate) resolve(ctx context.Context, call *bus.Call, r Request) (Response, error) {
	if text := r.check(); text != "" {
		return Response{Error: InvalidPayload, Message: text}, nil
	}
	ok, err := g.sees(ctx, call.Principal, r.SessionID)
	if err != nil {
		return g.failed(r, err), nil
	}
	if !ok {
		return Response{Error: NotFound}, nil
	}
	p, err := g.pending(ctx, r)
	if err != nil {
		return g.failed(r, err), nil
	}
	key := r.SessionID + "/" + r.FunctionCallID
	for range attempts {
		item, exists, err := g.State.Get(ctx, state.Key{Scope: agent.ScopeApprovals, Key: key})
		if err != nil {
			return g.failed(r, err), nil
		}
		var row agent.Decision
		if exists {
			if err := json.Unmarshal(item.Value, &row); err != nil {
				return g.failed(r, err), nil
			}
		}
		if p == nil {
			if exists {
				return decided(row), nil
			}
			return Response{Error: NotFound}, nil
		}
		if exists && row.Run == p.Run && row.ArgsHash == p.ArgsHash {
			return decided(row), nil
		}
		done, err := g.store(ctx, call, r, *p, key, item, exists)
		if err != nil {
			return g.failed(r, err), nil
		}
		if done {
			g.raise(ctx, r.SessionID)
			return Response{OK: true}, nil
		}
	}
	return g.failed(r, errors.New("other decisions were in the way each time")), nil
}

// store makes the row, or replaces one that belongs to another run or other
// arguments. done is false when somebody else wrote first.
func (g *Gate) store(ctx context.Context, call *bus.Call, r Request, p pending, key string, old state.Item, exists bool) (done bool, err error) {
	value, err := bus.Encode(agent.Decision{
		Decision: r.Decision, Reason: r.Reason, DecidedBy: call.Principal.Actor(), DecidedAt: clock.Millis(g.Clock.Now()),
		Run: p.Run, ArgsHash: p.ArgsHash,
	})
	if err != nil {
		return false, err
	}
	w := state.Set(agent.ScopeApprovals, key, value).IfAbsent()
	if exists {
		w = w.IfVersion(old.Version)
	}
	w.Origin = state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
	_, err = state.Do(ctx, g.State, w)
	var conflict *state.ConflictError
	if errors.As(err, &conflict) {
		return false, nil
	}
	return err == nil, err
}

// pending asks the turn for the call; nil means that it neither waits nor will.
func (g *Gate) pending(ctx context.Context, r Request) (*pending, error) {
	data, err := bus.Encode(map[string]string{"session_id": r.SessionID, "function_call_id": r.FunctionCallID})
	if err != nil {
		return nil, err
	}
	out, err := g.Bus.Invoke(ctx, bus.Invocation{FunctionID: "turn::pending_call", Data: data})
	if err != nil {
		return nil, err
	}
	var p *pending
	if len(out) > 0 {
		if err := json.Unmarshal(out, &p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// raise tells a running step to look. The row's own trigger wakes the turn in
// any case, so a failure here costs time, not the decision.
func (g *Gate) raise(ctx context.Context, session string) {
	_, err := state.Do(ctx, g.State, state.Update(agent.ScopeControl, session, state.Op{
		Type: "increment", Path: json.RawMessage(`"rev"`), By: json.RawMessage("1"),
	}))
	if err != nil {
		g.Logger.Error("control item not raised", "alarm", "control_raise", "session", session, "error", err)
	}
}

func (g *Gate) failed(r Request, err error) Response {
	g.Logger.Error("decision not stored", "alarm", "approval_store", "session", r.SessionID, "call", r.FunctionCallID, "error", err)
	return Response{Error: ResumeFailed}
}

func decided(row agent.Decision) Response {
	return Response{Error: AlreadyDecided, Decision: row.Decision, DecidedBy: row.DecidedBy}
}
