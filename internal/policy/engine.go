package policy

import (
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/kernel"
)

// Kind is the outcome of a decision.
type Kind string

// The outcomes.
const (
	Allowed       Kind = "allow"
	Denied        Kind = "deny"
	NeedsApproval Kind = "needs_approval"
)

// Decision is the outcome with its reasons.
type Decision struct {
	Decision   Kind     `json:"decision"`
	RuleID     string   `json:"rule_id,omitempty"`
	RuleAction Action   `json:"rule_action,omitempty"`
	Matched    *Matched `json:"matched_constraint,omitempty"`
}

// Rules is an immutable set of rules. The zero value has none: what the kernel
// does not deny needs approval.
type Rules struct {
	rules []rule
	// scopes are those that agents may read.
	scopes []string
	// noAllows leaves the kernel's allows out: the file could not be read.
	noAllows bool
	// everything allows what the kernel does not deny.
	everything bool
	// warnings are what Parse found odd.
	warnings []string
}

// None allows everything that the kernel does not deny. It has to be asked for
// in words.
func None() *Rules { return &Rules{everything: true} }

// Closed is what serves while the file cannot be read.
func Closed() *Rules { return &Rules{noAllows: true} }

// Len is the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

// Warnings are what is odd in the file but no mistake: rule ids that repeat
// and rules that never match. Each is one line that names its place.
func (r *Rules) Warnings() []string { return slices.Clone(r.warnings) }

// answer is the decision as policy::check_permissions gives it: an allow names
// its rule only, and what is no outcome needs an approval.
func (d Decision) answer() Decision {
	switch d.Decision {
	case Allowed:
		return Decision{Decision: Allowed, RuleID: d.RuleID}
	case Denied:
		return d
	default:
		return Decision{Decision: NeedsApproval}
	}
}

// Decide judges a call. It depends on nothing else.
func (r *Rules) Decide(functionID string, args json.RawMessage, meta bus.Meta) Decision {
	if id, denied := kernel.Deny(functionID, meta); denied {
		return Decision{Decision: Denied, RuleID: id, RuleAction: Deny}
	}
	if r.everything {
		return Decision{Decision: Allowed}
	}
	a := arguments{raw: args}
	for i := range r.rules {
		rule := &r.rules[i]
		if !rule.matches(functionID, &a) {
			continue
		}
		d := Decision{Decision: Kind(rule.action), RuleID: rule.id}
		if rule.action == Deny {
			d.RuleAction = Deny
		}
		if len(rule.constraints) > 0 {
			d.Matched = rule.constraints[0].report()
		}
		return d
	}
	if !r.noAllows {
		if id, ok := kernel.Allow(functionID, args, r.scopes); ok {
			return Decision{Decision: Allowed, RuleID: id}
		}
	}
	return Decision{Decision: NeedsApproval}
}
