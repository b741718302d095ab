package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "0.1.0"

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string, env environment) int {
	ctx, stop := env.signals(ctx)
	defer stop()
	env.stdout, env.stderr = &visible{w: env.stdout}, &visible{w: env.stderr}
	a := &app{environment: env}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	return env.report(ctx, root.ExecuteContext(ctx))
}

// app is the state that the commands share.
type app struct {
	environment
	url, token, data string
	json             bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "harness",
		Short: "Run an agent harness and talk to it",
		Long: `An agent harness in which every job is a worker on one bus.

Start it here, with nothing but this program:
  harness dev

and in a second terminal:
  harness turn "what time is it, and list the files here"
  harness turn "run ls -la"      asks a person first; then: harness approvals
  harness chat                   talk to it`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				did := ""
				if near := c.SuggestionsFor(args[0]); len(near) > 0 {
					did = "; did you mean " + strings.Join(near, " or ") + "?"
				}
				return usagef("unknown command %q%s; harness help lists them", args[0], did)
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetVersionTemplate("harness {{.Version}}\n")
	root.PersistentFlags().StringVar(&a.url, "url", "", "bus URL (default: HARNESS_URL, else the running dev server)")
	root.PersistentFlags().StringVar(&a.token, "token", "", "API token (default: HARNESS_TOKEN, else the dev server's)")
	root.PersistentFlags().StringVar(&a.data, "data", ".harness", "data folder")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "one JSON object a line")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s; harness help %s shows the flags", err, c.Name())
	})
	root.AddCommand(a.devCommand(), a.turnCommand(), a.chatCommand(), a.approveCommand(), a.denyCommand(), a.approvalsCommand(), a.grantsCommand(),
		a.abortCommand(), a.eventsCommand(), a.sessionsCommand(), a.sessionCommand(), a.functionsCommand(), a.workersCommand(),
		a.callCommand(), a.tokenCommand(), a.versionCommand())
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: exactly(), RunE: func(*cobra.Command, []string) error {
		if a.json {
			return a.printJSON(map[string]string{"version": version})
		}
		_, err := fmt.Fprintln(a.stdout, "harness "+version)
		return err
	}}
}

// exactly takes just the named arguments.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing; usage: %s", names[len(args)], c.UseLine())
		}
		if len(args) > len(names) {
			return usagef("unexpected argument %q; usage: %s", args[len(names)], c.UseLine())
		}
		for i, arg := range args {
			if arg == "" {
				return usagef("%s is empty; usage: %s", names[i], c.UseLine())
			}
		}
		return nil
	}
}

// printJSON writes one object on one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
