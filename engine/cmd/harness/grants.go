package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/internal/agent"
)

func (a *app) grantsCommand() *cobra.Command {
	var revoke string
	c := &cobra.Command{
		Use: "grants SESSION", Short: "List the calls that pass without asking, or revoke one", Args: exactly("SESSION"),
		RunE: func(c *cobra.Command, args []string) error {
			if revoke != "" {
				return a.revokeGrant(c, args[0], revoke)
			}
			var out struct {
				Grants []agent.Grant `json:"grants"`
			}
			if err := a.invoke(c.Context(), "approval::grants", map[string]string{"session_id": args[0]}, &out); err != nil {
				return err
			}
			for _, g := range out.Grants {
				if a.json {
					if err := a.printJSON(g); err != nil {
						return err
					}
					continue
				}
				_, err := fmt.Fprintf(a.stdout, "%s  %s %s  by %s, %s\n", g.ArgsHash, g.FunctionID, g.ArgsExcerpt, g.GrantedBy, when(g.GrantedAt))
				if err != nil {
					return err
				}
			}
			if len(out.Grants) == 0 && !a.json {
				fmt.Fprintln(a.stderr, "no grants in this session; harness approve SESSION CALL --remember gives one")
			}
			return nil
		},
	}
	c.Flags().StringVar(&revoke, "revoke", "", "end the grant with this hash")
	return c
}

func (a *app) revokeGrant(c *cobra.Command, session, hash string) error {
	var out struct {
		Revoked bool `json:"revoked"`
	}
	if err := a.invoke(c.Context(), "approval::revoke", map[string]string{"session_id": session, "args_hash": hash}, &out); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(out)
	}
	if !out.Revoked {
		return &failure{code: "not_found", message: "this session has no such grant", hint: "harness grants " + session + " lists them", exit: exitFailed}
	}
	_, err := fmt.Fprintln(a.stdout, "revoked")
	return err
}
