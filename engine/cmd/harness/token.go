package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Create, list and revoke API tokens", Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q; allowed: token create, token list, token revoke ID", args[0])
		}
		return c.Help()
	}}
	c.AddCommand(a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	return c
}

func (a *app) tokenCreate() *cobra.Command {
	var r access.CreateRequest
	var role string
	c := &cobra.Command{Use: "create --role client|approver|operator|worker", Short: "Create a token; its secret is shown once", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		r.Role = bus.Role(role)
		switch r.Role {
		case bus.RoleClient, bus.RoleApprover, bus.RoleOperator, bus.RoleWorker:
		default:
			return usagef("--role is %q; allowed: client, approver, operator, worker", role)
		}
		if _, err := access.Lifetime(r.Expires); err != nil {
			return usagef("--expires: %s", err)
		}
		var out access.CreateResponse
		if err := a.invoke(c.Context(), "auth::api_tokens::create", r, &out); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(out)
		}
		if r.Role == bus.RoleApprover && len(r.Sessions) == 0 {
			fmt.Fprintln(a.stderr, "note: without --sessions this approver sees no session; --sessions '*' is all")
		}
		fmt.Fprintln(a.stderr, "this is shown once; keep it as you would a password")
		_, err := fmt.Fprintln(a.stdout, out.Token)
		return err
	}}
	f := c.Flags()
	f.StringVar(&role, "role", "", "client, approver, operator or worker")
	f.StringVar(&r.Name, "name", "", "a name for lists")
	f.StringVar(&r.Workspace, "workspace", "", "workspace whose budgets pay")
	f.StringArrayVar(&r.Sessions, "sessions", nil, "glob over the sessions an approver sees (may repeat)")
	f.StringArrayVar(&r.Register, "register", nil, "glob over the function ids a worker may serve (may repeat)")
	f.StringArrayVar(&r.Call, "call", nil, "glob over the function ids that may be called (may repeat)")
	f.BoolVar(&r.ActAs, "act-as", false, "may name the person it acts for")
	f.StringVar(&r.Expires, "expires", "", "lifetime such as 24h or 90d; empty for ever")
	return c
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List tokens, newest first, without their secrets", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		var out struct {
			Tokens []json.RawMessage `json:"tokens"`
		}
		if err := a.invoke(c.Context(), "auth::api_tokens::list", struct{}{}, &out); err != nil {
			return err
		}
		return printRows(a, out.Tokens, func(r access.Row) string {
			expires := "never expires"
			if r.ExpiresAt != nil {
				expires = "expires " + when(*r.ExpiresAt)
			}
			return fmt.Sprintf("%s  %-8s  %-20s  made %s, %s", r.ID, r.Role, r.Name, when(r.CreatedAt), expires)
		})
	}}
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{Use: "revoke ID", Short: "Revoke a token; its connections are closed", Args: exactly("ID"), RunE: func(c *cobra.Command, args []string) error {
		var out struct {
			Revoked bool `json:"revoked"`
		}
		if err := a.invoke(c.Context(), "auth::api_tokens::revoke", map[string]string{"id": args[0]}, &out); err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(out); err != nil {
				return err
			}
		}
		if !out.Revoked {
			return &failure{code: "not_found", message: "no token has the id " + args[0], exit: exitFailed, hint: "harness token list shows the ids"}
		}
		if a.json {
			return nil
		}
		_, err := fmt.Fprintln(a.stdout, "revoked", args[0])
		return err
	}}
}
