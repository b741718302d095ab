package trigger

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type registerRequest struct {
	TriggerType      string          `json:"trigger_type"`
	FunctionID       string          `json:"function_id"`
	Config           json.RawMessage `json:"config,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
	TriggerNamespace *string         `json:"trigger_namespace,omitempty"`
}

type registerResponse struct {
	ID string `json:"id"`
}

// register makes a binding to a function of the default namespace that outlives its maker, and calls for the principal
// that it was made for.
func (t *Table) register(ctx context.Context, call *bus.Call, req registerRequest) (registerResponse, error) {
	if protocol.IsBlankNamespace(req.TriggerNamespace) {
		return registerResponse{}, protocol.BlankNamespace("trigger_namespace")
	}
	r := record{
		ID: t.cfg.IDs.UUID(), Type: req.TriggerType, Namespace: bus.DefaultNamespace, FunctionID: req.FunctionID,
		Config: unlessNull(req.Config), Metadata: unlessNull(req.Metadata),
		Principal: call.Principal, External: call.Connection != "",
	}
	if req.TriggerNamespace != nil {
		r.TriggerNamespace = *req.TriggerNamespace
	}
	if t.cfg.Authorize != nil {
		if err := t.cfg.Authorize(call, r.Type, r.Namespace, r.FunctionID); err != nil {
			return registerResponse{}, err
		}
		for _, id := range protocol.TriggerFunctions(req.Config) {
			if err := t.cfg.Authorize(call, r.Type, r.Namespace, id); err != nil {
				return registerResponse{}, err
			}
		}
	}
	if err := t.store(ctx, r); err != nil {
		return registerResponse{}, err
	}
	return registerResponse{ID: r.ID}, nil
}

// unlessNull is text, or nil for null: an optional member that is null counts as absent.
func unlessNull(text json.RawMessage) json.RawMessage {
	if string(text) == "null" {
		return nil
	}
	return text
}

// condition is the function that a config names as its condition, whatever the type.
func condition(config json.RawMessage) string {
	value, ok := protocol.Member(config, "condition_function_id")
	var id string
	if !ok || json.Unmarshal(value, &id) != nil {
		return ""
	}
	return id
}

type unregisterRequest struct {
	ID          string `json:"id"`
	TriggerType string `json:"trigger_type,omitempty"`
}

type unregisterResponse struct {
	Removed bool `json:"removed"`
}

// unregister removes a stored binding of the same principal, or any for who sees all, and a binding of the connection
// that calls. Everything else is left alone and answers that nothing was removed.
func (t *Table) unregister(ctx context.Context, call *bus.Call, req unregisterRequest) (unregisterResponse, error) {
	b := t.find(req.ID)
	switch {
	case b == nil:
	case b.origin == connected && call.Connection != "" && t.address(b.conn()) == call.Connection:
		t.changing.Lock()
		defer t.changing.Unlock()
		if t.find(b.id) == b {
			t.drop(b)
		}
		return unregisterResponse{Removed: true}, nil
	case b.origin == stored && (b.principal.ID == call.Principal.ID || call.Principal.SeesAll()):
		removed, err := t.remove(ctx, req.ID)
		if err != nil {
			return unregisterResponse{}, &bus.Error{Code: protocol.CodeUnregisterFailed, Message: err.Error()}
		}
		return unregisterResponse{Removed: removed}, nil
	}
	return unregisterResponse{}, nil
}

// address is how calls of the worker of a connection name it.
func (t *Table) address(connection string) string {
	w, _ := t.cfg.Registry.Worker(connection)
	return w.Address
}
