package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
)

func when(ms int64) string { return clock.FromMillis(ms).Local().Format(time.DateTime) }

// printRows prints each row: as JSON, or by text.
func printRows[T any](a *app, rows []json.RawMessage, text func(T) string) error {
	for _, raw := range rows {
		if a.json {
			if err := a.printJSON(raw); err != nil {
				return err
			}
			continue
		}
		var row T
		if err := json.Unmarshal(raw, &row); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.stdout, text(row)); err != nil {
			return err
		}
	}
	return nil
}

type sessionRow struct {
	SessionID string `json:"session_id"`
	UpdatedAt int64  `json:"updated_at"`
	Entries   int    `json:"entry_count"`
	Summary   string `json:"last_message_summary"`
}

func (a *app) sessionsCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "sessions", Short: "List your sessions, newest first", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		if limit < 1 {
			return usagef("--limit must be 1 or more")
		}
		var out struct {
			Sessions []json.RawMessage `json:"sessions"`
		}
		if err := a.invoke(c.Context(), "session-tree::list", map[string]any{"limit": limit}, &out); err != nil {
			return err
		}
		return printRows(a, out.Sessions, func(r sessionRow) string {
			return fmt.Sprintf("%s  %s  %3d entries  %s", r.SessionID, when(r.UpdatedAt), r.Entries, oneLine(r.Summary))
		})
	}}
	c.Flags().IntVar(&limit, "limit", 100, "how many")
	return c
}

func (a *app) sessionCommand() *cobra.Command {
	c := &cobra.Command{Use: "session", Short: "Look at one session", Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q; allowed: session show ID", args[0])
		}
		return c.Help()
	}}
	c.AddCommand(&cobra.Command{Use: "show ID", Short: "Print a session's transcript", Args: exactly("ID"), RunE: func(c *cobra.Command, args []string) error {
		var out struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := a.invoke(c.Context(), "session-tree::messages", map[string]any{"session_id": args[0]}, &out); err != nil {
			return err
		}
		return printRows(a, out.Messages, func(e transcriptEntry) string { return e.String() })
	}})
	return c
}

type transcriptEntry struct {
	EntryID string        `json:"entry_id"`
	Message agent.Message `json:"message"`
}

// String is the message as a person reads it.
func (e transcriptEntry) String() string {
	var b strings.Builder
	m := e.Message
	fmt.Fprintf(&b, "[%s] %s", when(m.Timestamp), m.Role)
	if m.Role == agent.RoleFunctionResult {
		fmt.Fprintf(&b, " %s", m.FunctionID)
		if m.IsError {
			b.WriteString(" (error)")
		}
	}
	for _, block := range m.Content {
		switch block.Type {
		case agent.BlockText:
			b.WriteString("\n  " + strings.ReplaceAll(block.Text, "\n", "\n  "))
		case agent.BlockFunctionCall:
			fmt.Fprintf(&b, "\n  -> %s", block.Arguments)
		default:
			fmt.Fprintf(&b, "\n  (%s)", block.Type)
		}
	}
	return b.String()
}

type functionRow struct {
	ID          string `json:"function_id"`
	Worker      string `json:"worker_name"`
	Description string `json:"description"`
}

func (a *app) functionsCommand() *cobra.Command {
	return &cobra.Command{Use: "functions [PREFIX]", Short: "List what the bus serves now", RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("unexpected argument %q; usage: %s", args[1], c.UseLine())
		}
		req := map[string]any{}
		if len(args) == 1 {
			req["prefix"] = args[0]
		}
		var out struct {
			Functions []json.RawMessage `json:"functions"`
		}
		if err := a.invoke(c.Context(), "engine::functions::list", req, &out); err != nil {
			return err
		}
		return printRows(a, out.Functions, func(r functionRow) string {
			return fmt.Sprintf("%-36s %-20s %s", r.ID, r.Worker, oneLine(r.Description))
		})
	}}
}

type workerRow struct {
	Name      string `json:"name"`
	ID        string `json:"id"`
	Runtime   string `json:"runtime"`
	Status    string `json:"status"`
	Isolation string `json:"isolation"`
	Functions int    `json:"function_count"`
}

func (a *app) workersCommand() *cobra.Command {
	return &cobra.Command{Use: "workers", Short: "List who serves the functions", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		var out struct {
			Workers []json.RawMessage `json:"workers"`
		}
		if err := a.invoke(c.Context(), "engine::workers::list", map[string]any{}, &out); err != nil {
			return err
		}
		return printRows(a, out.Workers, func(r workerRow) string {
			return fmt.Sprintf("%-22s %-10s %-10s %3d functions  %s", r.Name, r.Runtime, r.Status, r.Functions, r.Isolation)
		})
	}}
}

func (a *app) abortCommand() *cobra.Command {
	return &cobra.Command{Use: "abort SESSION", Short: "End the running turn of a session", Args: exactly("SESSION"), RunE: func(c *cobra.Command, args []string) error {
		var out struct {
			SessionID string `json:"session_id"`
			Aborted   bool   `json:"aborted"`
			State     string `json:"state"`
		}
		if err := a.invoke(c.Context(), "run::abort", map[string]any{"session_id": args[0]}, &out); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(out)
		}
		text := "aborted " + args[0]
		if !out.Aborted {
			text = fmt.Sprintf("nothing ran in %s (state %s)", args[0], out.State)
		}
		_, err := fmt.Fprintln(a.stdout, text)
		return err
	}}
}
