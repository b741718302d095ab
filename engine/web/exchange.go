package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/trigger"
)

// exchange is one request and its answer.
type exchange struct {
	server *Server
	out    *output
	in     *http.Request
	route  *route
	payload
	ctx    context.Context
	cancel context.CancelFunc
	limit  clock.Timer
	held   int64 // bytes of the body in memory
	pipes  *pipes
	upload
	wg sync.WaitGroup
}

func (s *Server) exchange(out *output, r *http.Request, found *route, params map[string]string) *exchange {
	e := &exchange{server: s, out: out, in: r, route: found, payload: newPayload(r, found, params), limit: s.cfg.Clock.NewTimer(Timeout)}
	e.ctx, e.cancel = context.WithCancel(traced(r.Context(), r.Header))
	out.before = e.leaveBody
	return e
}

// errTimeout ends an exchange whose answer did not begin in time.
var errTimeout = errors.New("web: timeout")

// run answers the request.
func (e *exchange) run() {
	defer e.end()
	if e.in.Body == http.NoBody {
		// The server watches the connection for its end, and would take its own limit for a body for that.
		_ = e.out.control.SetReadDeadline(time.Time{}) // without deadlines there is no such limit
	}
	if !e.middleware(e.server.cfg.Middleware, true) || !e.open() {
		return
	}
	data, err := bus.Encode(e.payload)
	if err != nil {
		e.fail(err, false)
		return
	}
	if id := e.route.Condition; id != "" {
		answer, err := e.call(id, trigger.Firing{Payload: data}, e.route.binding)
		if err != nil {
			e.fail(err, false)
			return
		}
		if trigger.Blocks(answer) {
			writeFailure(e.out, http.StatusUnprocessableEntity, failureBody{failure{Code: protocol.CodeConditionNotMet, Message: "The condition of the route is not met"}, true})
			return
		}
	}
	if e.middleware(e.route.Middleware, false) {
		e.handle(data)
	}
}

// open reads a body of a JSON type and makes the channels. It reports false if the request has been answered.
func (e *exchange) open() bool {
	var body []byte
	isRead := e.in.Body == http.NoBody
	if isJSON(e.in.Header.Get("Content-Type")) {
		isRead = true
		var err error
		if body, err = e.readJSON(); err != nil {
			e.fail(err, false)
			return false
		}
		e.Body = parsed(body)
	} else if e.in.ContentLength > e.server.maxBody {
		e.fail(errTooLarge, false)
		return false
	}
	if e.server.cfg.Channels == nil {
		return true
	}
	var err error
	if e.pipes, err = openPipes(e.ctx, e.server.cfg.Channels); err != nil {
		e.fail(err, false)
		return false
	}
	e.RequestBody, e.Response = &e.pipes.body, &e.pipes.answer
	e.carry(body, isRead)
	return true
}

// called is how a call ended.
type called struct {
	result json.RawMessage
	err    error
}

// start calls a function. The exchange does not wait for it: it ends by itself when the exchange does.
func (e *exchange) start(id string, f trigger.Firing, b trigger.Binding) <-chan called {
	f.Timeout = 2 * Timeout // the exchange ends it sooner
	done := make(chan called, 1)
	go func() {
		out := called{err: &bus.Error{Code: protocol.CodeInvocationError, Message: "the call ended without an answer"}}
		defer func() {
			if recover() != nil {
				e.server.log.Error("a call panicked", "alarm", "handler_panic", "function_id", id, "stack", string(debug.Stack()))
			}
			done <- out
		}()
		out.result, out.err = e.server.cfg.Caller.Call(e.ctx, b, id, f)
	}()
	return done
}

// call calls a function and waits for its end, while there is time.
func (e *exchange) call(id string, f trigger.Firing, b trigger.Binding) (json.RawMessage, error) {
	done := e.start(id, f, b)
	for {
		select {
		case out := <-done:
			return out.result, out.err
		case err := <-e.carried:
			if e.carried = nil; err != nil {
				return nil, err
			}
		case <-e.limit.C():
			return nil, errTimeout
		case <-e.ctx.Done():
			return nil, e.ctx.Err()
		}
	}
}

// fail answers with an error, or not at all if nobody waits for it.
func (e *exchange) fail(err error, middleware bool) {
	var body *bodyError
	switch {
	case errors.As(err, &body):
		if body.status != 0 {
			writeError(e.out, body.status, body.failure)
			return
		}
		panic(http.ErrAbortHandler)
	case e.in.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case errors.Is(err, errTimeout) && middleware:
		writeError(e.out, http.StatusGatewayTimeout, failure{Code: protocol.CodeMiddlewareTimeout, Message: "A middleware did not answer in time"})
		return
	case errors.Is(err, errTimeout):
		writeError(e.out, http.StatusGatewayTimeout, failure{Code: protocol.CodeTimeoutClient, Message: "The function did not answer in time"})
		return
	}
	cause := bus.AsError(err)
	f := failure{Code: cause.Code, Message: redact.Text(cause.Message)}
	if ofTheBus[cause.Code] {
		f.Message, f.ErrorID = "The request failed", e.server.cfg.IDs.UUID()
	}
	e.server.log.Warn("a request failed", "trigger_id", e.route.binding.ID, "function_id", e.route.binding.FunctionID, "code", cause.Code,
		"error_id", f.ErrorID, "error", redact.Text(cause.Message))
	writeError(e.out, http.StatusInternalServerError, f)
}

// ofTheBus are the codes of failures that no function has chosen. Their messages are not for the public.
var ofTheBus = map[string]bool{
	protocol.CodeInvocationFailed: true, protocol.CodeInvocationError: true, protocol.CodeInvocationStopped: true, protocol.CodeFunctionNotFound: true,
	protocol.CodeFunctionNotInvokable: true, protocol.CodeChannelSendFailed: true, protocol.CodeForbidden: true, protocol.CodeInvalidNamespace: true,
	protocol.CodeDeserialization: true, protocol.CodeSerialization: true, protocol.CodeTimeout: true, protocol.CodeTimeoutClient: true, protocol.CodeUnknown: true,
	protocol.CodeValueTooLarge: true, protocol.CodeInvalidResponse: true, "function_unavailable": true,
}

// end stops what belongs to the exchange and waits for it.
func (e *exchange) end() {
	e.limit.Stop()
	e.cancel()
	e.stopUpload()
	e.wg.Wait()
	e.server.buffered.Add(-e.held)
	if e.pipes != nil {
		e.pipes.close()
	}
}
