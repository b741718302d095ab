package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// NewerError: the record was written by newer code. A step leaves it alone and
// is called again; run::start answers that the session is busy.
type NewerError struct {
	SessionID string
	V         int64
	State     State
}

// Error is the text of the error.
func (e *NewerError) Error() string {
	return fmt.Sprintf("turn: the record of session %q was written by newer code (format %d, state %q), this code knows format %d", e.SessionID, e.V, e.State, Format)
}

// ErrorCode is newer_record.
func (e *NewerError) ErrorCode() string { return "newer_record" }

// Retryable: by the code that wrote it.
func (e *NewerError) Retryable() bool { return true }

// BrokenError: the stored text is no record.
type BrokenError struct{ Err error }

// Error is the text of the error.
func (e *BrokenError) Error() string {
	return "turn: the stored record cannot be read: " + e.Err.Error()
}

// Unwrap is the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// ErrorCode is turn_state_invariant.
func (e *BrokenError) ErrorCode() string { return "turn_state_invariant" }

// members are the JSON names of a record's fields.
var members = func() map[string]bool {
	out := map[string]bool{}
	t := reflect.TypeFor[Record]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = true
		}
	}
	return out
}()

// Parse reads a stored record and its storage version. Members of a wrong type
// take their zero, unknown ones are kept. Errors: *BrokenError, *NewerError
// (with the record as far as it was understood).
func Parse(data []byte, version int64) (*Record, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, &BrokenError{Err: err}
	}
	r := &Record{Version: version}
	type plain Record
	if json.Unmarshal(data, (*plain)(r)) != nil {
		*r = Record{Version: version}
		r.readEach(m)
	}
	for name, raw := range m {
		if !members[name] {
			if r.Extra == nil {
				r.Extra = map[string]json.RawMessage{}
			}
			r.Extra[name] = raw
		}
	}
	r.repair()
	if r.V > Format || !r.State.Known() {
		return r, &NewerError{SessionID: r.SessionID, V: r.V, State: r.State}
	}
	return r, nil
}

// readEach reads member by member, so that a bad one costs only itself.
func (r *Record) readEach(m map[string]json.RawMessage) {
	read(m, "session_id", &r.SessionID)
	read(m, "state", &r.State)
	read(m, "run", &r.Run)
	read(m, "message_id", &r.MessageID)
	read(m, "max_turns", &r.MaxTurns)
	read(m, "principal", &r.Principal)
	read(m, "request", &r.Request)
	read(m, "messages", &r.Messages)
	read(m, "leaf_id", &r.LeafID)
	read(m, "model_meta", &r.ModelMeta)
	read(m, "last_assistant", &r.LastAssistant)
	read(m, "last_assistant_id", &r.LastAssistantID)
	read(m, "assistant_body_streamed", &r.AssistantBodyStreamed)
	read(m, "turn_end_emitted", &r.TurnEndEmitted)
	read(m, "function_results", &r.FunctionResults)
	read(m, "work", &r.Work)
	read(m, "awaiting_approval", &r.AwaitingApproval)
	read(m, "awaiting_result", &r.AwaitingResult)
	read(m, "ledger", &r.Ledger)
	read(m, "wait", &r.Wait)
	read(m, "reservation", &r.Reservation)
	read(m, "sandbox_id", &r.SandboxID)
	read(m, "error", &r.Error)
	read(m, "outbox", &r.Outbox)
	for name, dst := range map[string]*int64{
		"v": &r.V, "turn_count": &r.TurnCount, "lease": &r.Lease, "seen_rev": &r.SeenRev, "event_seq": &r.EventSeq,
		"due_at": &r.DueAt, "started_at_ms": &r.StartedAtMS, "updated_at_ms": &r.UpdatedAtMS,
	} {
		var n float64
		read(m, name, &n)
		*dst = int64(n)
	}
}

// read leaves dst at its zero if the member is absent or of another type.
func read[T any](m map[string]json.RawMessage, name string, dst *T) {
	var v T
	if raw, ok := m[name]; ok && json.Unmarshal(raw, &v) == nil {
		*dst = v
	}
}

// repair brings what was read into the form that the transitions expect.
func (r *Record) repair() {
	r.TurnCount = max(r.TurnCount, 0)
	if bytes.Equal(r.ModelMeta, []byte("null")) {
		r.ModelMeta = nil
	}
	if r.Work != nil && r.Work.Executed == nil {
		r.Work.Executed = map[string]Executed{}
	}
	r.seen = r.glimpse()
}

// Encode is the record as it is stored.
func (r *Record) Encode() json.RawMessage {
	r.V = Format
	if r.FunctionResults == nil {
		r.FunctionResults = []Value{}
	}
	type plain Record
	text := encode((*plain)(r))
	if len(r.Extra) == 0 {
		return text
	}
	extra := encode(r.Extra)
	return append(append(text[:len(text)-1:len(text)-1], ','), extra[1:]...)
}
