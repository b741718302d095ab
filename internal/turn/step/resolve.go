package step

import (
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// Resolve is the message that a source of the outbox names. Sources are
//
//	a:<entry id>   an assistant message
//	m:<entry id>   a user message
//	r:<call id>    the result of a call as its target gave it
//	f:<call id>    the result as the transcript has it
func (r *Record) Resolve(source string) (Value, bool) {
	if v, ok := r.Outbox.Held[source]; ok {
		return v, true
	}
	kind, id, _ := strings.Cut(source, ":")
	switch kind {
	case "a":
		return r.LastAssistant, r.LastAssistantID == id && !r.LastAssistant.IsZero()
	case "m":
		for _, m := range r.Messages {
			if m.EntryID == id {
				return m.Message, true
			}
		}
	case "r":
		if r.Work != nil {
			if ex, ok := r.Work.Executed[id]; ok {
				return Of(ex.message()), true
			}
		}
		return r.Resolve("f:" + id)
	case "f":
		for _, v := range r.FunctionResults {
			var m agent.Message
			if json.Unmarshal(v.Raw, &m) == nil && m.FunctionCallID == id {
				return v, true
			}
		}
	}
	return Value{}, false
}

// message is the transcript's form of a result.
func (e Executed) message() agent.Message {
	var res agent.FunctionResult
	if json.Unmarshal(e.Result.Raw, &res) != nil {
		res = Failure{Code: "unreadable_result", Message: "the stored result cannot be read"}.Outcome().Result
	}
	return agent.Message{
		Role: agent.RoleFunctionResult, FunctionCallID: e.Call.ID, FunctionID: e.Call.FunctionID,
		Content: res.Content, Details: res.Details, IsError: e.IsError, Timestamp: e.AtMS,
	}
}

// Values are the record's values, for whoever loads and stores them.
func (r *Record) Values() []*Value {
	out := []*Value{&r.Request, &r.LastAssistant}
	for i := range r.Messages {
		out = append(out, &r.Messages[i].Message)
	}
	for i := range r.FunctionResults {
		out = append(out, &r.FunctionResults[i])
	}
	if r.Work != nil {
		for i := range r.Work.Prepared {
			p := &r.Work.Prepared[i]
			out = append(out, &p.Call.Arguments)
			if p.Result != nil {
				out = append(out, p.Result)
			}
		}
	}
	for i := range r.AwaitingApproval {
		out = append(out, &r.AwaitingApproval[i].Args)
	}
	for _, items := range [2][]Item{r.Outbox.Items, r.fresh} {
		for i := range items {
			out = append(out, &items[i].Value)
			if e := items[i].Event; e != nil {
				out = append(append(out, e.New.values()...), e.Old.values()...)
			}
		}
	}
	return out
}

// EachKept calls f on the values that live in maps: results and held copies. f
// may change the value.
func (r *Record) EachKept(f func(*Value) error) error {
	if r.Work != nil {
		for id, ex := range r.Work.Executed {
			if err := f(&ex.Result); err != nil {
				return err
			}
			r.Work.Executed[id] = ex
		}
	}
	for key, v := range r.Outbox.Held {
		if err := f(&v); err != nil {
			return err
		}
		r.Outbox.Held[key] = v
	}
	return nil
}

func (g *Glimpse) values() []*Value {
	if g == nil {
		return nil
	}
	out := make([]*Value, len(g.AwaitingApproval))
	for i := range g.AwaitingApproval {
		out[i] = &g.AwaitingApproval[i].Args
	}
	return out
}
