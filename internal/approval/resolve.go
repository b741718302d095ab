package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// attempts is how often a lost race is run again. A race is lost once to a
// decision on this call; more often only if rows of other runs are written.
const attempts = 8

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

// resolve stores a decision, once per call.
func (g *Gate) resolve(ctx context.Context, call *bus.Call, r Request) (Response, error) {
	if text := r.check(); text != "" {
		return Response{Error: InvalidPayload, Message: text}, nil
	}
	ok, err := g.sees(ctx, call.Principal, r.SessionID)
	if err == nil && !ok {
		return Response{Error: NotFound}, nil
	}
	var res Response
	if err == nil {
		res, err = g.decide(ctx, call, r)
	}
	if err != nil {
		g.Logger.Error("decision not stored", "alarm", "approval_store", "session", r.SessionID, "call", r.FunctionCallID, "error", err)
		return Response{Error: ResumeFailed}, nil
	}
	return res, nil
}

// decide answers a request that may be made.
func (g *Gate) decide(ctx context.Context, call *bus.Call, r Request) (Response, error) {
	p, err := g.pending(ctx, r)
	if err != nil {
		return Response{}, err
	}
	if p == nil {
		row, version, err := g.row(ctx, r)
		if err != nil {
			return Response{}, err
		}
		if version == 0 {
			return Response{Error: NotFound}, nil
		}
		return decided(row), nil
	}
	mine := agent.Decision{
		Decision: r.Decision, Reason: r.Reason, DecidedBy: call.Principal.Actor(), DecidedAt: clock.Millis(g.Clock.Now()),
		Run: p.Run, ArgsHash: p.ArgsHash,
	}
	var grant *agent.Grant
	if r.Remember != nil {
		if p.FunctionID == "" {
			return Response{Error: InvalidPayload, Message: "remember is not possible: the turn does not say which function waits"}, nil
		}
		grant = &agent.Grant{FunctionID: p.FunctionID, ArgsExcerpt: p.ArgsExcerpt, ArgsHash: p.ArgsHash,
			FunctionCallID: r.FunctionCallID, GrantedBy: mine.DecidedBy, GrantedAt: mine.DecidedAt}
	}
	won, row, err := g.store(ctx, call, r, mine, grant)
	if err != nil {
		return Response{}, err
	}
	// Also for a repeat: its sender may have seen nothing happen.
	g.raise(ctx, call, r.SessionID)
	if won {
		return Response{OK: true}, nil
	}
	return decided(row), nil
}

// pending is what the turn says of a call that waits, or soon will.
type pending struct {
	Run      string `json:"run"`
	ArgsHash string `json:"args_hash"`
	// Of newer turns.
	FunctionID  string          `json:"function_id"`
	ArgsExcerpt json.RawMessage `json:"args_excerpt"`
}

// pending asks the turn for the call; nil means that it neither waits nor will.
func (g *Gate) pending(ctx context.Context, r Request) (*pending, error) {
	data, err := bus.Encode(map[string]string{"session_id": r.SessionID, "function_call_id": r.FunctionCallID})
	if err != nil {
		return nil, err
	}
	out, err := g.Bus.Invoke(ctx, bus.Invocation{FunctionID: "turn::pending_call", Data: data})
	if err != nil {
		return nil, fmt.Errorf("approval: ask the turn: %w", err)
	}
	var p *pending
	if len(out) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("approval: answer of the turn: %w", err)
	}
	if p != nil && (p.Run == "" || p.ArgsHash == "") {
		return nil, errors.New("approval: answer of the turn: run and args_hash are required")
	}
	return p, nil
}

func rowKey(r Request) state.Key {
	return state.Key{Scope: agent.ScopeApprovals, Key: r.SessionID + "/" + r.FunctionCallID}
}

// row reads the decision that stands, strongly consistent; version 0 means that
// there is none.
func (g *Gate) row(ctx context.Context, r Request) (agent.Decision, int64, error) {
	var row agent.Decision
	item, ok, err := g.State.Get(ctx, rowKey(r))
	if err != nil || !ok {
		return row, 0, err
	}
	if err := json.Unmarshal(item.Value, &row); err != nil {
		return row, 0, fmt.Errorf("approval: row %s: %w", item.Key.Key, err)
	}
	return row, item.Version, nil
}
