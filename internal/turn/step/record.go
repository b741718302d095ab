package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// Format is the version of the record that this code writes.
const Format = 1

// Record is a turn: one item of the scope turn_state, keyed by its session.
type Record struct {
	SessionID string `json:"session_id"`
	V         int64  `json:"v"`
	State     State  `json:"state"`
	Run       string `json:"run"`
	MessageID string `json:"message_id"`
	TurnCount int64  `json:"turn_count"`
	MaxTurns  *int64 `json:"max_turns,omitempty"`

	// Lease is raised by every delivery that takes the turn.
	Lease int64 `json:"lease"`
	// SeenRev is the rev of the control item that the last step acted on.
	SeenRev int64 `json:"seen_rev"`
	// Principal started the run; the turn's calls are made for it.
	Principal bus.Principal `json:"principal"`

	// Request is what run::start asked for, until provisioning has stored it.
	Request Value `json:"request,omitzero"`
	// Messages are the new messages of the run, until they are delivered.
	Messages []UserMessage `json:"messages,omitempty"`
	// LeafID is the transcript entry that the next one hangs on; empty hangs
	// it on the session's active leaf.
	LeafID    string          `json:"leaf_id,omitempty"`
	ModelMeta json.RawMessage `json:"model_meta,omitempty"`

	// LastAssistant is the last message of the model, LastAssistantID its
	// entry id.
	LastAssistant         Value  `json:"last_assistant"`
	LastAssistantID       string `json:"last_assistant_id,omitempty"`
	AssistantBodyStreamed bool   `json:"assistant_body_streamed,omitempty"`
	TurnEndEmitted        bool   `json:"turn_end_emitted"`
	// FunctionResults are the messages of the last finished batch that the
	// model has not seen.
	FunctionResults []Value `json:"function_results"`

	Work             *Work           `json:"work,omitempty"`
	AwaitingApproval []ApprovalWait  `json:"awaiting_approval,omitempty"`
	AwaitingResult   []ResultWait    `json:"awaiting_result,omitempty"`
	Ledger           map[string]Mark `json:"ledger,omitempty"`

	// Wait is a pause: nothing but an abort moves the turn before it is over.
	Wait *Wait `json:"wait,omitempty"`
	// Reservation is the open reservation of the model call, see Reserved.
	Reservation string `json:"reservation,omitempty"`

	// SandboxID is the sandbox of the run, if it asked for one.
	SandboxID string `json:"sandbox_id,omitempty"`

	Error  *agent.TurnError `json:"error,omitempty"`
	Outbox Outbox           `json:"outbox,omitzero"`
	// EventSeq numbers the events of the run.
	EventSeq int64 `json:"event_seq,omitempty"`

	DueAt       int64 `json:"due_at,omitempty"`
	StartedAtMS int64 `json:"started_at_ms"`
	UpdatedAtMS int64 `json:"updated_at_ms"`

	// Version is the storage version that the next write depends on, 0 if the
	// record is not stored.
	Version int64 `json:"-"`
	// Extra holds members that this code does not know.
	Extra map[string]json.RawMessage `json:"-"`

	// fresh is what was emitted since the last Seal, seen the last view told.
	fresh []Item
	seen  *Glimpse
	// retries counts the pauses of the model call that is being made.
	retries int64
}

// UserMessage is a message of run::start with the id of its entry.
type UserMessage struct {
	EntryID string `json:"entry_id"`
	Message Value  `json:"message"`
}

// Work is the batch of calls of the last assistant message.
type Work struct {
	Prepared []Prepared          `json:"prepared"`
	Executed map[string]Executed `json:"executed"`
}

// Route says how a prepared call is resolved.
type Route string

// The routes of a prepared call.
const (
	// Dispatch: policy is asked first.
	Dispatch Route = "dispatch"
	// PreApproved: a person allowed it; only a deny of the rules stops it.
	PreApproved Route = "pre_approved"
	// Synthetic: it has its result already.
	Synthetic Route = "synthetic"
)

// Call is a call to dispatch. Arguments is what the target gets.
type Call struct {
	ID         string `json:"id"`
	FunctionID string `json:"function_id"`
	Arguments  Value  `json:"arguments"`
}

