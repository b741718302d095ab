package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/bus"
)

const maxStdin = 16 << 20

func (a *app) callCommand() *cobra.Command {
	var timeout time.Duration
	var void bool
	var queue string
	c := &cobra.Command{Use: "call FUNCTION_ID [JSON|-]", Short: "Call any function", RunE: func(c *cobra.Command, args []string) error {
		if len(args) < 1 || len(args) > 2 || args[0] == "" {
			return usagef("FUNCTION_ID, or FUNCTION_ID and one payload, is wanted: %s", c.UseLine())
		}
		if void && queue != "" {
			return usagef("--void and --queue exclude each other")
		}
		if timeout <= 0 {
			return usagef("--timeout must be more than 0, such as 30s")
		}
		payload, err := a.payload(args[1:])
		if err != nil {
			return err
		}
		in := bus.Invocation{FunctionID: args[0], Data: payload, Timeout: timeout}
		switch {
		case void:
			in.Action = bus.Void
		case queue != "":
			in.Action, in.Queue = bus.Enqueue, queue
		}
		conn, _, err := a.connect(c.Context(), nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		out, err := conn.Invoke(c.Context(), in)
		if err != nil {
			return err
		}
		if void {
			return nil
		}
		if len(out) == 0 {
			out = json.RawMessage("null")
		}
		_, err = fmt.Fprintln(a.stdout, string(out))
		return err
	}}
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	c.Flags().BoolVar(&void, "void", false, "do not wait for a result")
	c.Flags().StringVar(&queue, "queue", "", "put the call on this queue; prints the receipt")
	return c
}

func (a *app) payload(args []string) (json.RawMessage, error) {
	text := "{}"
	if len(args) == 1 {
		text = args[0]
	}
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxStdin+1))
		if err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
		if len(b) > maxStdin {
			return nil, usagef("the payload on stdin is larger than %d bytes", maxStdin)
		}
		text = string(b)
	}
	text = strings.TrimSpace(text)
	if !json.Valid([]byte(text)) {
		return nil, usagef("the payload is not valid JSON; example: harness call demo::time '{\"time_zone\":\"Europe/Paris\"}'")
	}
	return json.RawMessage(text), nil
}
