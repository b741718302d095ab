package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// Event is an event that is owed. It points at messages, it does not hold them.
type Event struct {
	Type string `json:"type"`

	// Assistant is the source of the message of message_complete and turn_end
	// and of the arguments of function_execution_start.
	Assistant    string `json:"assistant,omitempty"`
	BodyStreamed bool   `json:"body_streamed,omitempty"`

	// CallID, Function and Block name a call; Result is the source of what
	// function_execution_end tells.
	CallID     string `json:"call_id,omitempty"`
	Function   string `json:"function,omitempty"`
	Block      int    `json:"block,omitempty"`
	Result     string `json:"result,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
	Terminate  bool   `json:"terminate,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`

	// Results and Limit belong to turn_end.
	Results []string          `json:"results,omitempty"`
	Limit   *agent.ModelLimit `json:"limit,omitempty"`

	// Transcript: agent_end carries the messages of the session.
	Transcript bool `json:"transcript,omitempty"`

	New *Glimpse `json:"new,omitempty"`
	Old *Glimpse `json:"old,omitempty"`
}

func (e *Event) sources() []string {
	out := append([]string(nil), e.Results...)
	if e.Assistant != "" {
		out = append(out, e.Assistant)
	}
	if e.Result != "" {
		out = append(out, e.Result)
	}
	return out
}

// LostError: an item points at something that the record does not have. It is
// a fault of the record, not of the world.
type LostError struct{ Source string }

// Error is the text of the error.
func (e *LostError) Error() string { return "turn: the record has lost " + e.Source }

// ErrorCode is turn_state_invariant.
func (e *LostError) ErrorCode() string { return "turn_state_invariant" }

// Payload is the event as the log stores it. Transcript is the messages for an
// agent_end that carries them. Errors: *LostError.
func (r *Record) Payload(e *Event, transcript []agent.Message) (json.RawMessage, error) {
	switch e.Type {
	case agent.EventTurnStateChanged:
		return encode(stateChanged(r.SessionID, e)), nil
	case agent.EventMessageComplete:
		m, err := r.message(e.Assistant)
		return encode(agent.MessageComplete{Type: e.Type, Message: m, BodyStreamed: e.BodyStreamed}), err
	case agent.EventExecutionStart:
		args, err := r.announced(e)
		return encode(agent.ExecutionStart{Type: e.Type, FunctionCallID: e.CallID, FunctionID: e.Function, Args: args}), err
	case agent.EventExecutionEnd:
		m, err := r.message(e.Result)
		return encode(agent.ExecutionEnd{
			Type: e.Type, FunctionCallID: e.CallID, FunctionID: e.Function, IsError: e.IsError, DurationMS: e.DurationMS,
			Result: agent.FunctionResult{Content: m.Content, Details: m.Details, Terminate: e.Terminate},
		}), err
	case agent.EventTurnEnd:
		return r.turnEnd(e)
	}
	if transcript == nil {
		transcript = []agent.Message{}
	}
	return encode(agent.AgentEnd{Type: e.Type, Messages: transcript}), nil
}

func stateChanged(session string, e *Event) agent.TurnStateChanged {
	out := agent.TurnStateChanged{Type: e.Type, EventType: "state:created", NewValue: e.New.view(session)}
	if e.Old != nil {
		old := e.Old.view(session)
		out.EventType, out.OldValue = "state:updated", &old
	}
	return out
}

func (r *Record) turnEnd(e *Event) (json.RawMessage, error) {
	m, err := r.message(e.Assistant)
	out := agent.TurnEnd{Type: e.Type, Message: m, FunctionResults: []agent.Message{}, ModelLimit: e.Limit}
	for _, source := range e.Results {
		res, lost := r.message(source)
		if lost != nil {
			err = lost
		}
		out.FunctionResults = append(out.FunctionResults, res)
	}
	return encode(out), err
}

// message is the message that a source names. The empty message of an error
// is a user message, so that it can be encoded.
func (r *Record) message(source string) (agent.Message, error) {
	v, ok := r.Resolve(source)
	var m agent.Message
	if !ok || json.Unmarshal(v.Raw, &m) != nil {
		return agent.Message{Role: agent.RoleUser}, &LostError{Source: source}
	}
	return m, nil
}

// announced is the arguments of a call as the model wrote them.
func (r *Record) announced(e *Event) (json.RawMessage, error) {
	m, err := r.message(e.Assistant)
	if err != nil || e.Block >= len(m.Content) {
		return json.RawMessage("{}"), &LostError{Source: e.Assistant}
	}
	_, args, _ := Unwrap(m.Content[e.Block])
	return args, nil
}
