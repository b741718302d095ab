package turn

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/kernel"
	"github.com/iii-aws/harness/internal/turn/step"
)

// verdict is what the checks of a call came to. Exactly one of its members
// says what happens: denied, ask, or neither, which runs the call.
type verdict struct {
	denied *step.Outcome
	ask    bool
	// args replaces the arguments, nil keeps them.
	args json.RawMessage
	// diff is what a person is shown beside the arguments, empty for none.
	diff string
}

func deny(o step.Outcome) verdict { return verdict{denied: &o} }

// checker asks the gates about the calls of one batch. It shares nothing with
// the driver: its checks run beside each other.
type checker struct {
	t         *Turn
	principal bus.Principal
	session   string
}

// consult checks a call that nobody approved: kernel, policy, before-hook, and
// kernel and policy again if the hook changed the arguments. A standing grant
// answers for the person who would be asked, and beats nothing else.
func (c checker) consult(ctx context.Context, call step.Call) verdict {
	v := c.gates(ctx, call)
	if !v.ask {
		return v
	}
	args := call.Arguments.Raw
	if v.args != nil {
		args = v.args
	}
	v.ask = !c.granted(ctx, call.FunctionID, args)
	if v.ask {
		v.diff = c.preview(ctx, call.FunctionID, args)
	}
	return v
}

// granted reports whether a person has let this very call pass for the rest of
// the session. A row that cannot be read grants nothing.
func (c checker) granted(ctx context.Context, functionID string, args json.RawMessage) bool {
	hash := step.ArgsHash(functionID, args)
	var g agent.Grant
	ok, err := c.t.readRow(ctx, agent.ScopeApprovalGrants, c.session+"/"+hash, &g)
	if err != nil {
		c.t.Logger.Warn("grant not read, the call waits for a person", "session", c.session, "error", err)
	}
	return ok && g.FunctionID == functionID && g.ArgsHash == hash
}

// gates asks kernel, policy and hook.
func (c checker) gates(ctx context.Context, call step.Call) verdict {
	v := c.rules(ctx, call)
	if v.denied != nil {
		return v
	}
	args, denied := c.before(ctx, call)
	if denied != nil {
		return deny(*denied)
	}
	if args == nil || bytes.Equal(args, call.Arguments.Raw) {
		return v
	}
	call.Arguments = step.Value{Raw: args}
	again := c.rules(ctx, call)
	again.args = args
	return again
}

// recheck checks a call that a person approved: only a deny stops it.
func (c checker) recheck(ctx context.Context, call step.Call) verdict {
	v := c.rules(ctx, call)
	v.ask = false
	return v
}

// rules asks kernel and policy.
func (c checker) rules(ctx context.Context, call step.Call) verdict {
	entry, _ := c.t.Directory.Lookup(bus.DefaultNamespace, call.FunctionID)
	if rule, denied := kernel.Deny(call.FunctionID, entry.Meta); denied {
		return deny(step.Denial{
			By: step.DeniedByPermissions, FunctionID: call.FunctionID, RuleID: rule, RuleAction: "deny",
			Excerpt: redact.Excerpt(call.Arguments.Raw),
		}.Outcome())
	}
	if c.t.cfg.PolicyNone {
		return verdict{}
	}
	return c.policy(ctx, call)
}

type policyReply struct {
	Decision   string        `json:"decision"`
	RuleID     string        `json:"rule_id"`
	RuleAction string        `json:"rule_action"`
	Matched    *step.Matched `json:"matched_constraint"`
}

// policy asks policy::check_permissions. What is no clear answer is a denial.
func (c checker) policy(ctx context.Context, call step.Call) verdict {
	raw, err := c.t.within(ctx, bus.Invocation{
		FunctionID: "policy::check_permissions", Principal: &c.principal, Timeout: c.t.cfg.PolicyTimeout,
		Data: encode(map[string]any{"function_id": call.FunctionID, "args": call.Arguments.Raw}),
	})
	if err != nil {
		code, message := describe(err)
		return c.unreachable("policy unreachable: "+code+": "+message, call)
	}
	var r policyReply
	if err := json.Unmarshal(raw, &r); err != nil {
		return c.unreachable("policy unreachable: its answer cannot be read", call)
	}
	switch r.Decision {
	case "allow":
		return verdict{}
	case "needs_approval":
		return verdict{ask: true}
	case "deny":
		if r.RuleAction == "" {
			r.RuleAction = "deny"
		}
		return deny(step.Denial{
			By: step.DeniedByPermissions, FunctionID: call.FunctionID, RuleID: r.RuleID, RuleAction: r.RuleAction,
			Matched: r.Matched, Excerpt: redact.Excerpt(call.Arguments.Raw),
		}.Outcome())
	}
	return c.unreachable("policy unreachable: its decision is not known", call)
}

// unreachable is the denial of a gate that could not be asked.
func (c checker) unreachable(reason string, call step.Call) verdict {
	c.t.Logger.Warn("gate unavailable, call denied", "session", c.session, "function", redact.Name(call.FunctionID), "reason", reason)
	return deny(step.Denial{By: step.DeniedByGate, FunctionID: call.FunctionID, Reason: reason}.Outcome())
}