// Prepared is one call of the batch.
type Prepared struct {
	Route Route `json:"route"`
	Call  Call  `json:"call"`
	// Result is set on the route Synthetic.
	Result *Value `json:"result,omitempty"`
	// Block is the index of the call's block in the last assistant message.
	Block int `json:"block"`
	// Announced: its start event was emitted.
	Announced bool `json:"announced,omitempty"`
}

// Executed is a call that has its result.
type Executed struct {
	Call       CallRef `json:"call"`
	Result     Value   `json:"result"`
	IsError    bool    `json:"is_error"`
	Terminate  bool    `json:"terminate,omitempty"`
	DurationMS int64   `json:"duration_ms"`
	AtMS       int64   `json:"at_ms"`
}

// CallRef names a call whose arguments are in the batch.
type CallRef struct {
	ID         string `json:"id"`
	FunctionID string `json:"function_id"`
}

// ApprovalWait is a call that waits for a person.
type ApprovalWait struct {
	FunctionCallID string `json:"function_call_id"`
	FunctionID     string `json:"function_id"`
	Args           Value  `json:"args"`
	RequestedAt    int64  `json:"requested_at,omitempty"`
	// ExpiresAt is when the wait counts as a denial, 0 never.
	ExpiresAt int64 `json:"expires_at,omitempty"`
}

// ResultWait is a call whose result will be stored as a row.
type ResultWait struct {
	FunctionCallID string `json:"function_call_id"`
	FunctionID     string `json:"function_id"`
	DeadlineMS     int64  `json:"deadline_ms"`
}

// MarkState is how far the ledger says that a call got.
type MarkState string

// The states of a mark.
const (
	MarkPrepared MarkState = "prepared"
	MarkStarted  MarkState = "started"
	MarkDone     MarkState = "done"
)

// Mark is the ledger's line for a call. A call that is marked started may have
// had its effect, whatever else is known.
type Mark struct {
	State          MarkState `json:"state"`
	Attempt        int64     `json:"attempt,omitempty"`
	At             int64     `json:"at,omitempty"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	EntryID        string    `json:"entry_id,omitempty"`
}

// Wait is a pause of the turn.
type Wait struct {
	UntilMS int64  `json:"until_ms"`
	TimerID string `json:"timer_id"`
	Reason  string `json:"reason"`
	// N counts the pauses of one model call, from 1.
	N int64 `json:"n"`
}

// Call is the prepared call with that id, nil if there is none.
func (r *Record) Call(id string) *Prepared {
	if r.Work == nil {
		return nil
	}
	for i := range r.Work.Prepared {
		if r.Work.Prepared[i].Call.ID == id {
			return &r.Work.Prepared[i]
		}
	}
	return nil
}

// Done reports whether a call has its result.
func (r *Record) Done(id string) bool {
	if r.Work == nil {
		return false
	}
	_, ok := r.Work.Executed[id]
	return ok
}

// Started reports whether a call may have had its effect.
func (r *Record) Started(id string) bool { return r.Ledger[id].State == MarkStarted }

// Approval is the entry of a call that waits for a person, nil if none.
func (r *Record) Approval(id string) *ApprovalWait {
	for i := range r.AwaitingApproval {
		if r.AwaitingApproval[i].FunctionCallID == id {
			return &r.AwaitingApproval[i]
		}
	}
	return nil
}

// Waited is the entry of a call whose result will be stored, nil if none.
func (r *Record) Waited(id string) *ResultWait {
	for i := range r.AwaitingResult {
		if r.AwaitingResult[i].FunctionCallID == id {
			return &r.AwaitingResult[i]
		}
	}
	return nil
}

// Open is the ids of the batch's calls without a result, in order.
func (r *Record) Open() []string {
	var out []string
	if r.Work == nil {
		return nil
	}
	for _, p := range r.Work.Prepared {
		if !r.Done(p.Call.ID) {
			out = append(out, p.Call.ID)
		}
	}
	return out
}

// Assistant is the last message of the model; ok is false if there is none or
// it cannot be read.
func (r *Record) Assistant() (m agent.Message, ok bool) {
	if len(r.LastAssistant.Raw) == 0 {
		return agent.Message{}, false
	}
	return m, json.Unmarshal(r.LastAssistant.Raw, &m) == nil
}
