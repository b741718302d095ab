package router

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// answer is the waiter behind a socket.
type answer struct {
	r     *Router
	p     *peer
	id    string // as the caller wrote it
	frame *protocol.InvokeFunction
}

// answerTo is who hears of the end of a call.
func (r *Router) answerTo(p *peer, f *protocol.InvokeFunction, void bool) waiter {
	if void || f.InvocationID == "" {
		return logged{r, f.FunctionID}
	}
	return &answer{r: r, p: p, id: f.InvocationID, frame: f}
}

// deliver posts the result with the caller's own id, function and trace context. A caller that is away gets it when it is
// back. A result that cannot be posted becomes an error, so that the caller does not wait for ever.
func (a *answer) deliver(out outcome) {
	err := a.send(out)
	if err == nil || errors.Is(err, bus.ErrGone) || errors.Is(err, context.Canceled) {
		return // a caller that has gone is forgotten
	}
	a.r.log.Error("a result could not be sent", "function_id", a.frame.FunctionID, "worker_id", a.p.root().conn().WorkerID(), "error", err)
	if err := a.send(outcome{err: unsendable(a.frame.FunctionID, err)}); err != nil && !errors.Is(err, bus.ErrGone) {
		a.r.log.Error("a caller waits for ever", "alarm", "result_lost", "function_id", a.frame.FunctionID, "error", err)
	}
}

// unsendable is what the caller hears of a result that its connection does not take.
func unsendable(functionID string, err error) *bus.Error {
	if errors.Is(err, bus.ErrTooLarge) {
		return &bus.Error{Code: protocol.CodeValueTooLarge, Message: "The result of " + functionID + " does not fit a frame of this connection."}
	}
	return &bus.Error{Code: protocol.CodeSerialization, Message: "The result of " + functionID + " cannot be sent."}
}

func (a *answer) send(out outcome) error {
	f := &protocol.InvocationResult{
		InvocationID: a.id, FunctionID: a.frame.FunctionID, Result: out.result,
		Traceparent: a.frame.Traceparent, Baggage: a.frame.Baggage,
	}
	if out.err != nil {
		f.Result, f.Error = nil, bus.AsError(out.err)
	}
	return a.p.post(a.r.base, f)
}
