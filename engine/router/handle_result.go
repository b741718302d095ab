package router

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// HandleResult takes an invocationresult of a socket. Only the socket that was given the call can end it; a result of
// anything else is dropped. It waits only while the outbound queue of the caller's connection is full.
func (r *Router) HandleResult(conn Conn, f *protocol.InvocationResult) {
	p := r.peer(conn.ID())
	id, ok := protocol.CanonicalID(f.InvocationID)
	if p == nil || !ok {
		return
	}
	c := p.take(id)
	for c == nil {
		if r.keepResult(p, f) {
			return
		}
		root := p.root()
		if root == p {
			r.log.Debug("a result that belongs to no call was dropped", "function_id", f.FunctionID, "worker_id", conn.WorkerID())
			return
		}
		p = root // it turned out just now who the worker is
		c = p.take(id)
	}
	if p.answered() {
		r.cfg.Registry.SetStatus(conn.ID(), registry.StatusConnected)
	}
	if r.again(p, c, f) {
		return
	}
	if f.Error != nil {
		r.complete(c, outcome{err: f.Error})
		return
	}
	r.complete(c, outcome{result: value(f.Result)})
}

// value is a worker's result: null is no value.
func value(result json.RawMessage) json.RawMessage {
	if len(result) == 0 || string(result) == "null" {
		return nil
	}
	return result
}
