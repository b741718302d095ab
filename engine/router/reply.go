package router

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
)

// ScopeCallResults is the scope of results whose callers no longer wait; the key is <session>/<function call id>.
const ScopeCallResults = "call_results"

// Writing a row is tried rowAttempts times, with pauses from rowPause on, doubled each time.
const (
	rowAttempts = 6
	rowPause    = 100 * time.Millisecond
)

// Sources of a row.
const (
	// SourceTarget is a row with the answer of the function.
	SourceTarget = "target"
	// SourceStopped is a row of a call whose worker went before it answered.
	SourceStopped = "stopped"
)

// resultRow is the value of a row. Result is null for no value, and absent beside an error.
type resultRow struct {
	Run    string          `json:"run"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rowError       `json:"error,omitempty"`
	Source string          `json:"source"`
	AtMS   int64           `json:"at_ms"`
}

// rowError is an error without its stack, which may name files of the worker.
type rowError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// writeRow stores the result of a call whose caller no longer waits. The first row of a call stands: a deadline or an
// earlier answer is not replaced.
func (r *Router) writeRow(c *call, reply bus.Reply, out outcome) {
	row := resultRow{Run: reply.Run, Result: out.result, Source: SourceTarget, AtMS: clock.Millis(r.cfg.Clock.Now())}
	switch {
	case out.err != nil:
		e := bus.AsError(out.err)
		row.Result, row.Error = nil, &rowError{e.Code, e.Message}
		if e.Code == protocol.CodeInvocationStopped {
			row.Source = SourceStopped
		}
	case row.Result == nil:
		row.Result = json.RawMessage("null")
	}
	value, err := bus.Encode(row)
	if err == nil {
		w := state.Set(ScopeCallResults, reply.SessionID+"/"+reply.FunctionCallID, value).IfAbsent()
		w.Origin = state.Origin{Principal: c.Principal, Traceparent: c.Traceparent, Baggage: c.Baggage}
		err = r.create(w)
	}
	if err != nil {
		r.log.Error("the result of a call is lost", "alarm", "result_lost",
			"function_id", c.FunctionID, "session_id", reply.SessionID, "function_call_id", reply.FunctionCallID, "error", err)
	}
}

// create stores a row unless there is one. A passing fault of the store is waited out.
func (r *Router) create(w state.Write) error {
	pause := rowPause
	for try := 1; ; try++ {
		_, err := state.Do(context.Background(), r.cfg.State, w)
		var conflict *state.ConflictError
		switch {
		case err == nil, errors.As(err, &conflict):
			return nil
		case try == rowAttempts || !bus.Retryable(err):
			return err
		}
		timer := r.cfg.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-r.base.Done():
			timer.Stop()
			return err
		}
		pause *= 2
	}
}
