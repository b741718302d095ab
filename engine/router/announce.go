package router

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// FunctionAnnounce is how a connected worker says who it is.
const FunctionAnnounce = "engine::workers::register"

type announceRequest struct {
	CallerWorkerID string          `json:"_caller_worker_id"`
	Runtime        string          `json:"runtime,omitempty"`
	Version        string          `json:"version,omitempty"`
	Name           string          `json:"name,omitempty"`
	Description    string          `json:"description,omitempty"`
	OS             string          `json:"os,omitempty"`
	PID            *int64          `json:"pid,omitempty"`
	Isolation      string          `json:"isolation,omitempty"`
	Namespace      *string         `json:"namespace,omitempty"`
	Telemetry      json.RawMessage `json:"telemetry,omitempty"`
}

type announceResponse struct {
	Success bool `json:"success"`
}

// Endpoints serves what only the router knows.
func (r *Router) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{FunctionAnnounce: input.Endpoint(FunctionAnnounce, r.announce)}
}

// announce fixes the namespace of the connection that calls, unless it is fixed, and stores who it is. A later announce
// of another namespace counts for everything else.
func (r *Router) announce(_ context.Context, call *bus.Call, req announceRequest) (announceResponse, error) {
	p := r.peer(call.Connection)
	if p == nil {
		return announceResponse{}, protocol.MissingField(FunctionAnnounce, protocol.CallerWorkerID)
	}
	namespace := bus.DefaultNamespace
	if req.Namespace != nil {
		if protocol.IsBlankNamespace(req.Namespace) {
			return announceResponse{}, protocol.BlankNamespace("namespace")
		}
		namespace = *req.Namespace
		if r.cfg.Access != nil {
			if err := r.cfg.Access.Namespace(r.caller(p), namespace); err != nil {
				return announceResponse{}, err
			}
		}
	}
	r.cfg.Registry.Announce(p.conn().ID(), registry.Announcement{
		Runtime: req.Runtime, Version: req.Version, Name: req.Name, Description: req.Description, OS: req.OS,
		Isolation: req.Isolation, PID: req.PID, Telemetry: req.Telemetry,
	})
	if now := r.FixNamespace(p.conn(), namespace); req.Namespace != nil && now != namespace {
		r.log.Warn("a worker announced another namespace than the one it has",
			"worker_id", p.conn().WorkerID(), "namespace", now, "announced", namespace)
	}
	r.event(p.link.Load(), EventUpdated)
	return announceResponse{Success: true}, nil
}
