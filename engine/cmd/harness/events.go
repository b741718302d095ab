package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/internal/agent"
)

func (a *app) eventsCommand() *cobra.Command {
	var from int64
	var follow bool
	c := &cobra.Command{Use: "events SESSION", Short: "Print a session's stored events", Args: exactly("SESSION"), RunE: func(c *cobra.Command, args []string) error {
		if from < 0 {
			return usagef("--from must be 0 or more")
		}
		ctx := c.Context()
		f, err := a.follow(ctx)
		if err != nil {
			return err
		}
		defer f.close()
		after := from - 1
		tail, err := f.start(ctx, args[0], &after)
		if err != nil {
			return err
		}
		for seen := after; follow || seen < tail; {
			l, err := f.next(ctx)
			if err != nil {
				return err
			}
			if l.Seq == nil && !follow {
				continue
			}
			if l.Seq != nil {
				seen = *l.Seq
			}
			if err := a.printEvent(l); err != nil {
				return err
			}
		}
		return nil
	}}
	c.Flags().Int64Var(&from, "from", 0, "the first sequence to print")
	c.Flags().BoolVar(&follow, "follow", false, "go on with what happens now")
	return c
}

func (a *app) printEvent(l line) error {
	if a.json {
		return a.printJSON(l)
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(l.Event, &head); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	seq := "     -"
	if l.Seq != nil {
		seq = fmt.Sprintf("%6d", *l.Seq)
	}
	_, err := fmt.Fprintf(a.stdout, "%s %-26s %s\n", seq, head.Type, eventDetail(head.Type, l.Event))
	return err
}

// eventDetail is what a person wants to see of an event.
func eventDetail(kind string, raw json.RawMessage) string {
	var e struct {
		FunctionID string              `json:"function_id"`
		CallID     string              `json:"function_call_id"`
		DurationMS int64               `json:"duration_ms"`
		IsError    bool                `json:"is_error"`
		Message    *agent.Message      `json:"message"`
		New        agent.TurnStateView `json:"new_value"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return string(raw)
	}
	switch kind {
	case agent.EventExecutionStart:
		return e.FunctionID + " " + e.CallID
	case agent.EventExecutionEnd:
		word := "ok"
		if e.IsError {
			word = "error"
		}
		return fmt.Sprintf("%s %s %s %d ms", e.FunctionID, e.CallID, word, e.DurationMS)
	case agent.EventTurnStateChanged:
		return e.New.State
	case agent.EventMessageComplete:
		if e.Message != nil {
			return clipText(messageText(*e.Message), 100)
		}
	}
	return ""
}

func messageText(m agent.Message) string {
	var s string
	for _, b := range m.Content {
		if b.Type == agent.BlockText {
			s += b.Text
		}
	}
	return s
}

func clipText(s string, n int) string {
	r := []rune(oneLine(s))
	if len(r) > n {
		return string(r[:n]) + "…"
	}
	return string(r)
}
