package step

import (
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/internal/agent"
)

// The parties that deny.
const (
	DeniedByPermissions = "permissions"
	DeniedByUser        = "user"
	DeniedByHook        = "hook"
	DeniedByGate        = "gate_unavailable"
)

// Matched is the constraint that made a rule apply.
type Matched struct {
	Field    string          `json:"field"`
	Operator string          `json:"operator"`
	Value    json.RawMessage `json:"value"`
}

// Denial is the envelope of a call that was not run.
type Denial struct {
	By         string
	FunctionID string
	RuleID     string
	RuleAction string
	Matched    *Matched
	// Excerpt is the redacted arguments; absent for DeniedByGate.
	Excerpt json.RawMessage
	// Reason is made up for DeniedByPermissions if empty.
	Reason string
	// Decision is the human decision, for DeniedByUser.
	Decision string
}

type envelope struct {
	SchemaVersion    int             `json:"schema_version"`
	Status           string          `json:"status"`
	DeniedBy         string          `json:"denied_by"`
	FunctionID       string          `json:"function_id"`
	RuleID           string          `json:"rule_id,omitempty"`
	RuleAction       string          `json:"rule_action,omitempty"`
	Matched          *Matched        `json:"matched_constraint,omitempty"`
	ArgsExcerpt      json.RawMessage `json:"args_excerpt,omitempty"`
	Reason           string          `json:"reason"`
	ApprovalDenied   bool            `json:"approval_denied,omitempty"`
	ApprovalDecision string          `json:"decision,omitempty"`
}

// Outcome is the denial as a result.
func (d Denial) Outcome() Outcome {
	e := envelope{
		SchemaVersion: 1, Status: "denied", DeniedBy: d.By, FunctionID: d.FunctionID,
		RuleID: d.RuleID, RuleAction: d.RuleAction, Matched: d.Matched, ArgsExcerpt: d.Excerpt, Reason: d.Reason,
	}
	text := d.Reason
	switch d.By {
	case DeniedByPermissions:
		if e.Reason == "" {
			e.Reason = d.ruleReason()
		}
		text = e.Reason
	case DeniedByUser:
		e.ApprovalDenied, e.ApprovalDecision = true, d.Decision
		text = "Denied by the user: " + d.Reason
		if d.Decision == agent.DecisionAborted {
			text = "Aborted: " + d.Reason
		}
	}
	return Outcome{IsError: true, Result: agent.FunctionResult{
		Content: []agent.Block{agent.Text(text)}, Details: encode(e), Terminate: d.Decision == agent.DecisionAborted,
	}}
}

func (d Denial) ruleReason() string {
	why := ""
	if m := d.Matched; m != nil {
		why = fmt.Sprintf(" because its argument %q %s %s", m.Field, m.Operator, m.Value)
	}
	return fmt.Sprintf("The rule %q does not permit %s%s. Use other arguments, or another function.", d.RuleID, d.FunctionID, why)
}
