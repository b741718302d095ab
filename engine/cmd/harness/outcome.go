package main

import (
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// The outcomes of a turn.
const (
	outcomeEnded   = "ended"
	outcomeParked  = "parked"
	outcomeError   = "error"
	outcomeAborted = "aborted"
	outcomeLimit   = "limit"
	outcomeBusy    = "busy"
)

var outcomeExit = map[string]int{
	outcomeEnded: exitDone, outcomeParked: exitParked, outcomeError: exitTurnError,
	outcomeAborted: exitAborted, outcomeLimit: exitLimit, outcomeBusy: exitBusy,
}

// summary is the last line of turn --json.
type summary struct {
	SessionID        string                   `json:"session_id"`
	MessageID        string                   `json:"message_id"`
	Outcome          string                   `json:"outcome"`
	State            string                   `json:"state"`
	AwaitingApproval []agent.AwaitingApproval `json:"awaiting_approval"`
	Error            *agent.TurnError         `json:"error"`
	Usage            agent.Usage              `json:"usage"`
}

// tracker follows a run by its events.
type tracker struct {
	sum  summary
	last agent.Message // the last complete assistant message
	done bool
}

func newTracker(session, message string) *tracker {
	return &tracker{sum: summary{SessionID: session, MessageID: message, AwaitingApproval: []agent.AwaitingApproval{}}}
}

// see takes the next event and reports whether the run has ended or parked for
// a person.
func (t *tracker) see(kind string, raw json.RawMessage) (bool, error) {
	switch kind {
	case agent.EventMessageComplete:
		var e agent.MessageComplete
		if err := json.Unmarshal(raw, &e); err != nil {
			return false, err
		}
		t.last = e.Message
		t.sum.Usage = addUsage(t.sum.Usage, e.Message.Usage)
	case agent.EventTurnStateChanged:
		var e agent.TurnStateChanged
		if err := json.Unmarshal(raw, &e); err != nil {
			return false, err
		}
		t.sum.State, t.sum.Error = e.NewValue.State, e.NewValue.Error
		t.sum.AwaitingApproval = e.NewValue.AwaitingApproval
		if t.sum.AwaitingApproval == nil {
			t.sum.AwaitingApproval = []agent.AwaitingApproval{}
		}
		if e.NewValue.State == "function_awaiting_approval" && len(e.NewValue.AwaitingApproval) > 0 {
			t.sum.Outcome = outcomeParked
			return true, nil
		}
	case agent.EventAgentEnd:
		t.done = true
		t.sum.Outcome = t.ended()
		return true, nil
	}
	return false, nil
}

func (t *tracker) ended() string {
	m := t.last
	switch {
	case t.sum.State == "failed":
		return outcomeError
	case m.StopReason == agent.StopAborted:
		return outcomeAborted
	case m.StopReason == agent.StopError:
		if t.sum.Error == nil {
			t.sum.Error = &agent.TurnError{Kind: kindOf(m), Message: textOf(m)}
		}
		return outcomeError
	case m.Provider == "" && m.Model == "" && strings.HasPrefix(messageText(m), "loop stopped:"):
		return outcomeLimit
	}
	return outcomeEnded
}

func kindOf(m agent.Message) string {
	if m.ErrorKind != nil {
		return string(*m.ErrorKind)
	}
	return string(agent.ErrTransient)
}

func textOf(m agent.Message) string {
	if m.ErrorMessage != nil {
		return *m.ErrorMessage
	}
	return messageText(m)
}

func addUsage(sum agent.Usage, u *agent.Usage) agent.Usage {
	if u == nil {
		return sum
	}
	add := func(dst **int64, v *int64) {
		if v == nil {
			return
		}
		n := *v
		if *dst != nil {
			n += **dst
		}
		*dst = &n
	}
	add(&sum.Input, u.Input)
	add(&sum.Output, u.Output)
	add(&sum.CacheRead, u.CacheRead)
	add(&sum.CacheWrite, u.CacheWrite)
	if u.CostUSD != nil {
		c := *u.CostUSD
		if sum.CostUSD != nil {
			c += *sum.CostUSD
		}
		sum.CostUSD = &c
	}
	return sum
}
