package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// BeginTurn opens a model call. It answers false, and has ended the run, if
// max_turns was reached. A record that comes out of a pause repeats the call
// of the same turn.
func (r *Record) BeginTurn(now int64) bool {
	if r.Wait != nil {
		r.retries = r.Wait.N
		r.Wait = nil
		return true
	}
	if r.AtLimit() {
		r.StopAtLimit(now)
		return false
	}
	r.retries = 0
	r.TurnCount++
	r.TurnEndEmitted = false
	r.AssistantBodyStreamed = false
	return true
}

// AtLimit reports whether max_turns was reached.
func (r *Record) AtLimit() bool { return r.MaxTurns != nil && r.TurnCount >= *r.MaxTurns }

// Retries is the number of pauses of the model call that is being made.
func (r *Record) Retries() int64 { return r.retries }

// AssistantEntryID is the entry id of the message that the model is asked for.
func (r *Record) AssistantEntryID() string {
	return EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleAssistant), "")
}

// Adopt gives the calls of a message the turn's own ids; those of the provider
// stay beside them.
func (r *Record) Adopt(m *agent.Message) {
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != agent.BlockFunctionCall {
			continue
		}
		if b.ProviderCallID == "" {
			b.ProviderCallID = b.ID
		}
		b.ID = CallID(r.SessionID, r.Run, r.TurnCount, i)
	}
}

// Reply is what a model call came to.
type Reply struct {
	// Message is final, its calls adopted.
	Message agent.Message
	// Kept is the text and thinking that were streamed before a failure.
	Kept         []agent.Block
	BodyStreamed bool
	Limit        *agent.ModelLimit
}

// AssistantFinished takes the model's message: it is owed to the transcript
// and to the viewers, and its calls become the batch. A failed or aborted
// message ends the run.
func (r *Record) AssistantFinished(a Reply, now int64) {
	broken := a.Message.StopReason == agent.StopError || a.Message.StopReason == agent.StopAborted
	if broken {
		a.Message.Content = withoutCalls(a.Message.Content)
	}
	id := r.AssistantEntryID()
	r.Request = Value{}
	r.setAssistant(id, a.Message)
	r.AssistantBodyStreamed = a.BodyStreamed
	r.emit(Event{Type: agent.EventMessageComplete, Assistant: "a:" + id, BodyStreamed: a.BodyStreamed})
	if broken {
		r.keepPartial(id, a)
		r.endTurn(nil, a.Limit)
		r.finish(now)
		return
	}
	r.append(id, "a:"+id)
	if len(a.Message.Calls()) == 0 {
		r.move(Steering, now)
		return
	}
	r.dropResults()
	r.plan(a.Message)
	r.move(Executing, now)
}

// keepPartial owes the transcript what was already shown of a message that
// broke off. An error without any text leaves no entry.
func (r *Record) keepPartial(id string, a Reply) {
	kept := withoutCalls(a.Kept)
	if len(kept) == 0 {
		return
	}
	m := a.Message
	m.Content, m.Details = kept, json.RawMessage(`{"interrupted":true}`)
	r.keep("a:"+id+":partial", Of(m))
	r.append(id, "a:"+id+":partial")
}

func withoutCalls(content []agent.Block) []agent.Block {
	out := []agent.Block{}
	for _, b := range content {
		if b.Type != agent.BlockFunctionCall && (b.Text != "" || (b.Type != agent.BlockText && b.Type != agent.BlockThinking)) {
			out = append(out, b)
		}
	}
	return out
}

// setAssistant replaces the last message of the model.
func (r *Record) setAssistant(id string, m agent.Message) {
	r.hold("a:")
	r.LastAssistant, r.LastAssistantID = Of(m), id
}

// dropResults forgets the results that the model has seen.
func (r *Record) dropResults() {
	r.hold("f:")
	r.hold("r:")
	r.FunctionResults = []Value{}
	r.Work = nil
}

// endTurn emits turn_end, once per turn.
func (r *Record) endTurn(results []string, limit *agent.ModelLimit) {
	if r.TurnEndEmitted {
		return
	}
	r.TurnEndEmitted = true
	r.emit(Event{Type: agent.EventTurnEnd, Assistant: "a:" + r.LastAssistantID, Results: results, Limit: limit})
}
