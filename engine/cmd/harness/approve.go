package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/internal/agent"
)

func (a *app) approveCommand() *cobra.Command {
	return a.decideCommand(agent.DecisionAllow, "approve SESSION CALL", "Let a waiting call run")
}

func (a *app) denyCommand() *cobra.Command {
	return a.decideCommand(agent.DecisionDeny, "deny SESSION CALL", "Refuse a waiting call; the model is told")
}

type decisionAnswer struct {
	OK        bool   `json:"ok"`
	Error     string `json:"error,omitempty"`
	Decision  string `json:"decision,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
}

func (a *app) decideCommand(decision, use, short string) *cobra.Command {
	var reason string
	var remember bool
	c := &cobra.Command{Use: use, Short: short, Args: exactly("SESSION", "CALL"), RunE: func(c *cobra.Command, args []string) error {
		req := map[string]any{"session_id": args[0], "function_call_id": args[1], "decision": decision}
		if reason != "" {
			req["reason"] = reason
		}
		if remember {
			req["remember"] = "session"
		}
		var ans decisionAnswer
		if err := a.invoke(c.Context(), "approval::resolve", req, &ans); err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(ans); err != nil {
				return err
			}
		}
		if !ans.OK {
			return refused(ans, args[0])
		}
		if a.json {
			return nil
		}
		_, err := fmt.Fprintf(a.stdout, "%s: %s\n", past(decision), args[1])
		return err
	}}
	c.Flags().StringVar(&reason, "reason", "", "why; the model and the transcript show it")
	if decision == agent.DecisionAllow {
		c.Flags().BoolVar(&remember, "remember", false, "let the very same call pass in this session from now on; harness grants lists and revokes")
	}
	return c
}

func refused(ans decisionAnswer, session string) error {
	f := &failure{code: ans.Error, message: "the decision was not stored", exit: exitFailed}
	switch ans.Error {
	case "already_decided":
		f.message = fmt.Sprintf("%s was first: %s", ans.DecidedBy, past(ans.Decision))
	case "not_found":
		f.message = "no such call waits in this session"
		f.hint = "harness approvals lists the calls that wait"
	case "resume_failed":
		f.message = "the store failed; nothing was decided"
		f.hint = "try again: harness approvals shows whether the call still waits in " + session
	}
	return f
}

func past(decision string) string {
	switch decision {
	case agent.DecisionAllow:
		return "approved"
	case agent.DecisionDeny:
		return "denied"
	default:
		return decision
	}
}

type approvalsPage struct {
	Approvals []json.RawMessage `json:"approvals"`
	Cursor    string            `json:"cursor"`
}

func (a *app) approvalsCommand() *cobra.Command {
	return &cobra.Command{Use: "approvals", Short: "List the calls that wait for a person", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		conn, _, err := a.connect(c.Context(), nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		asked := &waitingCalls{bus: conn, sessions: map[string]map[string]json.RawMessage{}}
		n := 0
		for cursor := ""; ; {
			req := map[string]any{"limit": 50}
			if cursor != "" {
				req["cursor"] = cursor
			}
			var page approvalsPage
			if err := call(c.Context(), conn, "approval::list", req, &page); err != nil {
				return err
			}
			for _, row := range page.Approvals {
				n++
				if err := a.printApproval(c.Context(), asked, row); err != nil {
					return err
				}
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		if n == 0 && !a.json {
			fmt.Fprintln(a.stderr, "nothing waits")
		}
		return nil
	}}
}

func (a *app) printApproval(ctx context.Context, asked *waitingCalls, row json.RawMessage) error {
	var r agent.ApprovalRequest
	if err := json.Unmarshal(row, &r); err != nil {
		return err
	}
	full, err := asked.args(ctx, r.SessionID, r.FunctionCallID)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(withArgs(row, full))
	}
	excerpt, diff := splitDiff(r.ArgsExcerpt)
	args := string(excerpt) + "\n  (an excerpt: this token may not see the whole call, or it waits no longer)"
	if full != nil {
		args = a.decisionArgs(r.SessionID, full)
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s\n%s  asked by %s at %s\n  %s approve %s %s\n",
		r.FunctionID, args, diff, r.RequestedBy, when(r.RequestedAt), a.name(), r.SessionID, r.FunctionCallID)
	return err
}

// splitDiff takes the diff out of what is shown of a call, as lines of its own.
func splitDiff(excerpt json.RawMessage) (args json.RawMessage, diff string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(excerpt, &members) != nil || json.Unmarshal(members["diff"], &diff) != nil || diff == "" {
		return excerpt, ""
	}
	delete(members, "diff")
	args, err := json.Marshal(members)
	if err != nil {
		return excerpt, ""
	}
	return args, "  " + strings.ReplaceAll(strings.TrimRight(diff, "\n"), "\n", "\n  ") + "\n"
}
